/* Makes laws with a known optimum, and draws samples from them. */
#include "data/synth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/gaussianspec.h"
#include "diffusion/lawmodel.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/optionstamp.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "file/tsv.h"

#define REQUEST(member) OPTION_FIELD(struct synth_request, member)
#define OF_LAW .when = {{USE_NEEDS, "1=gaussians"}}, .counts = is_law
#define OF_DRAW .when = {{USE_NEEDS, "1=draw"}}, .counts = is_draw

static const char *const commands[] = {"gaussians", "draw", NULL};

/* The dimensions of the largest samples: 4096 x 4096, or a vector of the channels that an exact model may have. */
enum { VECTOR_MOST = 4096, SIDE_MOST = 65536, ELEMENTS_MOST = 1 << 24 };

static int is_law(const void *request)
{
	return ((const struct synth_request *)request)->command != SYNTH_DRAW;
}

static int is_draw(const void *request)
{
	return ((const struct synth_request *)request)->command == SYNTH_DRAW;
}

static int has_weights(const void *request)
{
	return is_law(request) && ((const struct synth_request *)request)->weights.n > 0;
}

/* The part of a list before the next `mark`, in buf (32 bytes; longer parts are cut, and then no number); returns what follows it, or NULL. Allocates
 * nothing, as option_presets requires. */
static const char *next_part(char buf[32], const char *list, const char *mark)
{
	size_t len = strcspn(list, mark);

	snprintf(buf, 32, "%.*s", len < 32 ? (int)len : 0, list);
	return list[len] ? list + len + 1 : NULL;
}

/* "CxSxS" or "D". */
static int parse_shape(void *field, const char *label, const char *text, struct err *e)
{
	struct synth_shape *shape = field;
	int64_t v[3] = {0, 1, 1};
	const char *at = text;
	int n = 0, good = 1;
	char part[32];

	while (good && at && n < 3) {
		at = next_part(part, at, "x");
		good = !parse_i64(part, 1, n ? SIDE_MOST : VECTOR_MOST, &v[n]);
		n++;
	}
	if (!good || at || n == 2)
		return err_set(e, ERR_USAGE, "%s: '%s' is neither a number of elements up to %d nor CxHxW, such as 3x16x16", label, text,
		               VECTOR_MOST);
	if (v[1] != v[2])
		return err_set(e, ERR_USAGE, "%s: pictures of %lld x %lld are not square, and networks need square ones", label, (long long)v[1],
		               (long long)v[2]);
	if (v[0] * v[1] > ELEMENTS_MOST / v[2])
		return err_set(e, ERR_USAGE, "%s: '%s' has more than %d elements", label, text, ELEMENTS_MOST);
	*shape = (struct synth_shape){v[0], v[1]};
	return 0;
}

static void put_shape(struct stamp *s, const char *key, const void *field)
{
	const struct synth_shape *shape = field;

	stamp_json(s, key, json_pack("[I,I,I]", (json_int_t)shape->channels, (json_int_t)shape->size, (json_int_t)shape->size));
}

static int parse_overlap(void *field, const char *label, const char *text, struct err *e)
{
	double *overlap = field;

	*overlap = -1;
	if (!strcmp(text, "random") || !parse_f64(text, 0, 1, overlap))
		return 0;
	return err_set(e, ERR_USAGE, "%s: '%s' is neither 'random' nor a cosine from 0 to 1", label, text);
}

static void put_overlap(struct stamp *s, const char *key, const void *field)
{
	double overlap = *(const double *)field;

	if (overlap < 0)
		stamp_text(s, key, "random");
	else
		stamp_f64(s, key, overlap);
}

