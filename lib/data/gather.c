/* Reads a SHARDS directory whole, in the order of its clusters. */
#include "data/gather.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "file/manifest.h"

enum { PIECE = 32, AT_ONCE = 1024 };

/* Read the samples at positions `at` of one open part into rows to, to + 1, ... of g. */
struct reading {
	struct gathered *g;
	struct dataset *d;
	const int64_t *at;
	int64_t n, to;
	struct err *err; /* by piece */
};

static void store(const struct gathered *g, int64_t row, const float *x)
{
	uint8_t *b = (uint8_t *)g->sample + row * g->d;

	if (!g->bytes) {
		memcpy((float *)g->sample + row * g->d, x, (size_t)g->d * sizeof *x);
		return;
	}
	for (int64_t i = 0; i < g->d; i++)
		b[i] = (uint8_t)lrintf((x[i] + 1.f) * 127.5f);
}

static void read_task(void *arg, int64_t task, int worker)
{
	struct reading *r = arg;
	float *x = mem_alloc((size_t)r->g->d * sizeof *x);

	(void)worker;
	for (int64_t i = task * PIECE; i < r->n && i < (task + 1) * PIECE; i++) {
		if (dataset_read(r->d, r->at[i], x, NULL, NULL, &r->err[task]))
			break;
		store(r->g, r->to + i, x);
	}
	mem_free(x);
}

static int read_rows(struct gathered *g, struct dataset *d, const int64_t *at, int64_t n, int64_t to, struct pool *pool, struct err *e)
{
	int64_t pieces = (n + PIECE - 1) / PIECE;
	struct reading r = {g, d, at, n, to, mem_zalloc((size_t)pieces + 1, sizeof *r.err)};
	int rc = 0;

	pool_run(pool, pieces, read_task, &r);
	for (int64_t i = 0; i < pieces && !rc; i++)
		if (r.err[i].code)
			rc = err_set(e, r.err[i].code, "%s", r.err[i].msg);
	mem_free(r.err);
	return rc;
}

static struct dataset *open_part(const char *shards, const struct gather_options *o, int cluster, int holdout, struct err *e)
{
	struct dataset_options d = {
	    .cluster = cluster, .holdout = holdout, .size = o->size, .verify = o->verify, .channels = o->channels, .budget = 1, .pool = o->pool};

	return dataset_open(shards, &d, e);
}

