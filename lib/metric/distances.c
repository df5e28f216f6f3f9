/* Bounds squared distances by float products, and computes requested ones exactly. */
#include "metric/distances.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/gemm.h"

/* An exact distance is one chain of additions. After ASKED of them in a tile, computing the whole tile costs little more. The float product of a
 * single pair costs 4 to 8 times its share of a tile. */
enum { ASKED = 2048, NEAR = GRAM_TILE * GRAM_TILE / 8, PART = 8, PARTS = 4 };

static struct gemm tile_product(int64_t ni, int64_t nj, int d)
{
	return (struct gemm){.tb = GEMM_T, .m = ni, .n = nj, .k = d, .lda = d, .ldb = d, .ldc = GRAM_TILE, .own = 1};
}

/* A product of n terms summed in order, with or without fused multiply-adds, has an error of at most n u / (1 - n u) sum |a_k b_k| (Higham, Accuracy
 * and Stability, 3.1), and sum |a_k b_k| <= |a| |b| <= (|a|^2 + |b|^2) / 2. gemm.h sums chunks of GEMM_KC terms and then the chunks, so an element
 * passes through at most GEMM_KC + chunks additions; in pair_product through d / 32 + 64. By the same rule the double product contributes d 2^-53.
 * The sums of squares and products in this file need only a few roundings, and 2^-46 exceeds their error. */
double distances_slack(int d)
{
	double chunks = (d < GEMM_KC ? d : GEMM_KC) + (double)d / GEMM_KC + 3, single = d / 32. + (d < 64 ? d : 64);

	return 1.001 * ((chunks > single ? chunks : single) * 0x1p-24 + d * 0x1p-53) + 0x1p-46;
}

/* Underflow has an absolute error of at most 2^-149 a term. If a float product could overflow, the bounds become infinite. */
static void slack_set(struct distances *s)
{
	double largest = 0;

	for (int64_t i = 0; i < s->g.n; i++)
		largest = s->xx[i] > largest ? s->xx[i] : largest;
	for (int64_t j = 0; j < s->g.m; j++)
		largest = s->yy[j] > largest ? s->yy[j] : largest;
	s->slack = largest < DISTANCES_LARGEST ? distances_slack(s->g.d) : INFINITY;
	s->least = s->g.d * 0x1p-140;
}

/* Bytes of a worker's scratch: products, those of sketches, vectors of a tile, and what gemm.h needs. */
static size_t scratch_size(const struct distances *s)
{
	struct gemm g = tile_product(GRAM_TILE, GRAM_TILE, s->g.d);
	size_t size = GRAM_TILE * GRAM_TILE * sizeof(float), inside = gemm_scratch_f32(&g, 1), coarse;

	if (s->sx) {
		g = tile_product(GRAM_TILE, GRAM_TILE, s->sx->dims);
		coarse = gemm_scratch_f32(&g, 1);
		inside = coarse > inside ? coarse : inside;
		size += size + 2 * (size_t)GRAM_TILE * (size_t)s->g.d * sizeof(float);
	}
	return size + (inside + 63) / 64 * 64;
}

int distances_init(struct distances *s, const struct pool *pool, const float *x, const double *xx, int64_t n, const float *y, const double *yy,
                   int64_t m, int d, const struct sketch *sx, const struct sketch *sy, struct err *e)
{
	*s = (struct distances){.xx = xx, .yy = yy, .sx = sx, .sy = sy};
	if (gram_init(&s->g, pool, x, n, y, m, d, e))
		return -1;
	slack_set(s);
	s->per_worker = scratch_size(s);
	s->scratch = mem_try((size_t)(pool ? pool_threads(pool) : 1), s->per_worker, "products of features", e);
	return s->scratch ? 0 : -1;
}

void distances_release(struct distances *s)
{
	gram_release(&s->g);
	mem_free(s->scratch);
	s->scratch = NULL;
}

static int64_t row_at(const struct distances *s, int64_t i)
{
	return s->sx ? s->sx->order[i] : i;
}

int64_t distances_column(const struct distances *s, int64_t j)
{
	return s->sy ? s->sy->order[j] : j;
}

static void bound_set(double *low, double *high, double square, const struct distances *s)
{
	double off = s->slack * square + s->least;

	*low = square - off;
	*high = square + off;
}

void distance_tile_make(struct distance_tile *t, const struct distances *s, int64_t ti, int64_t tj, int worker)
{
	int64_t i0 = ti * GRAM_TILE, j0 = tj * GRAM_TILE, ni = gram_count(s->g.n, ti), nj = gram_count(s->g.m, tj);
	float *dot = (float *)(s->scratch + (size_t)worker * s->per_worker), *coarse = dot + GRAM_TILE * GRAM_TILE;
	struct gemm g = tile_product(ni, nj, s->g.d);

	t->of = s;
	t->i0 = i0, t->j0 = j0, t->ni = ni, t->nj = nj;
	t->dot = dot;
	t->coarse = coarse;
	t->exact = NULL;
	t->rows = (struct gram){0};
	t->asked = t->near = 0;
	t->whole = !s->sx;
	t->worker = worker;
	for (int64_t i = 0; i < ni; i++)
		bound_set(&t->low_x[i], &t->high_x[i], s->xx[row_at(s, i0 + i)], s);
	for (int64_t j = 0; j < nj; j++)
		bound_set(&t->low_y[j], &t->high_y[j], s->yy[distances_column(s, j0 + j)], s);
	if (t->whole) {
		gemm_serial_f32(&g, dot, s->g.x + i0 * s->g.d, s->g.y + j0 * s->g.d, NULL, dot + GRAM_TILE * GRAM_TILE);
	} else {
		g = tile_product(ni, nj, s->sx->dims);
		gemm_serial_f32(&g, coarse, s->sx->z + i0 * g.k, s->sy->z + j0 * g.k, NULL, coarse + GRAM_TILE * GRAM_TILE + 2 * GRAM_TILE * s->g.d);
	}
}

