/* Solvers of the probability-flow ODE dx/dt = v(x, t), from noise to data. */
#ifndef DDM_DIFFUSION_SOLVER_H
#define DDM_DIFFUSION_SOLVER_H

#include <stdint.h>

#include "core/err.h"
#include "diffusion/solverlist.h"
#include "kernels/device.h"

/* Orders and evaluations are in diffusion/solverlist.h. Heun's method, the midpoint method and the classical Runge-Kutta
 * method are as in Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", II.1. ab2 is Adams-Bashforth with two points, for any
 * grid; its first step is an Euler step.
 *
 * No method evaluates the velocity at t = 0, because predictions of x0 and epsilon give none there. A step that ends at t = 0 is an Euler step
 * for heun, and a step of Heun's third-order method for rk4; neither lowers the order of the whole. So N steps take 2 N - 1 and 4 N - 1
 * evaluations. */
#define SOLVER_KIND(kind, ...) SOLVER_##kind,
enum solver_kind { SOLVER_LIST(SOLVER_KIND, SOLVER_NO_TEXT) SOLVER_KINDS };
#undef SOLVER_KIND

/* The grid is t_i = (from (N - i) + to i) / N: 1 - i/N for the usual from = 1, to = 0. With `last` > 0 it is N even points from `from` to
 * `last`, and then `to`: the released Paris sampler uses 1, .. .001, 0. With `times` it is these (steps + 1, decreasing, the last `to`; borrowed). */
struct solver {
	enum solver_kind kind;
	int64_t steps;
	double from, to, last;
	const double *times;
};

/* v (n, d) at x (n, d) and time t. `stage` counts the evaluations within a step from 0. */
typedef int solver_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e);

/* Integrate the `count` elements of x in place. work: solver_work floats. x, work and the arrays of `field` are in device memory. */
int solver_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e);
int64_t solver_evaluations(const struct solver *s);
int64_t solver_work(const struct solver *s, int64_t count); /* floats */

#endif