static int same_shape(struct gathered *g, const struct dataset_info *f, const char *shards, struct err *e)
{
	if (f->frames)
		return err_set(e, ERR_DATA, "%s: the samples are clips, and exact models are made of pictures or their latents", shards);
	if (f->height != f->width)
		return err_set(e, ERR_DATA, "%s: samples of %d x %d are not square: resize them (--size)", shards, f->height, f->width);
	if (!g->d) {
		g->channels = f->channels;
		g->size = f->width;
		g->d = g->channels * g->size * g->size;
		g->bytes = !f->arrays;
	}
	if (f->channels != g->channels || f->width != g->size || g->bytes == f->arrays)
		return err_set(e, ERR_DATA, "%s: samples of different clusters or parts differ in shape", shards);
	return 0;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Choose n of the `size` samples of cluster k, in ascending order. */
static int64_t *choose(int64_t size, int64_t n, int k, uint64_t seed)
{
	int64_t *at = mem_alloc((size_t)n * sizeof *at);

	for (int64_t i = 0; i < n; i++)
		at[i] = n < size ? (int64_t)rng_permute((uint64_t)i, (uint64_t)size, seed, RNG_SHUFFLE, (uint64_t)k) : i;
	qsort(at, (size_t)n, sizeof *at, ascending);
	return at;
}

/* Read rows at[0 .. n) of d into g from row `to`, in batches. */
static int read_with_progress(struct gathered *g, struct dataset *d, const int64_t *at, int64_t n, int64_t to, const struct gather_options *o,
                              struct err *e)
{
	for (int64_t i = 0, some; i < n; i += some) {
		some = n - i < AT_ONCE ? n - i : AT_ONCE;
		if (progress_tell(o->progress, "samples", to + i, g->n))
			return err_set(e, ERR_AGAIN, "interrupted");
		if (read_rows(g, d, at + i, some, to + i, o->pool, e))
			return -1;
	}
	return 0;
}

/* Read the chosen samples of one cluster: positions below `train` are in its training part, the others in its held-out part. */
static int read_cluster(struct gathered *g, const char *shards, const struct gather_options *o, int k, int64_t train, struct err *e)
{
	int64_t n = g->first[k + 1] - g->first[k], done = 0, *at = choose(g->sizes[k], n, k, o->seed);
	int rc = 0;

	for (int holdout = 0; holdout < 2 && !rc; holdout++) {
		int64_t some = 0;
		struct dataset *d;

		while (done + some < n && (holdout || at[done + some] < train))
			some++;
		if (!some)
			continue;
		for (int64_t i = 0; i < some && holdout; i++)
			at[done + i] -= train;
		d = open_part(shards, o, k, holdout, e);
		rc = d ? same_shape(g, dataset_info(d), shards, e) : -1;
		if (!rc && !g->sample)
			g->sample = mem_try((size_t)g->n, (size_t)g->d * (g->bytes ? 1 : sizeof(float)), "samples", e);
		if (!rc)
			rc = g->sample ? read_with_progress(g, d, at + done, some, g->first[k] + done, o, e) : -1;
		dataset_free(d);
		done += some;
	}
	mem_free(at);
	return rc;
}

int gather(struct gathered *g, const char *shards, const struct gather_options *o, struct err *e)
{
	struct manifest m = {0};
	int rc = manifest_load(&m, shards, e);

	memset(g, 0, sizeof *g);
	if (!rc && o->cluster != DATASET_ALL && (o->cluster < 0 || o->cluster >= m.clusters))
		rc = err_set(e, ERR_USAGE, "%s: no cluster %d, there are %d (0 to %d)", shards, o->cluster, m.clusters, m.clusters - 1);
	if (rc) {
		manifest_release(&m);
		return -1;
	}
	g->clusters = m.clusters;
	g->first = mem_zalloc((size_t)g->clusters + 1, sizeof *g->first);
	g->sizes = mem_zalloc((size_t)g->clusters, sizeof *g->sizes);
	for (int k = 0; k < g->clusters; k++) {
		int64_t take;

		g->sizes[k] = (o->part != SAMPLES_HOLDOUT ? m.train[k] : 0) + (o->part != SAMPLES_TRAIN ? m.held[k] : 0);
		take = o->cluster == DATASET_ALL || o->cluster == k ? g->sizes[k] : 0;
		g->first[k + 1] = g->first[k] + (o->limit && take > o->limit ? o->limit : take);
	}
	g->n = g->first[g->clusters];
	if (!g->n)
		rc = err_set(e, ERR_DATA, "%s: there are no samples in that part", shards);
	for (int k = 0; k < g->clusters && !rc; k++)
		if (g->first[k + 1] > g->first[k])
			rc = read_cluster(g, shards, o, k, o->part != SAMPLES_HOLDOUT ? m.train[k] : 0, e);
	manifest_release(&m);
	if (!rc)
		progress_tell(o->progress, "samples", g->n, g->n);
	return rc;
}

void gathered_release(struct gathered *g)
{
	mem_free(g->sample);
	mem_free(g->first);
	mem_free(g->sizes);
	memset(g, 0, sizeof *g);
}

void gathered_sample(const struct gathered *g, int64_t i, float *x)
{
	const uint8_t *b = (const uint8_t *)g->sample + i * g->d;

	assert(i >= 0 && i < g->n);
	if (!g->bytes)
		memcpy(x, (const float *)g->sample + i * g->d, (size_t)g->d * sizeof *x);
	for (int64_t j = 0; g->bytes && j < g->d; j++)
		x[j] = (float)b[j] / 127.5f - 1.f;
}

int gathered_cluster(const struct gathered *g, int64_t i)
{
	int k = 0;

	while (g->first[k + 1] <= i)
		k++;
	return k;
}
