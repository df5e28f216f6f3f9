/* Writes the exact model of a data set: experts that compute the optimal denoiser from the samples, without a network. */
#include "data/exactmodel.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/named.h"
#include "core/str.h"
#include "data/clusterarg.h"
#include "data/dataset.h"
#include "data/gather.h"
#include "data/operand.h"
#include "diffusion/lawmodel.h"
#include "diffusion/objective.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/optionstamp.h"

#define REQUEST(member) OPTION_FIELD(struct exact_request, member)

static const char *const splits[] = {"train", "holdout", "all", NULL};

/* Names as in config.json. */
#define PATH_LIST(ROW) \
	ROW("linear", 0) \
	ROW("cosine", 0) \
	ROW("linear_betas", 0) \
	ROW("scaled_linear_betas", 0) \
	ROW("cosine_betas", 0) \
	ROW("gvp", 0) \
	ROW("edm", 1)

#define NAME(name, count) name,
#define NAMED(name, count) SIGMA_DATA_NAMED(name, count),
static const char *const path_names[] = {PATH_LIST(NAME) NULL};
static const struct named paths[] = {PATH_LIST(NAMED)};
static const struct named_table path_table = NAMED_TABLE(paths);
static const enum samples_part parts[] = {SAMPLES_TRAIN, SAMPLES_HOLDOUT, SAMPLES_ALL};

enum { EVERY = -2 };

static int is_limited(const void *request)
{
	return ((const struct exact_request *)request)->limit > 0;
}

static int parse_path(void *field, const char *label, const char *text, struct err *e)
{
	struct exact_path *path = field;
	double number[NAMED_NUMBERS];
	int i = named_parse(&path_table, text, number, e);

	if (i < 0)
		return err_prefix(e, "%s", label);
	*path = (struct exact_path){i, number[0] == SIGMA_DATA_USUAL ? 0 : number[0]};
	return 0;
}

static void put_path(struct stamp *s, const char *key, const void *field)
{
	const struct exact_path *path = field;

	stamp_text(s, key, path_names[path->kind]);
	if (path->sigma_data)
		stamp_f64(s, "sigma_data", path->sigma_data);
}

static void put_prediction(struct stamp *s, const char *key, const void *field)
{
	int kind = *(const int *)field;

	stamp_text(s, key, kind == PREDICT_VELOCITY ? "v" : prediction_names[kind]);
}

/* In the order of the stamp's keys. */
const struct option exact_options[] = {
    OPTION_GROUP("Samples"),
    {"--cluster", .type = OPTION_TEXT, REQUEST(cluster), .arg = "K|all", .said = "default every expert and the router",
     .help = "one expert in DIR itself, of one cluster or of all", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "cluster"},
    {"--split", .type = OPTION_CHOICE, REQUEST(split), .arg = "PART", .choices = splits, .preset = "train", .help = "which samples", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "split"},
    {"--limit", .type = OPTION_INT, REQUEST(limit), .lo = 1, .hi = 1e12, .arg = "N", .said = "default all",
     .help = "at most N samples of each cluster, chosen by the seed", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "limit"},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the choice that --limit makes",
     .when = {{USE_NEEDS, "--limit"}}, .stamp = STAMP_ALWAYS, .key = "seed", .counts = is_limited},
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = 1, .hi = 65536, .arg = "N", .help = "resize pictures to N x N", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "size"},
    OPTION_GROUP("Model"),
    {"--path", .type = OPTION_PARSED, REQUEST(path), .arg = "NAME", .choices = path_names, .preset = "linear", .parse = parse_path, .put = put_path,
     .help = "diffusion path of the experts; edm:S is for data of standard deviation S", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "path"},
    {"--predict", .type = OPTION_CHOICE, REQUEST(prediction), .arg = "WHAT", .choices = prediction_names, .preset = "velocity",
     .help = "what experts predict", OPTION_ALWAYS, .was_value = "v", .is_value = "velocity", .put = put_prediction, .stamp = STAMP_ALWAYS,
     .key = "predict"},
    {"--time-range", .type = OPTION_PARSED, REQUEST(range), .arg = "A..B", .parse = time_range_option, .put = time_range_stamp,
     .help = "make experts for times from A to B", .preset = "0..1", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "time_range"},
    OPTION_GROUP("Machine and output"),
    {"--no-verify", .type = OPTION_OFF, REQUEST(verify), .preset = "1", .help = "do not check the shards' hashes first", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "DIR", .help = "the folder to make", .required = "the folder for the model", OPTION_ALWAYS},
    {0},
};

struct exact_request exact_defaults(void)
{
	struct exact_request r = {0};

	option_presets(exact_options, &r);
	return r;
}

/* One call of exact_make. */
struct exact_job {
	const struct exact_request *r;
	struct manifest manifest;
	struct pool *pool;
	int cluster; /* EVERY, or as struct gather_options has it */
	volatile sig_atomic_t *stop;
	struct exact_report *report;
};

static struct stamp *make_stamp(const struct exact_job *j)
{
	static const struct option *const tables[] = {exact_options, NULL};
	struct exact_request named = *j->r;
	struct stamp *s = stamp_new(named.program);
	char number[16];

