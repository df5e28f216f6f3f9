/* Solvers of the probability-flow ODE dx/dt = v(x, t), and of SDEs with the same marginals, from noise to data. */
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
 * sde takes Euler-Maruyama steps of the reverse SDE dx = (v + c eps) dt + sqrt(2 c t) dW, c = `strength`, whose marginals on the linear path are
 * those of the flow, as eps = x + (1 - t) v is -t times the score. Its last step, to t = 0, is an Euler step of the flow. With `ancestral` its
 * steps are instead those of DDPM on the linear path in continuous time: x' is drawn from p(x' | x, x0), whose x0 is the predicted x - t v. So the
 * step is exact if the data is one point. In short steps it is the reverse SDE with c = 1 / (1 - t), the reverse of the noising process.
 *
 * edm_heun is algorithm 2 of Karras et al. 2022 in sigma = t / (1 - t): while sigma is in churn_min .. churn_max, a step first raises it to
 * (1 + min(churn / steps, sqrt 2 - 1)) sigma with new noise of deviation churn_noise; then it takes a step of Heun's method in sigma. At t = 1
 * sigma is infinite: nothing is added there, and the step is one of Heun's method in t.
 *
 * dopri5 chooses its own steps: the root mean square over the elements of the estimated error of a step, in units of atol + rtol |x|, is at most 1.
 * All elements of a run share their steps; dopri5_run (diffusion/dopri5.h) gives each of many samples its own. At t = .001 it ends with a step of
 * Heun's third-order method to 0. `steps` is the most it may try; times, last and the stages' numbers mean nothing to it, except that
 * stage 0 is in every step once.
 *
 * No method evaluates the velocity at t = 0, because predictions of x0 and epsilon give none there. A step that ends at t = 0 is an Euler step
 * for heun and edm_heun, and a step of Heun's third-order method for rk4; neither lowers the order of the whole. So N steps take 2 N - 1 and 4 N - 1
 * evaluations. */
#define SOLVER_KIND(kind, ...) SOLVER_##kind,
enum solver_kind { SOLVER_LIST(SOLVER_KIND, SOLVER_NO_TEXT) SOLVER_KINDS };
#undef SOLVER_KIND

/* Of the solvers that add noise. */
struct stochastic {
	double strength; /* sde */
	double churn, churn_min, churn_max, churn_noise;
	int ancestral; /* sde: takes ancestral steps, and `strength` means nothing */
};

/* Of dopri5. */
struct tolerance {
	double rtol, atol;
};

/* The grid is t_i = (from (N - i) + to i) / N: 1 - i/N for the usual from = 1, to = 0. With `last` > 0 it is N even points from `from` to
 * `last`, and then `to`: the released Paris sampler uses 1, .. .001, 0. With `times` it is these (steps + 1, decreasing, the last `to`; borrowed). */
struct solver {
	enum solver_kind kind;
	int64_t steps;
	double from, to, last;
	const double *times;
	struct stochastic add;
	struct tolerance adapt;
};

/* v (n, d) at x (n, d) and time t. `stage` counts the evaluations within a step from 0. */
typedef int solver_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e);

/* z (count) = standard normals for a step, at most once for each. */
typedef int solver_draw(void *arg, float *z, int64_t step, struct err *e);

/* Integrate the `count` elements of x in place. work: solver_work floats. x, work and the arrays of the callbacks are in device memory. `draw`
 * may be NULL unless solver_draws. */
int solver_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, solver_draw *draw, void *arg,
               struct err *e);
/* Step i of an ancestral sde from t to t' is x' = a x + b v + s z: the ratio b / s, which is below 0. For a step that does not end at t' = 0, where s
 * is 0. */
double solver_noise_ratio(const struct solver *s, int64_t i);
/* Whether a flow solver takes steps of a Runge-Kutta method in t: those of SOLVER_RUNGE_KUTTA. */
int solver_is_runge_kutta(enum solver_kind kind);
#define SOLVER_RUNGE_KUTTA "euler, heun, midpoint, rk4"
/* For quantities that follow the flow beside x, y' = r(x, y, t): the state before stage `stage` of step i is y + *h SUM f[j] r_j over the stages
 * j before it, and with stage -1 it is y at the end of the step. Returns the number of stages in the sum. For Runge-Kutta methods. */
enum { SOLVER_STAGES = 4 };
int solver_beside(const struct solver *s, int64_t i, int stage, double *h, double f[SOLVER_STAGES]);
int solver_draws(const struct solver *s);                   /* whether steps add noise */
int64_t solver_evaluations(const struct solver *s);         /* 0 for dopri5, where it depends on the sample */
int64_t solver_work(const struct solver *s, int64_t count); /* floats */

#endif
