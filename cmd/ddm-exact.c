/* Makes of a data set the model that training on it aims at: samples in the place of networks. */
#include <stdio.h>
#include <string.h>

#include "data/clusterarg.h"
#include "cmd/cmd.h"
#include "data/operand.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/dataset.h"
#include "data/gather.h"
#include "diffusion/finitemodel.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/standing.h"

static struct manifest shards_manifest;
static const char *cluster_text, *out;
static int64_t limit, size, threads;
static uint64_t seed;
static int split, path_choice, predict, no_verify;
static const char *const splits[] = {"train", "holdout", "all", NULL}, *const paths[] = {"linear", "cosine",
	"linear_betas", "scaled_linear_betas", "cosine_betas", "gvp", "edm", NULL};
static const enum samples_part parts[] = {SAMPLES_TRAIN, SAMPLES_HOLDOUT, SAMPLES_ALL};

static const struct option options[] = {
    OPTION_GROUP("Samples"),
    {"--cluster", 0, OPTION_TEXT, &cluster_text, 0, 0, "K|all",
     "one expert in DIR itself, of one cluster or of all (default every expert and the router)", OPTION_ALWAYS},
    {"--split", 0, OPTION_CHOICE, &split, 0, 0, "PART", "which samples (default train)", splits, OPTION_ALWAYS},
    {"--limit", 0, OPTION_INT, &limit, 1, 1e12, "N", "at most N samples of each cluster, chosen by the seed (default all)", OPTION_ALWAYS},
    {"--seed", 0, OPTION_U64, &seed, 0, 0, "S", "seed of that choice (default 0)", .when = {{USE_NEEDS, "--limit"}}},
    {"--size", 0, OPTION_INT, &size, 1, 65536, "N", "resize pictures to N x N", OPTION_ALWAYS},
    OPTION_GROUP("Model"),
    {"--path", 0, OPTION_CHOICE, &path_choice, 0, 0, "NAME", "the path on which experts are asked (default linear)", paths, OPTION_ALWAYS},
    {"--predict", 0, OPTION_CHOICE, &predict, 0, 0, "WHAT", "what experts answer (default velocity)", prediction_names,
     OPTION_ALWAYS, .was_value = "v", .is_value = "velocity"},
    OPTION_GROUP("Machine and output"),
    {"--no-verify", 0, OPTION_FLAG, &no_verify, 0, 0, NULL, "do not check the shards' hashes first", OPTION_ALWAYS},
    {"--threads", 0, OPTION_INT, &threads, 0, 1024, "N", "threads; changes no result (default: all there are)", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, &out, 0, 0, "DIR", "the folder to make", .required = "the folder for the model",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-exact",
    .operands = "SHARDS",
    .about = "Make the optimal experts and router of a data set: models that hold its samples and compute the denoiser from them",
    .options = options,
};

enum { EVERY = -2 };

static struct stamp *make_stamp(const char *manifest)
{
	struct stamp *s = stamp_new(program.name);

	if (cluster_text)
		stamp_text(s, "cluster", cluster_text);
	stamp_text(s, "split", splits[split]);
	if (limit) {
		stamp_i64(s, "limit", limit);
		stamp_u64(s, "seed", seed);
	}
	if (size)
		stamp_i64(s, "size", size);
	stamp_text(s, "path", paths[path_choice]);
	stamp_text(s, "predict", predict == PREDICT_VELOCITY ? "v" : prediction_names[predict]);
	stamp_input(s, "shards", manifest);
	return s;
}

/* Whether what stands there is whole: every folder loads, and its samples are those its config.json names. */
static int check_standing(struct pool *pool, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int rc = 0, parts_seen = 0;

	if (dir_list(out, &names, &n, e))
		return -1;
	for (size_t i = 0; i <= n && !rc; i++) {
		char *dir = i < n ? path_join(out, names[i]) : mem_strdup(out);
		int mine = i < n ? !strncmp(names[i], "expert_", 7) || !strcmp(names[i], "router") : !parts_seen;
		struct finite_model *m = mine ? finite_model_open(dir, pool, NULL, e) : NULL;

		rc = mine && !m ? -1 : 0;
		parts_seen += mine;
		finite_model_free(m);
		mem_free(dir);
	}
	names_free(names, n);
	return rc;
}

/* 1 when the output is there from the same command, 0 when it is to be made, -1 when the name is taken. */
static int finished(const struct stamp *stamp, struct pool *pool, struct err *e)
{
	char *config = path_join(out, "config.json");
	int rc = path_exists(config) ? 1 : 0;

	if (rc && (standing_check(config, stamp, 0, e) || check_standing(pool, e)))
		rc = -1;
	mem_free(config);
	return rc;
}

/* What config.json of every folder says alike. */
static struct model_config describe(const struct gathered *g, enum net_role role, int cluster)
{
	struct model_config c = {.net = {.def = net_exact_of(role), .channels = g->channels, .out_channels = g->channels, .size = g->size},
	                         .cluster = cluster, .clusters = g->clusters, .cluster_sizes = g->sizes,
	                         .cluster_names = shards_manifest.cluster_names};

	memcpy(c.partition, shards_manifest.partition, sizeof c.partition);
	c.net.clusters = role == NET_CLASSIFIER ? g->clusters : 0;
	snprintf(c.path, sizeof c.path, "%s", role == NET_CLASSIFIER ? "linear" : paths[path_choice]);
	if (role == NET_EXPERT)
		snprintf(c.prediction, sizeof c.prediction, "%s", prediction_names[predict]);
	return c;
}

/* Samples from .. to - 1 as one expert. */
static int write_expert(const char *dir, const struct gathered *g, int cluster, int64_t from, int64_t to, json_t *stamp, struct err *e)
{
	struct model_config c = describe(g, NET_EXPERT, cluster);
	struct finite_set s = {.n = to - from, .d = g->d, .bytes = g->bytes};

	s.sample = (const uint8_t *)g->sample + (size_t)(from * g->d) * (g->bytes ? 1 : sizeof(float));
	return finite_model_write(dir, &c, &s, stamp, e);
}

static int write_summary(const char *dir, const struct gathered *g, json_t *stamp, struct err *e)
{
	char *path = path_join(dir, "config.json"), *text;
	json_t *o = json_object();
	int rc;

	json_object_set_new(o, "num_experts", json_integer(g->clusters));
	json_object_set(o, "stamp", stamp);
	text = jsonio_pretty(o);
	rc = commit_bytes(path, text, strlen(text), e);
	mem_free(text);
	mem_free(path);
	json_decref(o);
	return rc;
}

static int write_model(const char *dir, const struct gathered *g, json_t *stamp, struct err *e)
{
	struct model_config c = describe(g, NET_CLASSIFIER, -1);
	struct finite_set s = {.n = g->n, .d = g->d, .bytes = g->bytes, .sample = g->sample, .clusters = g->clusters, .first = g->first};
	char *sub = path_join(dir, "router");
	int rc = finite_model_write(sub, &c, &s, stamp, e);

	mem_free(sub);
	for (int k = 0; k < g->clusters && !rc; k++) {
		if (g->first[k + 1] == g->first[k])
			continue;
		sub = str_new("%s/expert_%d", dir, k);
		rc = write_expert(sub, g, k, g->first[k], g->first[k + 1], stamp, e);
		mem_free(sub);
	}
	return rc || write_summary(dir, g, stamp, e) ? -1 : 0;
}

static int make(const char *shards, int cluster, const struct stamp *stamp, struct pool *pool, struct err *e)
{
	struct progress show = cmd_progress();
	struct gather_options o = {.cluster = cluster == EVERY ? DATASET_ALL : cluster, .part = parts[split], .limit = limit, .seed = seed,
	                           .size = (int)size, .verify = !no_verify, .pool = pool, .progress = &show};
	json_t *line = json_incref((json_t *)stamp_root(stamp));
	struct gathered g = {0};
	struct outdir d = {0};
	int rc = gather(&g, shards, &o, e);

	if (!rc)
		rc = outdir_begin(&d, out, e);
	if (!rc)
		rc = cluster == EVERY ? write_model(d.tmp, &g, line, e) : write_expert(d.tmp, &g, cluster, 0, g.n, line, e);
	if (!rc && cmd_signal)
		rc = err_set(e, ERR_AGAIN, "interrupted");
	if (!rc)
		rc = outdir_commit(&d, e);
	if (!rc)
		cmd_say("%s: %lld samples of %lld x %lld x %lld, %.4g GFLOP for a denoised sample", out, (long long)g.n, (long long)g.channels,
		        (long long)g.size, (long long)g.size, 4e-9 * (double)g.n * (double)g.d);
	outdir_abort(&d);
	gathered_release(&g);
	json_decref(line);
	return rc;
}

static int parse_request(const char *shards, int *cluster, struct err *e)
{
	static char number[16];
	int64_t k;

	*cluster = EVERY;
	if (!cluster_text)
		return 0;
	if (cluster_argument(cluster_text, shards, &k, e))
		return -1;
	*cluster = k < 0 ? DATASET_ALL : (int)k;
	if (k >= 0) {
		snprintf(number, sizeof number, "%d", *cluster);
		cluster_text = number; /* the stamp is the same whatever it was called by */
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct stamp *stamp = NULL;
	struct pool *pool = NULL;
	struct err e = {0};
	int cluster, done;

	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	if (!parse_request(argv[1], &cluster, &e) && !operand_shards(argv[1], &e) && (pool = pool_new((int)threads, &e)) &&
	    !manifest_load(&shards_manifest, argv[1], &e)) {
		stamp = make_stamp(shards_manifest.sha256);
		done = finished(stamp, pool, &e);
		if (done > 0)
			cmd_say("%s: complete, nothing to do", out);
		else if (!done)
			make(argv[1], cluster, stamp, pool, &e);
	}
	stamp_free(stamp);
	manifest_release(&shards_manifest);
	pool_free(pool);
	return cmd_end_over(&e);
}
