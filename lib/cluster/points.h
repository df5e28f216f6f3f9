/* Points as rows of floats: distances, subsamples, checks. For the methods of clustering. */
#ifndef DDM_CLUSTER_POINTS_H
#define DDM_CLUSTER_POINTS_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

/* Steps of RNG_CLUSTER: restarts of k-means count from 0, the others are above. They are part of every result: never renumber. */
enum { STEP_FINE = 1 << 20, STEP_SUBSAMPLE, STEP_RANDOM, STEP_SILHOUETTE, STEP_EIGEN, STEP_MICRO, STEP_PLACES };

float points_length2(const float *x, int64_t d);                   /* |x|^2, summed in double */
float points_distance2(const float *a, const float *b, int64_t d); /* |a - b|^2, summed in float */

/* The cosine of two vectors of length 1, from their distance. Near 1 it is exact to a few bits of float, which a sum of products is not. */
double points_cosine(const float *a, const float *b, int64_t d);

/* Draw m of n rows with RNG_CLUSTER at this step; the result [m] is in index order. Caller frees with mem_free. */
int64_t *points_subsample(int64_t n, int64_t m, uint64_t seed, uint64_t step);

/* Call task(arg, block, worker) in the pool for every block of `rows` rows of n, and report the progress under this name. ERR_AGAIN if
 * interrupted. */
int points_blocks(int64_t n, int64_t rows, const char *name, void (*task)(void *arg, int64_t block, int worker), void *arg, struct pool *pool,
                  const struct progress *progress, struct err *e);

/* Scale x [d] to length 1, in place. Returns its length before; one of length 0 stays as it is. */
double points_unit(float *x, int64_t d);
/* Scale every row of x (n, d) to length 1. Returns the first row whose length is 0, which has no direction, or -1 if there is none. */
int64_t points_unit_rows(float *x, int64_t n, int64_t d, struct pool *pool);

/* ERR_DATA naming the first value of x (n, d) that is not finite. */
int points_finite(const float *x, int64_t n, int64_t d, struct pool *pool, struct err *e);

#endif