	/* The stamp does not depend on whether the cluster was given by name or by number. */
	snprintf(number, sizeof number, "%d", j->cluster);
	if (j->cluster >= 0)
		named.cluster = number;
	optionstamp_put(s, tables, &named, "");
	stamp_input(s, "shards", j->manifest.sha256);
	return s;
}

/* The entries that config.json of every folder shares. */
static struct model_config describe(const struct exact_job *j, const struct gathered *g, enum net_role role, int cluster)
{
	struct model_config c = {.net = {.def = net_exact_of(role), .channels = g->channels, .out_channels = g->channels, .size = g->size},
	                         .cluster = cluster,
	                         .clusters = g->clusters,
	                         .cluster_sizes = g->sizes,
	                         .extends = j->manifest.extends,
	                         .cluster_names = j->manifest.cluster_names};

	memcpy(c.partition, j->manifest.partition, sizeof c.partition);
	c.net.clusters = role == NET_CLASSIFIER ? g->clusters : 0;
	if (role == NET_CLASSIFIER) {
		snprintf(c.path, sizeof c.path, "linear");
		return c;
	}
	snprintf(c.path, sizeof c.path, "%s", path_names[j->r->path.kind]);
	c.sigma_data = j->r->path.sigma_data;
	c.range = j->r->range;
	snprintf(c.prediction, sizeof c.prediction, "%s", prediction_names[j->r->prediction]);
	return c;
}

/* Write samples [from, to) as one expert. */
static int write_expert(const struct exact_job *j, const char *dir, const struct gathered *g, int cluster, int64_t from, int64_t to, json_t *stamp,
                        struct err *e)
{
	struct model_config c = describe(j, g, NET_EXPERT, cluster);
	struct finite_set s = {.n = to - from, .d = g->d, .bytes = g->bytes};

	s.sample = (const uint8_t *)g->sample + (size_t)(from * g->d) * (g->bytes ? 1 : sizeof(float));
	return law_model_write(dir, &c, &s, stamp, e);
}

static int write_model(const struct exact_job *j, const char *dir, const struct gathered *g, json_t *stamp, struct err *e)
{
	struct model_config c = describe(j, g, NET_CLASSIFIER, -1);
	struct finite_set s = {.n = g->n, .d = g->d, .bytes = g->bytes, .sample = g->sample, .clusters = g->clusters, .first = g->first};
	char *sub = path_join(dir, "router");
	int rc = law_model_write(sub, &c, &s, stamp, e);

	mem_free(sub);
	for (int k = 0; k < g->clusters && !rc; k++) {
		if (g->first[k + 1] == g->first[k])
			continue;
		sub = str_new("%s/expert_%d", dir, k);
		rc = write_expert(j, sub, g, k, g->first[k], g->first[k + 1], stamp, e);
		mem_free(sub);
	}
	return rc || law_model_write_summary(dir, g->clusters, stamp, e) ? -1 : 0;
}

static int make(const struct exact_job *j, const struct stamp *stamp, struct err *e)
{
	const struct exact_request *r = j->r;
	struct gather_options o = {.cluster = j->cluster == EVERY ? DATASET_ALL : j->cluster,
	                           .part = parts[r->split],
	                           .limit = r->limit,
	                           .seed = r->seed,
	                           .size = (int)r->size,
	                           .verify = r->verify,
	                           .pool = j->pool,
	                           .progress = r->progress};
	json_t *line = json_incref((json_t *)stamp_root(stamp));
	struct gathered g = {0};
	struct outdir d = {0};
	int rc = gather(&g, r->shards, &o, e);

	if (!rc)
		rc = outdir_begin(&d, r->out, e);
	if (!rc)
		rc = j->cluster == EVERY ? write_model(j, d.tmp, &g, line, e) : write_expert(j, d.tmp, &g, j->cluster, 0, g.n, line, e);
	if (!rc && j->stop && *j->stop)
		rc = err_set(e, ERR_AGAIN, "interrupted");
	if (!rc)
		rc = outdir_commit(&d, e);
	if (!rc)
		*j->report = (struct exact_report){1, g.n, g.channels, g.size, 4 * (double)g.n * (double)g.d};
	outdir_abort(&d);
	gathered_release(&g);
	json_decref(line);
	return rc;
}

static int find_cluster(struct exact_job *j, struct err *e)
{
	int64_t k;

	j->cluster = EVERY;
	if (!j->r->cluster)
		return 0;
	if (cluster_argument(j->r->cluster, j->r->shards, &k, e))
		return -1;
	j->cluster = k < 0 ? DATASET_ALL : (int)k;
	return 0;
}

int exact_make(const struct exact_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct exact_report *report, struct err *e)
{
	struct exact_job j = {.r = r, .pool = pool, .stop = stop, .report = report};
	struct stamp *stamp;
	int rc;

	*report = (struct exact_report){0};
	if (find_cluster(&j, e) || operand_shards(r->shards, e) || manifest_load(&j.manifest, r->shards, e))
		return -1;
	stamp = make_stamp(&j);
	rc = law_model_finished(r->out, stamp, pool, e);
	if (!rc)
		rc = make(&j, stamp, e);
	stamp_free(stamp);
	manifest_release(&j.manifest);
	return rc < 0 ? -1 : 0;
}