double distance_tile_low(const struct distance_tile *t, int64_t i, int64_t j)
{
	return t->low_x[i] + t->low_y[j] - 2 * (double)t->dot[i * GRAM_TILE + j];
}

double distance_tile_high(const struct distance_tile *t, int64_t i, int64_t j)
{
	return t->high_x[i] + t->high_y[j] - 2 * (double)t->dot[i * GRAM_TILE + j];
}

/* near[j] = whether low + lows[j] - scale dot[j] is at most row_limit or col_limit[j]. The comparisons are negated so that NaN counts as near.
 * Returns their number. */
static int row_near(uint8_t *near, const float *dot, double low, const double *lows, double scale, double row_limit, const double *col_limit,
                    int64_t n)
{
	int count = 0;

	for (int64_t j = 0; j < n; j++) {
		double v = low + lows[j] - scale * (double)dot[j];
		int is = !(v > row_limit) | !(v > col_limit[j]);

		near[j] = (uint8_t)is;
		count += is;
	}
	return count;
}

static float pair_product(const float *a, const float *b, int d)
{
	float part[PARTS][PART] = {{0}}, sum = 0;
	int k = 0;

	for (; k + PARTS * PART <= d; k += PARTS * PART)
		for (int p = 0; p < PARTS; p++)
			for (int l = 0; l < PART; l++)
				part[p][l] += a[k + p * PART + l] * b[k + p * PART + l];
	for (int p = 0; p < PARTS; p++)
		for (int l = 0; l < PART; l++)
			sum += part[p][l];
	for (; k < d; k++)
		sum += a[k] * b[k];
	return sum;
}

/* Copy the vectors of the tile to scratch, in their order. */
static void tile_gather(struct distance_tile *t)
{
	const struct distances *s = t->of;
	int64_t d = s->g.d;
	float *x = (float *)(s->scratch + (size_t)t->worker * s->per_worker) + 2 * GRAM_TILE * GRAM_TILE, *y = x + GRAM_TILE * d;

	if (t->rows.x)
		return;
	t->rows = s->g;
	t->rows.x = x, t->rows.n = t->ni;
	t->rows.y = y, t->rows.m = t->nj;
	for (int64_t i = 0; i < t->ni; i++)
		memcpy(x + i * d, s->g.x + row_at(s, t->i0 + i) * d, (size_t)d * sizeof *x);
	for (int64_t j = 0; j < t->nj; j++)
		memcpy(y + j * d, s->g.y + distances_column(s, t->j0 + j) * d, (size_t)d * sizeof *y);
}

/* Compute the products of the near pairs of row i, or of the whole tile if it has had many. */
static void row_products(struct distance_tile *t, int64_t i, const uint8_t *near)
{
	const struct distances *s = t->of;
	const float *row = s->g.x + row_at(s, t->i0 + i) * s->g.d;
	struct gemm g = tile_product(t->ni, t->nj, s->g.d);

	if (t->near > NEAR) {
		tile_gather(t);
		gemm_serial_f32(&g, t->dot, t->rows.x, t->rows.y, NULL, (float *)(uintptr_t)t->rows.y + GRAM_TILE * s->g.d);
		t->whole = 1;
		return;
	}
	for (int64_t j = 0; j < t->nj; j++)
		if (near[j])
			t->dot[i * GRAM_TILE + j] = pair_product(row, s->g.y + distances_column(s, t->j0 + j) * s->g.d, s->g.d);
}

int distance_tile_near(struct distance_tile *t, int64_t i, double row_limit, const double *col_limit, uint8_t *near)
{
	const struct distances *s = t->of;
	const float *dot = t->dot + i * GRAM_TILE;
	int count;

	if (!t->whole) {
		count =
		    row_near(near, t->coarse + i * GRAM_TILE, s->sx->low[t->i0 + i], s->sy->low + t->j0, SKETCH_SCALE, row_limit, col_limit, t->nj);
		if (!count)
			return 0;
		t->near += count;
		row_products(t, i, near);
	}
	if (t->whole)
		return row_near(near, dot, t->low_x[i], t->low_y, 2, row_limit, col_limit, t->nj) > 0;
	count = 0;
	for (int64_t j = 0; j < t->nj; j++)
		if (near[j]) {
			double low = distance_tile_low(t, i, j);

			near[j] = !(low > row_limit) | !(low > col_limit[j]);
			count += near[j];
		}
	return count > 0;
}

double distance_tile_exact(struct distance_tile *t, int64_t i, int64_t j)
{
	const struct distances *s = t->of;
	int64_t row = row_at(s, t->i0 + i), column = distances_column(s, t->j0 + j);
	double dot;

	if (!t->exact && t->asked++ == ASKED) {
		if (s->sx)
			tile_gather(t);
		t->exact = s->sx ? gram_tile(&t->rows, 0, 0, t->worker) : gram_tile(&s->g, t->i0 / GRAM_TILE, t->j0 / GRAM_TILE, t->worker);
	}
	dot = t->exact ? t->exact[i * GRAM_TILE + j] : gram_pair(&s->g, row, column);
	return fmax(s->xx[row] + s->yy[column] - 2 * dot, 0);
}