static int parse_weights(void *field, const char *label, const char *text, struct err *e)
{
	struct synth_weights *w = field;

	w->n = 0;
	if (!strcmp(text, "equal"))
		return 0;
	for (const char *at = text; at;) {
		char part[32];

		at = next_part(part, at, ",");
		if (w->n == SYNTH_WEIGHTS)
			return err_set(e, ERR_USAGE, "%s: more than %d weights", label, SYNTH_WEIGHTS);
		if (parse_f64(part, 1e-9, 1, &w->v[w->n++]))
			return err_set(e, ERR_USAGE, "%s: '%s' is not a weight above 0 and up to 1", label, part);
	}
	return 0;
}

static void put_weights(struct stamp *s, const char *key, const void *field)
{
	const struct synth_weights *w = field;
	json_t *list = json_array();

	for (int i = 0; i < w->n; i++)
		json_array_append_new(list, json_real(w->v[i]));
	stamp_json(s, key, list);
}

/* In the order of the stamp's keys. */
const struct option synth_options[] = {
    OPTION_GROUP("The law (gaussians)"),
    {"--shape", .type = OPTION_PARSED, REQUEST(shape), .arg = "CxHxW|D", .parse = parse_shape, .put = put_shape, .preset = "1x8x8",
     .help = "shape of a sample; D: a vector", OF_LAW, .stamp = STAMP_ALWAYS, .key = "shape"},
    {"--components", 'k', OPTION_INT, REQUEST(components), .lo = 1, .hi = SYNTH_WEIGHTS, .arg = "K", .preset = "4",
     .help = "number of Gaussians, which are the clusters", OF_LAW, .stamp = STAMP_ALWAYS, .key = "components"},
    {"--rank", .type = OPTION_INT, REQUEST(rank), .lo = 1, .hi = 65536, .arg = "D", .preset = "2", .help = "dimension of each one's subspace", OF_LAW,
     .stamp = STAMP_ALWAYS, .key = "rank"},
    {"--weights", .type = OPTION_PARSED, REQUEST(weights), .arg = "LIST", .parse = parse_weights, .put = put_weights, .preset = "equal",
     .help = "probability of each, with commas between; sum 1", .when = {{USE_NEEDS, "1=gaussians"}}, .counts = has_weights, .stamp = STAMP_ALWAYS,
     .key = "weights"},
    {"--separation", .type = OPTION_REAL, REQUEST(separation), .lo = 0, .hi = 1000, .arg = "S", .preset = "4",
     .help = "distance of any two means, in standard deviations of a first direction", OF_LAW, .stamp = STAMP_ALWAYS, .key = "separation"},
    {"--overlap", .type = OPTION_PARSED, REQUEST(overlap), .arg = "C|random", .parse = parse_overlap, .put = put_overlap, .preset = "random",
     .help = "cosine of the angles between any two subspaces", OF_LAW, .stamp = STAMP_ALWAYS, .key = "overlap"},
    {"--spectrum", .type = OPTION_REAL, REQUEST(spectrum), .lo = 0, .hi = 10, .arg = "A", .preset = "0",
     .help = "variances within a subspace fall like i^-A", OF_LAW, .stamp = STAMP_ALWAYS, .key = "spectrum"},
    {"--floor", .type = OPTION_REAL, REQUEST(noise), .lo = 1e-4, .hi = 10, .arg = "S", .preset = ".02",
     .help = "standard deviation of the noise in every element", OF_LAW, .stamp = STAMP_ALWAYS, .key = "floor"},
    {"--rms", .type = OPTION_REAL, REQUEST(rms), .lo = 1e-3, .hi = 100, .arg = "S", .preset = ".5", .help = "root mean square of the elements",
     OF_LAW, .stamp = STAMP_ALWAYS, .key = "rms"},
    OPTION_GROUP("Samples (draw)"),
    {"--count", 'n', OPTION_INT, REQUEST(count), .lo = 1, .hi = 1e9, .arg = "N", .preset = "1000", .help = "number of samples", OF_DRAW,
     .stamp = STAMP_ALWAYS, .key = "count"},
    {"--labels", .type = OPTION_TEXT, REQUEST(labels), .arg = "FILE", .help = "write a table of the true components, as ddm-shard reads it", OF_DRAW},
    {"--holdout", .type = OPTION_REAL, REQUEST(holdout), .lo = 0, .hi = 1, .arg = "FRACTION", .preset = "0",
     .help = "samples that the table says are held out", .when = {{USE_NEEDS, "--labels"}}, .counts = is_draw, .stamp = STAMP_ALWAYS,
     .key = "holdout"},
    {"--rows", .type = OPTION_TEXT, REQUEST(rows), .arg = "FILE", .help = "write the samples as the rows of an array too, .npy", OF_DRAW},
    OPTION_GROUP("Both"),
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the directions, or of the samples", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "seed"},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "OUT", .help = "the folder of the law, or the tar of samples (-: standard output)",
     .required = "the folder of the law, or the tar of samples", OPTION_ALWAYS},
    {0},
};

