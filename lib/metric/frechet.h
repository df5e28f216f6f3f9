/* Frechet distance of two Gaussians (Dowson and Landau 1982; as a metric of generators, Heusel et al. 2017):
 *   |mu1 - mu2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)). */
#ifndef DDM_METRIC_FRECHET_H
#define DDM_METRIC_FRECHET_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* mu (d), s (d, d) symmetric, positive semidefinite up to rounding: singular ones are fine; what roots_factor refuses is ERR_DATA. Never below
 * zero. The bits do not depend on the pool. */
int frechet_distance(double *out, struct pool *pool, const double *mu1, const double *s1, const double *mu2, const double *s2, int d, struct err *e);

/* The leading p principal axes of a covariance s (d, d): axes (p, d), orthonormal rows, largest variance first. 1 <= p <= d. */
int frechet_axes(double *axes, const double *s, int d, int p, struct err *e);

/* A Gaussian seen along axes (p, d): mu_out (p), s_out (p, p). */
void frechet_project(double *mu_out, double *s_out, const double *axes, const double *mu, const double *s, int d, int p);

/* Distance in full and along axes (p, d) between equal numbers of vectors, which makes the bias of the two comparable between
 * calls: in each of `draws` rounds `take` vectors are drawn without replacement from x (n, d) and from y (m, d) with RNG_METRIC;
 * the means over the rounds come back. x == y: the two draws are disjoint, 2 take <= n (the floor: real against real). */
int frechet_equal(double *along, double *full, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes,
                  int p, int64_t take, int draws, uint64_t seed, struct err *e);

#endif
