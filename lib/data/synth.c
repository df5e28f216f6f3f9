/* Makes laws with a known optimum, and draws samples from them. */
#include "data/synth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/synthglyphs.h"
#include "data/synthoptions.h"
#include "diffusion/gaussianspec.h"
#include "diffusion/lawmodel.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "file/tsv.h"

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
	struct stamp *stamp = synth_stamp(r);
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
			*report = (struct synth_report){.made = 1,
			                                .components = g.k,
			                                .rank = g.rank,
			                                .channels = r->shape.channels,
			                                .size = r->shape.size,
			                                .deviation = sqrt(g.variance[0]),
			                                .separation = distance(&g),
			                                .noise = sqrt(g.noise[0])};
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
		struct stamp *stamp = synth_stamp(r);

		gaussians_hash(g, partition);
		stamp_i64(stamp, "k", g->k);
		stamp_text(stamp, "partition", partition);
		stamp_input(stamp, "law", hash);
		rc = standing_all(path, 3, stamp, e);
		if (!rc) {
			rc = write_samples(&d, stamp, pool, stop, e);
			*report = (struct synth_report){
			    .made = !rc, .samples = r->count, .components = g->k, .rank = g->rank, .channels = c->channels, .size = c->size};
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
	if (r->command == SYNTH_GLYPHS)
		return synth_glyphs_draw(r, pool, stop, report, e);
	return r->command == SYNTH_DRAW ? draw(r, pool, stop, report, e) : make_law(r, pool, report, e);
}
