/* Computes the maximum mean discrepancy under a Gaussian kernel. */
#include "metric/rbf.h"

#include <math.h>

#include "core/mem.h"
#include "core/pool.h"
#include "metric/gram.h"

struct kernel {
	struct gram g;
	const double *xx, *yy; /* squared lengths */
	double scale;          /* 1 / (2 sigma^2) */
	double *part;          /* (ti * tj) */
};

static void tile_task(void *arg, int64_t task, int worker)
{
	struct kernel *k = arg;
	int64_t ti = task / k->g.tj, tj = task % k->g.tj;
	const double *dot = gram_tile(&k->g, ti, tj, worker), *xx = k->xx + ti * GRAM_TILE, *yy = k->yy + tj * GRAM_TILE;
	double s = 0;

	for (int64_t i = 0; i < gram_count(k->g.n, ti); i++)
		for (int64_t j = 0; j < gram_count(k->g.m, tj); j++)
			s += exp(-k->scale * fmax(xx[i] + yy[j] - 2 * dot[i * GRAM_TILE + j], 0));
	k->part[task] = s;
}

static int kernel_mean(double *out, struct pool *pool, struct pool_pass *pass, const float *x, const double *xx, int64_t n, const float *y,
                       const double *yy, int64_t m, int d, double sigma, struct err *e)
{
	struct kernel k = {.xx = xx, .yy = yy, .scale = 1 / (2 * sigma * sigma)};
	int rc = -1;

	if (gram_init(&k.g, pool, x, n, y, m, d, e))
		return -1;
	k.part = mem_try((size_t)(k.g.ti * k.g.tj), sizeof *k.part, "partial sums of the kernel", e);
	if (k.part)
		rc = pool_run_pass(pool, pass, 1, k.g.ti * k.g.tj, tile_task, &k, e);
	*out = 0;
	for (int64_t t = 0; !rc && t < k.g.ti * k.g.tj; t++)
		*out += k.part[t];
	*out /= (double)n * (double)m;
	mem_free(k.part);
	gram_release(&k.g);
	return rc;
}

int rbf_mmd(double *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, double sigma, struct err *e)
{
	struct pool_pass pass = {"Gaussian kernel, blocks of pairs", 0, gram_tiles(n, n) + gram_tiles(m, m) + gram_tiles(n, m)};
	double *xx = mem_try((size_t)(n + m), sizeof *xx, "lengths of vectors", e), *yy = xx ? xx + n : NULL, a, b, c;
	int rc = -1;

	if (!xx)
		return -1;
	gram_squares(xx, x, n, d);
	gram_squares(yy, y, m, d);
	if (!kernel_mean(&a, pool, &pass, x, xx, n, x, xx, n, d, sigma, e) && !kernel_mean(&b, pool, &pass, y, yy, m, y, yy, m, d, sigma, e) &&
	    !kernel_mean(&c, pool, &pass, x, xx, n, y, yy, m, d, sigma, e)) {
		*out = a + b - 2 * c;
		rc = 0;
	}
	mem_free(xx);
	return rc;
}

void rows_normalise(float *out, const float *x, int64_t n, int d)
{
	for (int64_t i = 0; i < n; i++, x += d, out += d) {
		double s = 0;

		for (int k = 0; k < d; k++)
			s += (double)x[k] * (double)x[k];
		s = s > 0 ? sqrt(s) : 1;
		for (int k = 0; k < d; k++)
			out[k] = (float)(x[k] / s);
	}
}
