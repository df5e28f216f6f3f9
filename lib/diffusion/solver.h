/* Solvers of the probability-flow ODE dx/dt = v(x, t), from noise to data. */
#ifndef DDM_DIFFUSION_SOLVER_H
#define DDM_DIFFUSION_SOLVER_H

#include <stdint.h>

#include "core/err.h"
#include "kernels/device.h"

enum solver_kind {
	SOLVER_EULER, /* order 1: one evaluation per step */
	SOLVER_HEUN   /* order 2: two per step. A step that ends at t = 0 is an Euler step, because predictions of x0 and epsilon give no
	               * velocity at t = 0; so N steps take 2 N - 1 evaluations */
};

/* The grid is t_i = (from (N - i) + to i) / N: 1 - i/N for the usual from = 1, to = 0. With `last` > 0 it is N even points from `from` to
 * `last`, and then `to`: the released Paris sampler uses 1, .. .001, 0. With `times` it is these (steps + 1, decreasing, the last `to`; borrowed). */
struct solver {
	enum solver_kind kind;
	int64_t steps;
	double from, to, last;
	const double *times;
};

/* v (n, d) at x (n, d) and time t. `stage` is 0, or 1 for Heun's second evaluation. */
typedef int solver_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e);

/* Integrate the `count` elements of x in place. work: count floats for Euler, 3 count for Heun. x, work and the arrays of
 * `field` are in device memory. */
int solver_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e);
int64_t solver_evaluations(const struct solver *s);
int64_t solver_work(const struct solver *s, int64_t count); /* floats */

#endif
