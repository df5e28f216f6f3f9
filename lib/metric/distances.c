/* Bounds squared distances by float products, and computes requested ones exactly. */
#include "metric/distances.h"

#include <math.h>

#include "core/mem.h"
#include "kernels/gemm.h"

/* An exact distance is one chain of additions. After ASKED of them in a tile, computing the whole tile costs little more. */
enum { ASKED = 2048 };

static struct gemm tile_product(int64_t ni, int64_t nj, int d)
{
	return (struct gemm){.tb = GEMM_T, .m = ni, .n = nj, .k = d, .lda = d, .ldb = d, .ldc = GRAM_TILE, .own = 1};
}

/* Set the error bound. A product of n terms summed in order, with or without fused multiply-adds, has an error of at most n u / (1 - n u) sum |a_k
 * b_k| (Higham, Accuracy and Stability, 3.1), and sum |a_k b_k| <= |a| |b| <= (|a|^2 + |b|^2) / 2. gemm.h sums chunks of GEMM_KC terms and then the
 * chunks, so an element passes through at most GEMM_KC + chunks additions. By the same rule the double product contributes d 2^-53. The sums of
 * squares and products in this file need only a few roundings, and 2^-46 exceeds their error. Underflow has an absolute error of at most 2^-149 a
 * term. If a float product could overflow, the bounds become infinite. */
static void slack_set(struct distances *s)
{
	double terms = (s->g.d < GEMM_KC ? s->g.d : GEMM_KC) + (double)s->g.d / GEMM_KC + 3, largest = 0;

	for (int64_t i = 0; i < s->g.n; i++)
		largest = s->xx[i] > largest ? s->xx[i] : largest;
	for (int64_t j = 0; j < s->g.m; j++)
		largest = s->yy[j] > largest ? s->yy[j] : largest;
	s->slack = largest < 1e37 ? 1.001 * (terms * 0x1p-24 + s->g.d * 0x1p-53) + 0x1p-46 : INFINITY;
	s->least = s->g.d * 0x1p-140;
}

int distances_init(struct distances *s, const struct pool *pool, const float *x, const double *xx, int64_t n, const float *y, const double *yy,
                   int64_t m, int d, struct err *e)
{
	struct gemm g = tile_product(GRAM_TILE, GRAM_TILE, d);

	*s = (struct distances){.xx = xx, .yy = yy};
	if (gram_init(&s->g, pool, x, n, y, m, d, e))
		return -1;
	slack_set(s);
	s->per_worker = GRAM_TILE * GRAM_TILE * sizeof(float) + (gemm_scratch_f32(&g, 1) + 63) / 64 * 64;
	s->scratch = mem_try((size_t)(pool ? pool_threads(pool) : 1), s->per_worker, "products of features", e);
	return s->scratch ? 0 : -1;
}

void distances_release(struct distances *s)
{
	gram_release(&s->g);
	mem_free(s->scratch);
	s->scratch = NULL;
}

static void bounds_set(double *low, double *high, const double *squares, int64_t n, const struct distances *s)
{
	for (int64_t i = 0; i < n; i++) {
		double off = s->slack * squares[i] + s->least;

		low[i] = squares[i] - off;
		high[i] = squares[i] + off;
	}
}

void distance_tile_make(struct distance_tile *t, const struct distances *s, int64_t ti, int64_t tj, int worker)
{
	float *dot = (float *)(s->scratch + (size_t)worker * s->per_worker);
	int64_t i0 = ti * GRAM_TILE, j0 = tj * GRAM_TILE, ni = gram_count(s->g.n, ti), nj = gram_count(s->g.m, tj);
	struct gemm g = tile_product(ni, nj, s->g.d);

	t->of = s;
	t->i0 = i0, t->j0 = j0, t->ni = ni, t->nj = nj;
	t->dot = dot;
	t->exact = NULL;
	t->asked = 0;
	t->worker = worker;
	bounds_set(t->low_x, t->high_x, s->xx + i0, ni, s);
	bounds_set(t->low_y, t->high_y, s->yy + j0, nj, s);
	gemm_serial_f32(&g, dot, s->g.x + i0 * s->g.d, s->g.y + j0 * s->g.d, NULL, dot + GRAM_TILE * GRAM_TILE);
}

double distance_tile_low(const struct distance_tile *t, int64_t i, int64_t j)
{
	return t->low_x[i] + t->low_y[j] - 2 * (double)t->dot[i * GRAM_TILE + j];
}

double distance_tile_high(const struct distance_tile *t, int64_t i, int64_t j)
{
	return t->high_x[i] + t->high_y[j] - 2 * (double)t->dot[i * GRAM_TILE + j];
}

/* The comparisons are negated so that NaN counts as near. */
int distance_tile_near(const struct distance_tile *t, int64_t i, double row_limit, const double *col_limit, uint8_t *near)
{
	const float *dot = t->dot + i * GRAM_TILE;
	int any = 0;

	for (int64_t j = 0; j < t->nj; j++) {
		double low = t->low_x[i] + t->low_y[j] - 2 * (double)dot[j];
		int is = !(low > row_limit) | !(low > col_limit[j]);

		near[j] = (uint8_t)is;
		any |= is;
	}
	return any;
}

double distance_tile_exact(struct distance_tile *t, int64_t i, int64_t j)
{
	const struct distances *s = t->of;
	double dot;

	if (!t->exact && t->asked++ == ASKED)
		t->exact = gram_tile(&s->g, t->i0 / GRAM_TILE, t->j0 / GRAM_TILE, t->worker);
	dot = t->exact ? t->exact[i * GRAM_TILE + j] : gram_pair(&s->g, t->i0 + i, t->j0 + j);
	return fmax(s->xx[t->i0 + i] + s->yy[t->j0 + j] - 2 * dot, 0);
}
