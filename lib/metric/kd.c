/* Computes the kernel distance over all pairs and over random subsets. */
#include "metric/kd.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/mt19937.h"
#include "core/rng.h"
#include "metric/gram.h"

/* Kernel sums of all pairs; a task is one tile of pairs. */
struct sums {
	struct gram g;     /* x == y: the symmetric sum without its diagonal */
	double *row, *col; /* (ti, tj, GRAM_TILE): sums of each tile over its columns, and over its rows */
};

static void tile_task(void *arg, int64_t task, int worker)
{
	struct sums *s = arg;
	int64_t ti = task / s->g.tj, tj = task % s->g.tj, ni = gram_count(s->g.n, ti), nj = gram_count(s->g.m, tj);
	double *row = s->row + task * GRAM_TILE, *col = s->col + task * GRAM_TILE, d = s->g.d;
	int symmetric = s->g.x == s->g.y;
	const double *dot;

	if (symmetric && tj < ti)
		return;
	dot = gram_tile(&s->g, ti, tj, worker);
	for (int64_t i = 0; i < ni; i++)
		for (int64_t j = 0; j < nj; j++) {
			double t = dot[i * GRAM_TILE + j] / d + 1, k = t * t * t;

			if (symmetric && ti == tj && i == j)
				k = 0;
			row[i] += k;
			col[j] += k;
		}
}

/* Sums of the kernel over every row and every column of x against y. If x == y, row and col must be one array. */
static int kernel_sums(struct pool *pool, struct pool_pass *pass, double *row, double *col, const float *x, int64_t n, const float *y, int64_t m,
                       int d, struct err *e)
{
	struct sums s = {.row = NULL};
	int64_t tiles;
	int rc = -1;

	if (gram_init(&s.g, pool, x, n, y, m, d, e))
		return -1;
	tiles = s.g.ti * s.g.tj;
	s.row = mem_try((size_t)tiles * GRAM_TILE, sizeof *s.row, "partial sums of the kernel", e);
	s.col = s.row ? mem_try((size_t)tiles * GRAM_TILE, sizeof *s.col, "partial sums of the kernel", e) : NULL;
	if (s.col && !pool_run_pass(pool, pass, 1, tiles, tile_task, &s, e)) {
		for (int64_t i = 0; i < n; i++)
			row[i] = 0;
		for (int64_t j = 0; j < m; j++)
			col[j] = 0;
		for (int64_t t = 0; t < tiles; t++) {
			int64_t i0 = t / s.g.tj * GRAM_TILE, j0 = t % s.g.tj * GRAM_TILE;

			for (int64_t i = i0; i < n && i < i0 + GRAM_TILE; i++)
				row[i] += s.row[t * GRAM_TILE + i - i0];
			/* for a symmetric sum, where row == col, only the tiles on and above the diagonal were computed; a tile above the diagonal
			 * also counts for its mirror image */
			for (int64_t j = j0; j < m && j < j0 + GRAM_TILE && !(x == y && i0 == j0); j++)
				col[j] += s.col[t * GRAM_TILE + j - j0];
		}
		rc = 0;
	}
	mem_free(s.row);
	mem_free(s.col);
	gram_release(&s.g);
	return rc;
}

static double sum(const double *v, int64_t n)
{
	double s = 0;

	for (int64_t i = 0; i < n; i++)
		s += v[i];
	return s;
}

/* Jackknife variance from leaving out one element of a set of n at a time. `own` are the kernel sums of its elements with the rest of their set,
 * `cross` those with the other set, of m elements; `rest` is the term that does not change. */
static double jackknife(const double *own, const double *cross, int64_t n, int64_t m, double rest)
{
	double so = sum(own, n), sc = sum(cross, n), dn = (double)n, mean = 0, var = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int64_t i = 0; i < n; i++) {
			double t = (so - 2 * own[i]) / ((dn - 1) * (dn - 2)) - 2 * (sc - cross[i]) / ((dn - 1) * (double)m) + rest;

			if (pass == 0)
				mean += t / dn;
			else
				var += (t - mean) * (t - mean);
		}
	}
	return var * (dn - 1) / dn;
}

/* pass: the progress, counted in tiles; NULL: none */
static int all_pairs(struct kd *out, struct pool *pool, struct pool_pass *pass, const float *x, int64_t n, const float *y, int64_t m, int d,
                     struct err *e)
{
	double *xx, *yy, *xy, *yx, dn = (double)n, dm = (double)m;
	int rc = -1;

	if (n < 3 || m < 3)
		return err_set(e, ERR_USAGE, "a kernel distance needs at least 3 samples on each side, not %lld and %lld", (long long)n,
		               (long long)m);
	xx = mem_try((size_t)(n + m) * 2, sizeof *xx, "kernel sums", e);
	if (!xx)
		return -1;
	xy = xx + n, yy = xy + n, yx = yy + m;
	if (!kernel_sums(pool, pass, xx, xx, x, n, x, n, d, e) && !kernel_sums(pool, pass, yy, yy, y, m, y, m, d, e) &&
	    !kernel_sums(pool, pass, xy, yx, x, n, y, m, d, e)) {
		double a = sum(xx, n) / (dn * (dn - 1)), b = sum(yy, m) / (dm * (dm - 1));

		out->value = a + b - 2 * sum(xy, n) / (dn * dm);
		out->se = sqrt(jackknife(xx, xy, n, m, b) + jackknife(yy, yx, m, n, a));
		rc = 0;
	}
	mem_free(xx);
	return rc;
}

