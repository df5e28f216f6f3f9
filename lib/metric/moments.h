/* Running mean and covariance of feature vectors in double. */
#ifndef DDM_METRIC_MOMENTS_H
#define DDM_METRIC_MOMENTS_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct moments {
	int64_t n;
	int d;
	double *mean;   /* (d) */
	double *spread; /* (d, d): sum of (x - mean)(x - mean)'; the lower triangle is kept */
	double *chunk;  /* rows not merged yet */
	double *panels; /* private */
	int held;
};

/* d >= 1. Failure is ERR_NOMEM. */
int moments_init(struct moments *s, int d, struct err *e);
void moments_release(struct moments *s);

/* Add x (n, d). Vectors are gathered into chunks of a fixed number, whatever n is, and chunks merged in order (Chan, Golub,
 * LeVeque 1979): the same bits for any pool (NULL: serial) and any division into calls. */
void moments_add(struct moments *s, struct pool *pool, const float *x, int64_t n);

/* mu (d) and sigma (d, d), symmetric, divided by n - 1 as numpy.cov does. Fewer than 2 vectors: ERR_USAGE. */
int moments_result(struct moments *s, struct pool *pool, double *mu, double *sigma, struct err *e);

#endif