struct synth_request synth_defaults(void)
{
	struct synth_request r = {0};

	option_presets(synth_options, &r);
	return r;
}

int synth_command_parse(enum synth_command *command, const char *name, struct err *e)
{
	int i = option_choice(NULL, name, commands, e);

	if (i >= 0)
		*command = (enum synth_command)i;
	return i < 0 ? -1 : 0;
}

static struct stamp *stamp_of(const struct synth_request *r)
{
	static const struct option *const tables[] = {synth_options, NULL};
	struct stamp *s = stamp_new(r->program);

	stamp_text(s, is_draw(r) ? "command" : "law", commands[r->command]);
	optionstamp_put(s, tables, r, "");
	return s;
}

/* What config.json of every folder of the law says. */
static struct model_config describe(const struct synth_request *r, const struct gaussians *g, enum net_role role, int64_t cluster)
{
	struct model_config c = {
	    .net = {.def = net_exact_of(role), .channels = r->shape.channels, .out_channels = r->shape.channels, .size = r->shape.size},
	    .path = "linear",
	    .cluster = cluster,
	    .clusters = g->k,
	    .cluster_shares = g->weight};

	gaussians_hash(g, c.partition);
	if (role == NET_CLASSIFIER)
		c.net.clusters = g->k;
	else
		snprintf(c.prediction, sizeof c.prediction, "velocity");
	return c;
}

static int write_law(const struct synth_request *r, const char *dir, const struct gaussians *g, json_t *stamp, struct err *e)
{
	struct model_config c = describe(r, g, NET_CLASSIFIER, -1);
	char *sub = path_join(dir, "router");
	double one = 1;
	int rc = law_model_write_gaussians(sub, &c, g, stamp, e);

	mem_free(sub);
	for (int64_t k = 0; k < g->k && !rc; k++) {
		int64_t n = g->rank * g->d;
		struct gaussians own = {1, g->d, g->rank, g->mean + k * g->d, g->basis + k * n, g->variance + k * g->rank, g->noise + k, &one};

		c = describe(r, g, NET_EXPERT, k);
		sub = str_new("%s/expert_%lld", dir, (long long)k);
		rc = law_model_write_gaussians(sub, &c, &own, stamp, e);
		mem_free(sub);
	}
	return rc || law_model_write_summary(dir, g->k, stamp, e) ? -1 : 0;
}

/* Distance of the means of components 0 and 1, which all others share. */
static double distance(const struct gaussians *g)
{
	double sum = 0;

	for (int64_t j = 0; g->k > 1 && j < g->d; j++)
		sum += (g->mean[j] - g->mean[g->d + j]) * (g->mean[j] - g->mean[g->d + j]);
	return sqrt(sum);
}

