/* Squared distances between all pairs of two sets of vectors, one tile at a time. A float product gives cheap bounds; only the few pairs that the
 * bounds do not decide are computed exactly. So decisions (nearest neighbour, within a radius) are the same as with all distances in double. With
 * sketches of the vectors, the float product too is computed only for pairs that the sketches leave open. */
#ifndef DDM_METRIC_DISTANCES_H
#define DDM_METRIC_DISTANCES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "metric/gram.h"
#include "metric/sketch.h"

struct distances {
	struct gram g;         /* sizes and tiles */
	const double *xx, *yy; /* (n), (m) squared lengths, borrowed */
	const struct sketch *sx, *sy;
	double slack, least; /* a float distance differs from the exact one by at most slack (xx + yy) + 2 least */
	char *scratch;       /* private */
	size_t per_worker;
};

/* A tile of pairs; its products lie in the scratch of its worker. */
struct distance_tile {
	const struct distances *of;
	int64_t i0, j0, ni, nj; /* pairs (i0 + i, j0 + j), i < ni, j < nj */
	double low_x[GRAM_TILE], low_y[GRAM_TILE], high_x[GRAM_TILE], high_y[GRAM_TILE];
	float *dot;          /* (ni, nj), rows GRAM_TILE apart; with sketches, until `whole` only those of near pairs */
	const float *coarse; /* the same of the sketches */
	const double *exact; /* products in double; NULL until many exact distances were requested */
	struct gram rows;    /* the vectors of the tile in order, once gathered */
	int asked, near, whole, worker;
};

/* Prepare the distances of x (n, d) to y (m, d); x and y may be the same. xx and yy are their squared lengths, from gram_squares. sx and sy: sketches
 * of x and y, borrowed, or both NULL. Position i of a set is then its vector sx->order[i]. Allocates scratch for every worker of the pool (NULL:
 * serial): 1.3 MiB and the scratch of gemm_serial each, with sketches also .3 MiB and 512 vectors. ERR_NOMEM. Call distances_release after a failure
 * too. */
int distances_init(struct distances *s, const struct pool *pool, const float *x, const double *xx, int64_t n, const float *y, const double *yy,
                   int64_t m, int d, const struct sketch *sx, const struct sketch *sy, struct err *e);
void distances_release(struct distances *s);

/* The index of the vector of y at position j. */
int64_t distances_column(const struct distances *s, int64_t j);

/* A float distance of d terms differs from the one that distance_tile_exact computes by at most this times the sum of the squared lengths, besides
 * underflow; valid if the squared lengths are less than DISTANCES_LARGEST. */
double distances_slack(int d);
#define DISTANCES_LARGEST 1e37

/* Compute the products of tile (ti, tj), with sketches only theirs. t is valid until the worker's next call. Thread-safe for different workers. */
void distance_tile_make(struct distance_tile *t, const struct distances *s, int64_t ti, int64_t tj, int worker);

/* Set near[j], for every j < nj, to 0 if the lower bound of pair (i, j) is above both row_limit and col_limit[j], else to 1. Returns 1 if any near[j]
 * is 1. The functions below are valid for such pairs only, without sketches for all. */
int distance_tile_near(struct distance_tile *t, int64_t i, double row_limit, const double *col_limit, uint8_t *near);

/* Bounds of the exact distance of pair (i, j): low <= distance_tile_exact <= high. They are infinite or NaN if a float product could overflow. */
double distance_tile_low(const struct distance_tile *t, int64_t i, int64_t j);
double distance_tile_high(const struct distance_tile *t, int64_t i, int64_t j);

/* The exact distance of pair (i, j): max(xx + yy - 2 x . y, 0) in double, with the x . y of gram_tile. After many calls on one tile, all its products
 * are computed at once. */
double distance_tile_exact(struct distance_tile *t, int64_t i, int64_t j);

#endif
