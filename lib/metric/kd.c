#include "metric/kd.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

/* A task is a tile of TILE x TILE pairs. Inside it ROWS x 2 LANES products grow together in registers, each a plain sum over the
 * features in order, so that nothing depends on where a pair lies in its tile. */
enum { TILE = 256, ROWS = 4, LANES = 8, COLS = 2 * LANES };

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));

struct grid {
	const float *x, *y; /* (n, d), (m, d); equal pointers: the symmetric sum without its diagonal */
	int64_t n, m;
	int d;
	int64_t ti, tj;    /* tiles down and across */
	double *row, *col; /* (ti, tj, TILE) partial sums of each tile over its columns, over its rows */
	double *scratch;   /* one pair of packed panels per worker */
	size_t per_worker;
};

/* rows of x as double, in panels of `width` vectors, feature by feature; missing vectors are zero */
static void pack(double *out, const float *x, int64_t count, int d, int width)
{
	for (int64_t p = 0; p < TILE; p += width)
		for (int k = 0; k < d; k++)
			for (int i = 0; i < width; i++)
				*out++ = p + i < count ? x[(p + i) * d + k] : 0;
}

static void products(vec acc[ROWS][2], const double *a, const double *b, int d)
{
	memset(acc, 0, ROWS * sizeof *acc);
	for (int k = 0; k < d; k++, a += ROWS, b += COLS) {
		vec b0 = *(const vec *)b, b1 = *(const vec *)(b + LANES);

		for (int i = 0; i < ROWS; i++) {
			acc[i][0] += a[i] * b0;
			acc[i][1] += a[i] * b1;
		}
	}
}

static void tile_task(void *arg, int64_t task, int worker)
{
	struct grid *g = arg;
	int64_t ti = task / g->tj, tj = task % g->tj, i0 = ti * TILE, j0 = tj * TILE;
	int64_t ni = g->n - i0 < TILE ? g->n - i0 : TILE, nj = g->m - j0 < TILE ? g->m - j0 : TILE;
	double *row = g->row + task * TILE, *col = g->col + task * TILE, d = g->d;
	double *a = g->scratch + (size_t)worker * g->per_worker, *b = a + (size_t)TILE * g->d;
	int symmetric = g->x == g->y;

	if (symmetric && tj < ti)
		return;
	pack(a, g->x + i0 * g->d, ni, g->d, ROWS);
	pack(b, g->y + j0 * g->d, nj, g->d, COLS);
	for (int64_t i = 0; i < ni; i += ROWS)
		for (int64_t j = 0; j < nj; j += COLS) {
			vec acc[ROWS][2];

			products(acc, a + i * g->d, b + j * g->d, g->d);
			for (int r = 0; r < ROWS && i + r < ni; r++)
				for (int c = 0; c < COLS && j + c < nj; c++) {
					double t = acc[r][c / LANES][c % LANES] / d + 1, k = t * t * t;

					if (symmetric && i0 + i + r == j0 + j + c)
						k = 0;
					row[i + r] += k;
					col[j + c] += k;
				}
		}
}

/* Sums of the kernel over every row and every column of x against y. For x against itself row and col must be one array. */
static int kernel_sums(struct pool *pool, double *row, double *col, const float *x, int64_t n, const float *y, int64_t m, int d,
                       struct err *e)
{
	struct grid g = {.x = x, .y = y, .n = n, .m = m, .d = d, .ti = (n + TILE - 1) / TILE, .tj = (m + TILE - 1) / TILE};
	int64_t tiles = g.ti * g.tj;

	g.per_worker = 2 * (size_t)TILE * (size_t)d;
	g.row = mem_try((size_t)tiles * TILE, sizeof *g.row, "partial sums of the kernel", e);
	g.col = g.row ? mem_try((size_t)tiles * TILE, sizeof *g.col, "partial sums of the kernel", e) : NULL;
	g.scratch =
	    g.col ? mem_try(g.per_worker * (size_t)(pool ? pool_threads(pool) : 1), sizeof(double), "feature panels", e) : NULL;
	if (g.scratch) {
		pool_run(pool, tiles, tile_task, &g);
		for (int64_t i = 0; i < n; i++)
			row[i] = 0;
		for (int64_t j = 0; j < m; j++)
			col[j] = 0;
		for (int64_t t = 0; t < tiles; t++) {
			int64_t i0 = t / g.tj * TILE, j0 = t % g.tj * TILE;

			for (int64_t i = i0; i < n && i < i0 + TILE; i++)
				row[i] += g.row[t * TILE + i - i0];
			/* of a symmetric sum (row is col then) only the tiles on and above the diagonal were computed; one above
			 * also stands for its mirror */
			for (int64_t j = j0; j < m && j < j0 + TILE && !(x == y && i0 == j0); j++)
				col[j] += g.col[t * TILE + j - j0];
		}
	}
	mem_free(g.row);
	mem_free(g.col);
	mem_free(g.scratch);
	return g.scratch ? 0 : -1;
}

