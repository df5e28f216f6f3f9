/* Standard errors of Frechet distances along axes, by the jackknife over groups of vectors (Efron and Stein, "The jackknife estimate of variance",
 * 1981). They estimate how much the distance varies with the samples of the network, the samples of the reference and the random draws. They do not
 * cover the variation between trainings. The axes of the reference are taken as given. */
#ifndef DDM_METRIC_FRECHETERROR_H
#define DDM_METRIC_FRECHETERROR_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* Standard error of `along` of frechet_equal, called with the same arguments; x and y must be different sets. NaN if `take` is below 8. */
int frechet_equal_error(double *se, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes, int p,
                        int64_t take, int draws, uint64_t seed, struct err *e);

/* Standard error of the distance along the axes between all of y (m, d) and a reference given by mu (p) and sigma (p, p) along the axes, which counts
 * as exact. NaN if m is below 8. */
int frechet_fixed_error(double *se, struct pool *pool, const double *mu, const double *sigma, const float *y, int64_t m, int d, const double *axes,
                        int p, struct err *e);

#endif
