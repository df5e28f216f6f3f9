/* Inner products of all pairs of two sets of vectors, one tile at a time, for kernels and distances. */
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
	int64_t ti, tj;  /* number of tiles along x and along y */
	double *scratch; /* private */
	size_t per_worker;
};

/* Prepare the products of x (n, d) and y (m, d). Allocates 1 MiB of scratch for every worker of the pool (NULL: serial). ERR_NOMEM. */
int gram_init(struct gram *g, const struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e);
void gram_release(struct gram *g); /* allowed after a failure too */

/* The products of the vectors of x from i * GRAM_TILE with those of y from j * GRAM_TILE; rows are GRAM_TILE apart. Borrowed until the worker's next
 * call. Each product is summed over the dimensions in order, in double, so its bits do not depend on its position in the tile. Beyond the last vector
 * products are zero. Thread-safe for different workers. */
const double *gram_tile(const struct gram *g, int64_t i, int64_t j, int worker);

/* The product of vector i of x and vector j of y, with the bits of gram_tile. Thread-safe. */
double gram_pair(const struct gram *g, int64_t i, int64_t j);

/* Number of tiles of n against m vectors. */
int64_t gram_tiles(int64_t n, int64_t m);

/* Number of vectors in tile i of n vectors. */
int64_t gram_count(int64_t n, int64_t i);

/* out (n): x . x of each vector of x (n, d), with the bits of gram_tile. */
void gram_squares(double *out, const float *x, int64_t n, int d);

#endif
