/* The trace of the square root of a product of two covariances, for the Frechet distance, without eigenvectors; the same bits for any pool. */
#ifndef DDM_METRIC_ROOTS_H
#define DDM_METRIC_ROOTS_H

#include "core/err.h"
#include "core/pool.h"

/* r (rank, d), in room for (d, d), with r' r = s (d, d), symmetric: Cholesky with the largest pivot first, to the bottom of rounding, d eps of
 * the largest variance. Returns the rank, or -1: ERR_DATA where a value is not finite or where what is left below says that s is not positive
 * semidefinite, by more than 1e-6 of the largest variance; ERR_NOMEM. */
int roots_factor(double *r, struct pool *pool, const double *s, int d, struct err *e);

/* The sum of the singular values of r1 r2' (n1, n2), which is the trace of (r1' r1 r2' r2)^(1/2), from r1 (n1, d) and r2 (n2, d). */
int roots_trace(double *out, struct pool *pool, const double *r1, int n1, const double *r2, int n2, int d, struct err *e);

#endif
