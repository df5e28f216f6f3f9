/* How stable the trajectories of a routing policy are: numbers for each trajectory and each time of the grid, and means over trajectories. A
 * trajectory's numbers do not depend on how trajectories are batched. */
#ifndef DDM_DIFFUSION_STABILITY_H
#define DDM_DIFFUSION_STABILITY_H

#include "diffusion/trajectory.h"

/* Numbers at a time: ROW(column, name). With `frozen` the weights are constants, else they follow the state (diffusion/jacobian.h).
 *
 *   jacobian      the largest singular value of J = du/dx
 *   mu            (lambda - 1) / t (jacobian_rate)
 *   amplification the distance of a perturbed trajectory over that at t = 1: the median over directions and trajectories
 *   bound         exp(sum h mu) from t = 1 to t, the median over trajectories
 *   straightness  |(x_1 - x_0) - u|^2 per element
 *   curvature     |a - <a, u> u / |u|^2| / |u|^2 times sqrt(d), a = du/dt along the trajectory, with free routing */
#define STABILITY_LIST(ROW) \
	ROW(JACOBIAN, "jacobian") \
	ROW(JACOBIAN_FROZEN, "jacobian_frozen") \
	ROW(MU, "mu") \
	ROW(MU_FROZEN, "mu_frozen") \
	ROW(BOUND, "bound") \
	ROW(AMPLIFICATION, "amplification") \
	ROW(AMPLIFICATION_FROZEN, "amplification_frozen") \
	ROW(STRAIGHTNESS, "straightness") \
	ROW(CURVATURE, "curvature")

#define STABILITY_COLUMN(column, name) STABILITY_##column,
enum stability_column { STABILITY_LIST(STABILITY_COLUMN) STABILITY_COLUMNS };
extern const char *const stability_names[]; /* in the order of enum stability_column */

/* Numbers of whole trajectories, means over them. */
struct stability_total {
	double column[STABILITY_COLUMNS]; /* jacobian, mu, curvature: means over the times; straightness: the integral over t; others: at t = 0 */
	double largest[2];                /* the largest singular value of the whole map, routing free and frozen; NAN: not measured */
	double gap;                       /* sqrt(sum |x_0(N) - x_0(4 N)|^2 / sum |x_0(4 N)|^2) */
	double path;                      /* sum |dx| / |x_1 - x_0| */
};

struct stability_plan {
	const struct mixture *mixture; /* on the linear path, without guidance and texts, with a device */
	struct pull pull;              /* of its experts and router */
	int heun;                      /* 0: Euler's method */
	int64_t steps;                 /* at most 500: curvature differs over .001 in t */
	int64_t every;                 /* numbers that need Jacobians are measured at every so many-th time, from t = 1 on */
	int64_t count;                 /* trajectories in all */
	int directions;                /* of perturbations of each trajectory */
	struct jacobian_iteration iteration;
	int whole; /* measure `largest` */
};

struct stability;

/* Borrows *p. ERR_USAGE as mixer_new. Free with stability_free. */
struct stability *stability_new(const struct stability_plan *p, int64_t capacity, struct err *e);
void stability_free(struct stability *s);

/* Measure trajectories first .. first + n - 1, n <= capacity. The kept run is borrowed until the next call. */
const struct trajectory *stability_add(struct stability *s, int64_t first, int64_t n, struct err *e);

/* After all trajectories have been added: a number at time i of the grid, 0 <= i < steps; NAN: not measured there. */
double stability_at(const struct stability *s, enum stability_column column, int64_t i);
struct stability_total stability_total(const struct stability *s);

/* For other measurements on the kept run. Borrowed. */
struct jacobian *stability_jacobian(struct stability *s);
struct trajectories *stability_trajectories(struct stability *s);
/* Whether time i is one of those of `every`. */
int stability_measures(const struct stability *s, int64_t i);

/* The mean of the values that are numbers, in order; NAN if there are none. */
double stability_mean(const double *v, int64_t n);

#endif
