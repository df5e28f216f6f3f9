/* Sampling trajectories of a mixture that are kept, with what follows from their linearisation: how perturbations of the initial noise grow.
 *
 * The flow runs from t = 1 to 0 on the even grid t_i = 1 - i / N by Euler's or Heun's method, as in diffusion/solver.h, from the same noise as the
 * pictures of diffusion/sampler.h with this seed. A row's results do not depend on the other rows. */
#ifndef DDM_DIFFUSION_TRAJECTORY_H
#define DDM_DIFFUSION_TRAJECTORY_H

#include "diffusion/jacobian.h"
#include "diffusion/mixture.h"

struct trajectory_plan {
	const struct mixture *mixture; /* on the linear path, without guidance and texts, with a device */
	struct jacobian *jacobian;     /* of the same experts and router */
	int heun;                      /* 0: Euler's method */
	int64_t steps;                 /* N */
};

/* The kept run: evaluation j is at state at[j] and time t[j] with the weights w[j] and the velocity v[j]. Of Euler's method evaluation i is that of
 * step i; of Heun's, step i has evaluations 2 i and 2 i + 1 but the last, which has one. Borrowed until the next trajectory_run. */
struct trajectory {
	int64_t n, steps, evaluations;
	const int64_t *index;              /* (n) */
	float *x;                          /* (steps + 1, n, d) states at the times of the grid */
	float *at, *v;                     /* (evaluations, n, d) */
	double *w;                         /* (evaluations, n, k) */
	int32_t *heaviest;                 /* (evaluations, n) */
	double *t;                         /* (evaluations) */
	const struct policy_entry **entry; /* (evaluations) the policy's entry at t */
	int64_t *first;                    /* (steps) the first evaluation of each step */
};

struct trajectories;

/* Borrows *p. ERR_USAGE as mixer_new. Free with trajectories_free. */
struct trajectories *trajectories_new(const struct trajectory_plan *p, int64_t capacity, struct err *e);
void trajectories_free(struct trajectories *s);

/* t_i of the plan's grid. */
double trajectory_time(const struct trajectory_plan *p, int64_t i);

/* Run the trajectories `index` (n), which key the noise and the policy's draws, and keep them. NULL and *e on failure. */
const struct trajectory *trajectory_run(struct trajectories *s, int64_t n, const int64_t *index, struct err *e);

/* x (n, d) = the samples that `steps` steps reach from the same noise. */
int trajectory_end(struct trajectories *s, int64_t steps, float *x, struct err *e);

/* Run again from the noise plus JACOBIAN_STEP times its length in a random direction, number `direction`: gain (steps + 1, n) = the distance from the
 * kept trajectory at each time of the grid, divided by that at t = 1. frozen: with the weights of the kept run, else with those of the policy. */
int trajectory_perturb(struct trajectories *s, int direction, int frozen, uint64_t seed, double *gain, struct err *e);

/* Replace r (n, d), tangents at t = 1, by M r at t = 0, M being the derivative of the whole map; g (n, d) by M' g. */
int trajectory_tangent(struct trajectories *s, int frozen, double *r, struct err *e);
int trajectory_cotangent(struct trajectories *s, int frozen, double *g, struct err *e);
/* gain (n) = the largest singular value of M, by power iteration. */
int trajectory_gain(struct trajectories *s, int frozen, const struct jacobian_iteration *how, double *gain, struct err *e);

/* Where evaluation j of the kept run is, for jacobian_*. */
struct jacobian_point trajectory_point(const struct trajectories *s, int64_t j, int frozen);

#endif
