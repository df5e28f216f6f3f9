/* Boundaries between experts for parts of the times, such that all parts have the same share of a measured quantity (CBS, arXiv 2606.06477). */
#ifndef DDM_DIFFUSION_TIMEKNOTS_H
#define DDM_DIFFUSION_TIMEKNOTS_H

#include <stdint.h>

#include "core/err.h"

/* knot (parts + 1), from 0 to 1: the integral of m over each part is the same. m (n) at the increasing times t (n) in 0 .. 1 is linear between them
 * and constant beyond them. ERR_DATA if a value is negative or not finite, the times do not increase, or the integral is 0. */
int time_knots(double *knot, int parts, const double *t, const double *m, int64_t n, struct err *e);

#endif
