/* Computes inner products of two sets by tiles. */
#include "metric/gram.h"

#include <string.h>

#include "core/mem.h"
#include "metric/outerimpl.h"

/* DEPTH dimensions are processed at a time, whose panels fit in the second-level cache. */
enum { ROWS = OUTER_ROWS, COLS = OUTER_COLS, DEPTH = 128 };

int gram_init(struct gram *g, const struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e)
{
	*g = (struct gram){.x = x, .y = y, .n = n, .m = m, .d = d};
	g->ti = (n + GRAM_TILE - 1) / GRAM_TILE;
	g->tj = (m + GRAM_TILE - 1) / GRAM_TILE;
	g->per_worker = 2 * (size_t)GRAM_TILE * DEPTH + (size_t)GRAM_TILE * GRAM_TILE;
	g->scratch = mem_try(g->per_worker * (size_t)(pool ? pool_threads(pool) : 1), sizeof(double), "feature panels", e);
	return g->scratch ? 0 : -1;
}

void gram_release(struct gram *g)
{
	mem_free(g->scratch);
	g->scratch = NULL;
}

int64_t gram_tiles(int64_t n, int64_t m)
{
	return ((n + GRAM_TILE - 1) / GRAM_TILE) * ((m + GRAM_TILE - 1) / GRAM_TILE);
}

int64_t gram_count(int64_t n, int64_t i)
{
	return n - i * GRAM_TILE < GRAM_TILE ? n - i * GRAM_TILE : GRAM_TILE;
}

/* Convert dimensions [k0, k0 + depth) of `count` rows of x to double, in panels of `width` vectors, dimension by dimension. Missing vectors are
 * zero. */
static void pack(double *out, const float *x, int64_t count, int d, int k0, int depth, int width)
{
	for (int64_t p = 0; p < count; p += width)
		for (int k = k0; k < k0 + depth; k++)
			for (int i = 0; i < width; i++)
				*out++ = p + i < count ? x[(p + i) * d + k] : 0;
}

const double *gram_tile(const struct gram *g, int64_t i, int64_t j, int worker)
{
	double *a = g->scratch + (size_t)worker * g->per_worker, *b = a + GRAM_TILE * DEPTH, *out = b + GRAM_TILE * DEPTH;
	int64_t n = gram_count(g->n, i), m = gram_count(g->m, j);

	memset(out, 0, GRAM_TILE * GRAM_TILE * sizeof *out);
	for (int k = 0; k < g->d; k += DEPTH) {
		int depth = g->d - k < DEPTH ? g->d - k : DEPTH;

		pack(a, g->x + i * GRAM_TILE * g->d, n, g->d, k, depth, ROWS);
		pack(b, g->y + j * GRAM_TILE * g->d, m, g->d, k, depth, COLS);
		for (int64_t c = 0; c < m; c += COLS)
			for (int64_t r = 0; r < n; r += ROWS)
				outer_add(out + r * GRAM_TILE + c, GRAM_TILE, a + r * depth, ROWS, b + c * depth, COLS, depth);
	}
	return out;
}

double gram_pair(const struct gram *g, int64_t i, int64_t j)
{
	const float *a = g->x + i * g->d, *b = g->y + j * g->d;
	double sum = 0;

	for (int k = 0; k < g->d; k++)
		sum += (double)a[k] * (double)b[k];
	return sum;
}

void gram_squares(double *out, const float *x, int64_t n, int d)
{
	for (int64_t i = 0; i < n; i++) {
		out[i] = 0;
		for (int k = 0; k < d; k++)
			out[i] += (double)x[i * d + k] * (double)x[i * d + k];
	}
}
