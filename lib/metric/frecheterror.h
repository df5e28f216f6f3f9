/* Standard errors of Frechet distances along axes, by the jackknife over groups of vectors (Efron and Stein, "The jackknife estimate of
 * variance", 1981): how much the distance would change with other pictures of the same network and the same reference distribution, and
 * with other draws. Not with another training. The reference's axes are taken as given. */
#ifndef DDM_METRIC_FRECHETERROR_H
#define DDM_METRIC_FRECHETERROR_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* Of what frechet_equal, with the same arguments, calls `along`; x and y are two sets. NaN where `take` is below 8. */
int frechet_equal_error(double *se, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes, int p,
                        int64_t take, int draws, uint64_t seed, struct err *e);

/* Of the distance between all of y (m, d) and a reference known as mu (p) and sigma (p, p) along the axes only, which counts as exact. */
int frechet_fixed_error(double *se, struct pool *pool, const double *mu, const double *sigma, const float *y, int64_t m, int d, const double *axes,
                        int p, struct err *e);

#endif
