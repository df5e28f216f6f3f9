/* The Frechet distance of two Gaussians (Dowson and Landau 1982; for generated samples, Heusel et al. 2017):
 *   |mu1 - mu2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)). */
#ifndef DDM_METRIC_FRECHET_H
#define DDM_METRIC_FRECHET_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* The distance between (mu1, s1) and (mu2, s2): mu (d), s (d, d) symmetric, positive semidefinite up to rounding; singular matrices are allowed.
 * ERR_DATA for matrices that roots_factor rejects; ERR_NOMEM. Never below zero. The bits do not depend on the pool. */
int frechet_distance(double *out, struct pool *pool, const double *mu1, const double *s1, const double *mu2, const double *s2, int d, struct err *e);

/* The p leading principal axes of a covariance s (d, d): axes (p, d), orthonormal rows, largest variance first. 1 <= p <= d. ERR_DATA: s has a value
 * that is not finite or a clearly negative eigenvalue; ERR_NOMEM. */
int frechet_axes(double *axes, const double *s, int d, int p, struct err *e);

/* Project a Gaussian onto axes (p, d): mu_out (p), s_out (p, p). */
void frechet_project(double *mu_out, double *s_out, const double *axes, const double *mu, const double *s, int d, int p);

/* Frechet distances between equally large subsets: `full` in all d dimensions, `along` on axes (p, d). Equal sizes give equal bias, so results can be
 * compared. Each of `draws` rounds draws `take` vectors without replacement from x (n, d) and from y (m, d) with RNG_METRIC; the results are means
 * over the rounds. If x == y the two subsets are disjoint and 2 take <= n; that is the floor, real against real. take >= 2, else ERR_USAGE. */
int frechet_equal(double *along, double *full, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes,
                  int p, int64_t take, int draws, uint64_t seed, struct err *e);

#endif