static double sum(const double *v, int64_t n)
{
	double s = 0;

	for (int64_t i = 0; i < n; i++)
		s += v[i];
	return s;
}

/* Jackknife variance of leaving out one element of the set with n elements: `own` are the kernel sums of its elements with the
 * rest of their set, `cross` with the other set of m. */
static double jackknife(const double *own, const double *cross, int64_t n, int64_t m, double rest)
{
	double so = sum(own, n), sc = sum(cross, n), dn = (double)n, mean = 0, var = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int64_t i = 0; i < n; i++) {
			double t =
			    (so - 2 * own[i]) / ((dn - 1) * (dn - 2)) - 2 * (sc - cross[i]) / ((dn - 1) * (double)m) + rest;

			if (pass == 0)
				mean += t / dn;
			else
				var += (t - mean) * (t - mean);
		}
	}
	return var * (dn - 1) / dn;
}

int kd_whole(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e)
{
	double *xx, *yy, *xy, *yx, dn = (double)n, dm = (double)m;
	int rc = -1;

	if (n < 3 || m < 3)
		return err_set(e, ERR_USAGE, "a kernel distance needs at least 3 samples on each side, not %lld and %lld",
		               (long long)n, (long long)m);
	xx = mem_try((size_t)(n + m) * 2, sizeof *xx, "kernel sums", e);
	if (!xx)
		return -1;
	xy = xx + n, yy = xy + n, yx = yy + m;
	if (!kernel_sums(pool, xx, xx, x, n, x, n, d, e) && !kernel_sums(pool, yy, yy, y, m, y, m, d, e) &&
	    !kernel_sums(pool, xy, yx, x, n, y, m, d, e)) {
		double a = sum(xx, n) / (dn * (dn - 1)), b = sum(yy, m) / (dm * (dm - 1));

		out->value = a + b - 2 * sum(xy, n) / (dn * dm);
		out->se = sqrt(jackknife(xx, xy, n, m, b) + jackknife(yy, yx, m, n, a));
		rc = 0;
	}
	mem_free(xx);
	return rc;
}

static void gather(float *out, const float *x, int64_t n, int d, int64_t size, uint64_t seed, uint64_t draw)
{
	for (int64_t i = 0; i < size; i++)
		memcpy(out + i * d, x + (int64_t)rng_permute((uint64_t)i, (uint64_t)n, seed, RNG_METRIC, draw) * d,
		       (size_t)d * sizeof *out);
}

int kd_subsets(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t subsets,
               int64_t size, uint64_t seed, struct err *e)
{
	double *v, mean = 0, var = 0;
	float *xs;
	int rc = 0;

	if (subsets < 2 || size < 3 || size > n || size > m)
		return err_set(e, ERR_USAGE,
		               "%lld subsets of %lld cannot be drawn from %lld and %lld samples (at least 2 of at least 3)",
		               (long long)subsets, (long long)size, (long long)n, (long long)m);
	v = mem_try((size_t)subsets, sizeof *v, "subsets", e);
	xs = v ? mem_try(2 * (size_t)size * (size_t)d, sizeof *xs, "a pair of subsets", e) : NULL;
	if (!xs)
		rc = -1;
	for (int64_t s = 0; s < subsets && !rc; s++) {
		struct kd one;

		gather(xs, x, n, d, size, seed, 2 * (uint64_t)s);
		gather(xs + size * d, y, m, d, size, seed, 2 * (uint64_t)s + 1);
		rc = kd_whole(&one, pool, xs, size, xs + size * d, size, d, e);
		v[s] = one.value;
	}
	if (!rc) {
		mean = sum(v, subsets) / (double)subsets;
		for (int64_t s = 0; s < subsets; s++)
			var += (v[s] - mean) * (v[s] - mean);
		*out = (struct kd){mean, sqrt(var / (double)(subsets - 1) / (double)subsets)};
	}
	mem_free(v);
	mem_free(xs);
	return rc;
}