static int make_law(const struct synth_request *r, struct pool *pool, struct synth_report *report, struct err *e)
{
	struct gaussian_spec spec = {.k = r->components,
	                             .d = r->shape.channels * r->shape.size * r->shape.size,
	                             .rank = r->rank,
	                             .separation = r->separation,
	                             .overlap = r->overlap,
	                             .spectrum = r->spectrum,
	                             .noise = r->noise,
	                             .rms = r->rms,
	                             .weight = r->weights.n ? r->weights.v : NULL,
	                             .seed = r->seed};
	struct stamp *stamp = stamp_of(r);
	json_t *line = json_incref((json_t *)stamp_root(stamp));
	struct gaussians g = {0};
	struct outdir dir = {0};
	int rc;

	if (r->weights.n && r->weights.n != r->components)
		rc = err_set(e, ERR_USAGE, "--weights: %d weights for %lld components", r->weights.n, (long long)r->components);
	else
		rc = law_model_finished(r->out, stamp, pool, e);
	if (!rc) {
		rc = gaussian_spec_make(&g, &spec, e) || outdir_begin(&dir, r->out, e) || write_law(r, dir.tmp, &g, line, e) || outdir_commit(&dir, e)
		         ? -1
		         : 0;
		if (!rc)
			*report = (struct synth_report){1,
			                                0,
			                                g.k,
			                                g.rank,
			                                spec.d / r->shape.size / r->shape.size,
			                                r->shape.size,
			                                sqrt(g.variance[0]),
			                                distance(&g),
			                                sqrt(g.noise[0])};
	}
	outdir_abort(&dir);
	gaussians_release(&g);
	json_decref(line);
	stamp_free(stamp);
	return rc < 0 ? -1 : 0;
}

enum { BLOCK = 256 };

/* A run of SYNTH_DRAW. */
struct drawing {
	const struct synth_request *r;
	const struct gaussians *g;
	int64_t shape[3];
	int64_t at; /* the first sample of the block */
	float *x;   /* (BLOCK, d) */
	float *all; /* (count, d) for `rows`, or NULL */
	int component[BLOCK];
	struct outfile file;
	struct tar_writer tar;
	struct tsv_writer *table;
};

static void draw_task(void *arg, int64_t i, int worker)
{
	struct drawing *d = arg;

	(void)worker;
	d->component[i] = gaussians_draw(d->g, d->r->seed, RNG_DRAW, (uint64_t)(d->at + i), d->x + i * d->g->d);
}

static int put_sample(struct drawing *d, int64_t i, struct err *e)
{
	char key[48], name[56];
	struct str npy = {0};
	int rc;

	snprintf(key, sizeof key, "%llu-%09lld", (unsigned long long)d->r->seed, (long long)(d->at + i));
	snprintf(name, sizeof name, "%s.npy", key);
	npy_encode(&npy, NPY_F4, 3, d->shape, d->x + i * d->g->d);
	rc = tar_add(&d->tar, name, npy.p, npy.len, e);
	str_release(&npy);
	if (rc || !d->table)
		return rc;
	tsv_put(d->table, key);
	tsv_put_i64(d->table, d->component[i]);
	tsv_put(d->table, hash_holdout(key, d->r->holdout) ? "holdout" : "train");
	return tsv_row(d->table, e);
}

static int draw_all(struct drawing *d, struct pool *pool, volatile sig_atomic_t *stop, struct err *e)
{
	const struct synth_request *r = d->r;

	for (d->at = 0; d->at < r->count; d->at += BLOCK) {
		int64_t n = r->count - d->at < BLOCK ? r->count - d->at : BLOCK;

		if (progress_tell(r->progress, "samples", d->at, r->count) || (stop && *stop))
			return err_set(e, ERR_AGAIN, "interrupted");
		pool_run(pool, n, draw_task, d);
		if (d->all)
			memcpy(d->all + d->at * d->g->d, d->x, (size_t)(n * d->g->d) * sizeof *d->x);
		for (int64_t i = 0; i < n; i++)
			if (put_sample(d, i, e))
				return -1;
	}
	progress_tell(r->progress, "samples", r->count, r->count);
	return 0;
}

static int write_rows(const struct drawing *d, const struct stamp *stamp, struct err *e)
{
	int64_t shape[2] = {d->r->count, d->g->d};
	struct str npy = {0};
	int rc;

	npy_encode(&npy, NPY_F4, 2, shape, d->all);
	rc = stamp_write(stamp, d->r->rows, npy.p, npy.len, e);
	str_release(&npy);
	return rc;
}

