/* Accumulates mean and covariance of feature vectors in double. */
#ifndef DDM_METRIC_MOMENTS_H
#define DDM_METRIC_MOMENTS_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct moments {
	int64_t n;
	int d;
	double *mean;   /* (d) */
	double *spread; /* (d, d): sum of (x - mean)(x - mean)'; only the lower triangle is used */
	double *chunk;  /* rows that are not merged yet, and their mean */
	double *panels; /* private */
	int held;
};

/* Start with no vectors of d >= 1 dimensions. ERR_NOMEM. Release with moments_release. */
int moments_init(struct moments *s, int d, struct err *e);
void moments_release(struct moments *s); /* a zeroed one is allowed */

/* Add x (n, d). Vectors are collected in chunks of a fixed size, and chunks are merged in order (Chan, Golub, LeVeque 1979): the bits depend neither
 * on the pool (NULL: serial) nor on how vectors are divided between calls. */
void moments_add(struct moments *s, struct pool *pool, const float *x, int64_t n);

/* mu (d) and sigma (d, d), symmetric, divided by n - 1 as numpy.cov does. ERR_USAGE for fewer than 2 vectors. */
int moments_result(struct moments *s, struct pool *pool, double *mu, double *sigma, struct err *e);

#endif
