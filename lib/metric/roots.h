/* The trace of the square root of a product of two covariances, for the Frechet distance. It needs no eigenvectors; the bits do not depend on the
 * pool. */
#ifndef DDM_METRIC_ROOTS_H
#define DDM_METRIC_ROOTS_H

#include "core/err.h"
#include "core/pool.h"

/* Factor s (d, d), symmetric, into r' r = s by Cholesky with diagonal pivoting. r (rank, d) is stored in an array of (d, d). Pivoting stops when no
 * remaining variance exceeds d eps times the largest variance. Returns the rank, or -1: ERR_DATA if a value is not finite, or if the remainder
 * exceeds 1e-6 of the largest variance, so that s is not positive semidefinite; ERR_NOMEM. */
int roots_factor(double *r, struct pool *pool, const double *s, int d, struct err *e);

/* From r1 (n1, d) and r2 (n2, d): the sum of the singular values of r1 r2' (n1, n2), which is the trace of (r1' r1 r2' r2)^(1/2). ERR_NOMEM. */
int roots_trace(double *out, struct pool *pool, const double *r1, int n1, const double *r2, int n2, int d, struct err *e);

#endif
