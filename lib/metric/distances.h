/* Squared distances between all pairs of two sets of vectors, tile by tile: cheap bounds from a product in float, and the exact value of the few
 * pairs that the bounds leave open. For decisions (nearest neighbours, "within a radius") that must be those of the computation in double. */
#ifndef DDM_METRIC_DISTANCES_H
#define DDM_METRIC_DISTANCES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "metric/gram.h"

struct distances {
	struct gram g;         /* sizes and tiles */
	const double *xx, *yy; /* (n), (m) squared lengths, borrowed */
	double slack, least;   /* the float bounds of a pair lie slack (xx + yy) + 2 least apart from its exact distance at most */
	char *scratch;         /* private */
	size_t per_worker;
};

/* A tile of pairs, in the scratch of its worker. */
struct distance_tile {
	const struct distances *of;
	int64_t i0, j0, ni, nj; /* pairs (i0 + i, j0 + j), i < ni, j < nj */
	double low_x[GRAM_TILE], low_y[GRAM_TILE], high_x[GRAM_TILE], high_y[GRAM_TILE];
	const float *dot;    /* (ni, nj), rows GRAM_TILE apart */
	const double *exact; /* the same in double; NULL until many pairs have been asked for */
	int asked, worker;
};

/* x (n, d) against y (m, d), which may be the same; xx and yy by gram_squares. Scratch for every worker of the pool (NULL: serial), 1.3 MiB and what
 * gemm_serial takes each. ERR_NOMEM. distances_release also after a failure. */
int distances_init(struct distances *s, const struct pool *pool, const float *x, const double *xx, int64_t n, const float *y, const double *yy,
                   int64_t m, int d, struct err *e);
void distances_release(struct distances *s);

/* Compute the products of tile (ti, tj). t is valid until the worker's next call. Thread-safe for different workers. */
void distance_tile_make(struct distance_tile *t, const struct distances *s, int64_t ti, int64_t tj, int worker);

/* near[j], for every j < nj: 1 unless pair (i, j) is surely farther than both row_limit and col_limit[j]. Returns whether any is 1. */
int distance_tile_near(const struct distance_tile *t, int64_t i, double row_limit, const double *col_limit, uint8_t *near);

/* Bounds of the exact distance of pair (i, j): low <= distance_tile_exact <= high. Not a number where floats cannot tell. */
double distance_tile_low(const struct distance_tile *t, int64_t i, int64_t j);
double distance_tile_high(const struct distance_tile *t, int64_t i, int64_t j);

/* max(xx + yy - 2 x . y, 0) in double, x . y as gram_tile gives it. Once many pairs have been asked for, the whole tile is computed. */
double distance_tile_exact(struct distance_tile *t, int64_t i, int64_t j);

#endif
