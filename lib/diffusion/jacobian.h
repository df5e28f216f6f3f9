/* Products with the Jacobian J = du/dx of an ensemble's velocity u = sum_k w_k v_k, in one row of x, and the numbers that follow from them.
 *
 * With the routing frozen the weights are constants. With it free they change with x as the policy's entry says, but the set of selected
 * experts is held: it is constant near almost every x. J r is a central difference with a step of JACOBIAN_STEP |x| / |r| along r, J' r comes
 * from struct pull. States and velocities are float, vectors and sums double. A row's result does not depend on the other rows. */
#ifndef DDM_DIFFUSION_JACOBIAN_H
#define DDM_DIFFUSION_JACOBIAN_H

#include "diffusion/denoiser.h"
#include "diffusion/policy.h"
#include "kernels/device.h"

#define JACOBIAN_STEP 1e-3

/* J' r of the parts. Arrays are in host memory. */
struct pull {
	void *arg;
	/* v (n, d) = the velocity of expert k at x (n, d), t (n) with the null label, and g (n, d) = (dv/dx)' r for r (n, d); n <= capacity. */
	int (*expert)(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e);
	/* g (n, d) = (dlogits/dx)' r for r (n, k), whose rows sum to 0. */
	int (*router)(void *arg, int64_t n, const float *x, const float *t, const float *r, float *g, struct err *e);
};

struct jacobian_plan {
	int k; /* experts, and clusters of the router */
	int64_t d;
	const struct expert *expert; /* (k) without text; velocity NULL: absent */
	const struct router *router; /* NULL: there is none */
	struct pull pull;
	struct device *device; /* of the experts and the router */
};

/* Where the Jacobian is taken: rows at one time. */
struct jacobian_point {
	int64_t n;
	const float *x; /* (n, d) */
	double t;
	const double *w;                    /* (n, k) weights of the experts at x */
	const struct policy_entry *routing; /* the entry that gave the weights: free routing; NULL: frozen */
	const int64_t *index;               /* (n) keys of the first vectors of iterations */
};

struct jacobian;

/* Borrows *p. NULL: memory is short. Free with jacobian_free. */
struct jacobian *jacobian_new(const struct jacobian_plan *p, int64_t capacity, struct err *e);
void jacobian_free(struct jacobian *j);

/* Whether free routing differs from frozen routing under this entry: its weights are the router's. */
int jacobian_routes(const struct jacobian *j, const struct policy_entry *y);

/* u (n, d) = sum_k w_k v_k at the point, with its weights, in float as a mixer adds them. */
int jacobian_field(struct jacobian *j, const struct jacobian_point *p, float *u, struct err *e);
/* v (n, d) = the velocity of expert k at x (n, d). */
int jacobian_expert(struct jacobian *j, int k, int64_t n, const float *x, double t, float *v, struct err *e);
/* out (n, d) = J r + rate du/dt for r (n, d). With a rate the step is `rate` times JACOBIAN_STEP in t, and one-sided where t + step > 1. */
int jacobian_times(struct jacobian *j, const struct jacobian_point *p, const double *r, double rate, double *out, struct err *e);
/* out (n, d) = J' r for r (n, d). */
int jacobian_transposed(struct jacobian *j, const struct jacobian_point *p, const double *r, double *out, struct err *e);

/* Power iteration: at most so many steps, until the number changes by at most `tolerance`, relative. */
struct jacobian_iteration {
	int64_t most;
	double tolerance;
	uint64_t seed;
};

/* norm (n) = the largest singular value of J. */
int jacobian_norm(struct jacobian *j, const struct jacobian_point *p, const struct jacobian_iteration *how, double *norm, struct err *e);
/* mu (n) = (lambda - 1) / t, lambda being the largest eigenvalue of the symmetric part of dD/dx = I - t J, D = x - t u the predicted sample. A
 * difference between two trajectories grows by at most exp(sum h mu) over steps h downwards in t, while the routing does not switch. */
int jacobian_rate(struct jacobian *j, const struct jacobian_point *p, const struct jacobian_iteration *how, double *mu, struct err *e);

#endif