/* The tar comes last: where it is, all outputs are. */
static int write_samples(struct drawing *d, const struct stamp *stamp, struct pool *pool, volatile sig_atomic_t *stop, struct err *e)
{
	static const char *const columns[] = {"key", "cluster", "split"};
	char *line = stamp_line(stamp);
	int rc = -1;

	if (!(d->x = mem_try(BLOCK * (size_t)d->g->d, sizeof *d->x, "samples", e)) || outfile_open(&d->file, d->r->out, e) ||
	    tar_start(&d->tar, &d->file, line, e))
		goto out;
	if (d->r->rows && !(d->all = mem_try((size_t)(d->r->count * d->g->d), sizeof *d->all, "the rows of --rows", e)))
		goto out;
	if (d->r->labels && !(d->table = tsv_create(d->r->labels, columns, 3, stamp, e)))
		goto out;
	rc = draw_all(d, pool, stop, e);
	if (!rc)
		rc = tar_finish(&d->tar, e);
	if (!rc && d->table) {
		rc = tsv_commit(d->table, e);
		d->table = NULL;
	}
	if (!rc && d->all)
		rc = write_rows(d, stamp, e);
	if (!rc)
		rc = outfile_commit(&d->file, e);
out:
	tsv_abort(d->table);
	tar_release(&d->tar);
	outfile_abort(&d->file);
	mem_free(d->x);
	mem_free(d->all);
	mem_free(line);
	return rc;
}

/* 1 if all outputs exist with this stamp, 0 if there is work to do, -1 if another file has the name of one. */
static int drawn(const struct synth_request *r, const struct stamp *stamp, struct err *e)
{
	const char *const path[] = {r->out, r->labels, r->rows};
	int there = 1, talking = 0;

	for (int i = 0; i < 3; i++)
		talking += path[i] && !strcmp(path[i], "-");
	if (talking > 1)
		return err_set(e, ERR_USAGE, "%d outputs on standard output: name files (-o FILE)", talking);
	for (int i = 0; i < 3; i++) {
		if (!path[i])
			continue;
		if (standing_check(path[i], stamp, 0, e))
			return -1;
		there &= strcmp(path[i], "-") && path_exists(path[i]);
	}
	return there;
}

static int draw(const struct synth_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct synth_report *report, struct err *e)
{
	char *router = path_join(r->law, "router"), hash[65], partition[65];
	const char *const path[] = {r->out, r->labels, r->rows};
	struct law_model *m = claim_take(path, 3, e) ? NULL : law_model_open(router, pool, hash, e);
	const struct gaussians *g = m ? law_model_gaussians(m) : NULL;
	int rc = m ? 0 : -1;

	if (m && !g)
		rc = err_set(e, ERR_DATA, "%s: holds samples, not a law to draw from, which ddm-synth makes", router);
	if (g) {
		const struct net_config *c = &law_model_config(m)->net;
		struct drawing d = {.r = r, .g = g, .shape = {c->channels, c->size, c->size}};
		struct stamp *stamp = stamp_of(r);

		gaussians_hash(g, partition);
		stamp_i64(stamp, "k", g->k);
		stamp_text(stamp, "partition", partition);
		stamp_input(stamp, "law", hash);
		rc = drawn(r, stamp, e);
		if (!rc) {
			rc = write_samples(&d, stamp, pool, stop, e);
			*report = (struct synth_report){!rc, r->count, g->k, g->rank, c->channels, c->size, 0, 0, 0};
		}
		stamp_free(stamp);
	}
	law_model_free(m);
	mem_free(router);
	return rc < 0 ? -1 : 0;
}

int synth_run(const struct synth_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct synth_report *report, struct err *e)
{
	*report = (struct synth_report){0};
	return is_draw(r) ? draw(r, pool, stop, report, e) : make_law(r, pool, report, e);
}
