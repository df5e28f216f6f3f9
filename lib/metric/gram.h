/* Inner products of two sets of vectors, tile by tile, for kernels and distances between all pairs. */
#ifndef DDM_METRIC_GRAM_H
#define DDM_METRIC_GRAM_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

enum { GRAM_TILE = 256 };

struct gram {
	const float *x, *y; /* (n, d), (m, d), borrowed */
	int64_t n, m;
	int d;
	int64_t ti, tj;  /* tiles down x and along y */
	double *scratch; /* private */
	size_t per_worker;
};

/* Scratch for every worker of the pool (NULL: serial), 1 MiB each. ERR_NOMEM. */
int gram_init(struct gram *g, const struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e);
void gram_release(struct gram *g);

/* Products of vectors i * GRAM_TILE .. of x and j * GRAM_TILE .. of y, rows GRAM_TILE apart; borrowed until the worker's next
 * call. Each is the plain sum over the dimensions in order, in double, wherever the pair lies in its tile; beyond the last
 * vector they are zero. Thread-safe for different workers. */
const double *gram_tile(const struct gram *g, int64_t i, int64_t j, int worker);

/* One product, with the same bits. Thread-safe. */
double gram_pair(const struct gram *g, int64_t i, int64_t j);

/* Tiles of n against m vectors. */
int64_t gram_tiles(int64_t n, int64_t m);

/* Vectors in tile i of n. */
int64_t gram_count(int64_t n, int64_t i);

/* out (n): x . x of each, with the bits that gram_tile gives. */
void gram_squares(double *out, const float *x, int64_t n, int d);

#endif