int kd_whole(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e)
{
	struct pool_pass pass = {"kernel distance, blocks of pairs", 0, gram_tiles(n, n) + gram_tiles(m, m) + gram_tiles(n, m)};

	return all_pairs(out, pool, &pass, x, n, y, m, d, e);
}

/* Copy the vectors at[0 .. size - 1] of x to out. */
static void gather(float *out, const float *x, int d, const int64_t *at, int64_t size)
{
	for (int64_t i = 0; i < size; i++)
		memcpy(out + i * d, x + at[i] * d, (size_t)d * sizeof *out);
}

/* The source of the subsets of x and y: rng_permute, or numpy's generator over the elements in reading order. */
struct drawing {
	uint64_t seed;
	struct mt19937 *numpy; /* NULL: rng_permute */
	const int64_t *xorder, *yorder;
	int64_t *at; /* (max(n, m)) */
};

static void drawing_ours(struct drawing *w, int64_t n, int64_t size, uint64_t draw)
{
	for (int64_t i = 0; i < size; i++)
		w->at[i] = (int64_t)rng_permute((uint64_t)i, (uint64_t)n, w->seed, RNG_METRIC, draw);
}

static void drawing_numpy(struct drawing *w, int64_t n, int64_t size, const int64_t *order)
{
	mt19937_permutation(w->numpy, w->at, n);
	for (int64_t i = 0; i < size && order; i++)
		w->at[i] = order[w->at[i]];
}

static void pair_draw(float *xs, float *ys, struct drawing *w, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t size,
                      int64_t round)
{
	if (w->numpy) {
		drawing_numpy(w, m, size, w->yorder);
		gather(ys, y, d, w->at, size);
		drawing_numpy(w, n, size, w->xorder);
		gather(xs, x, d, w->at, size);
		return;
	}
	drawing_ours(w, n, size, 2 * (uint64_t)round);
	gather(xs, x, d, w->at, size);
	drawing_ours(w, m, size, 2 * (uint64_t)round + 1);
	gather(ys, y, d, w->at, size);
}

/* Mean over the subsets, and the sum of squared deviations from it. */
static int subsets_run(double *mean, double *spread, struct drawing *w, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m,
                       int d, int64_t subsets, int64_t size, struct err *e)
{
	struct pool_pass pass = {"kernel distance, subsets", 0, subsets};
	double *v;
	float *xs;
	int rc = 0;

	if (subsets < 2 || size < 3 || size > n || size > m)
		return err_set(e, ERR_USAGE, "%lld subsets of %lld cannot be drawn from %lld and %lld samples (at least 2 of at least 3)",
		               (long long)subsets, (long long)size, (long long)n, (long long)m);
	v = mem_try((size_t)subsets, sizeof *v, "subsets", e);
	xs = v ? mem_try(2 * (size_t)size * (size_t)d, sizeof *xs, "a pair of subsets", e) : NULL;
	w->at = xs ? mem_try((size_t)(n > m ? n : m), sizeof *w->at, "the members of a subset", e) : NULL;
	if (!w->at)
		rc = -1;
	for (int64_t s = 0; s < subsets && !rc; s++) {
		struct kd one;

		pair_draw(xs, xs + size * d, w, x, n, y, m, d, size, s);
		rc = all_pairs(&one, pool, NULL, xs, size, xs + size * d, size, d, e);
		if (!rc) {
			v[s] = one.value;
			pass.done++;
			rc = pool_report(pool, &pass, e);
		}
	}
	if (!rc) {
		*mean = sum(v, subsets) / (double)subsets;
		*spread = 0;
		for (int64_t s = 0; s < subsets; s++)
			*spread += (v[s] - *mean) * (v[s] - *mean);
	}
	mem_free(v);
	mem_free(xs);
	mem_free(w->at);
	return rc;
}

int kd_subsets(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t subsets, int64_t size,
               uint64_t seed, struct err *e)
{
	struct drawing w = {.seed = seed};
	double mean, spread;

	if (subsets_run(&mean, &spread, &w, pool, x, n, y, m, d, subsets, size, e))
		return -1;
	*out = (struct kd){mean, sqrt(spread / (double)(subsets - 1) / (double)subsets)};
	return 0;
}

int kd_subsets_numpy(double *mean, double *sd, struct pool *pool, const float *x, const int64_t *xorder, int64_t n, const float *y,
                     const int64_t *yorder, int64_t m, int d, int64_t subsets, int64_t size, uint32_t seed, struct err *e)
{
	struct mt19937 numpy;
	struct drawing w = {.numpy = &numpy, .xorder = xorder, .yorder = yorder};
	double spread;

	mt19937_seed(&numpy, seed);
	if (subsets_run(mean, &spread, &w, pool, x, n, y, m, d, subsets, size, e))
		return -1;
	*sd = sqrt(spread / (double)subsets);
	return 0;
}
