/* The optimal expert and router of a finite data set or of a mixture of Gaussians, in closed form.
 *
 * Component j is a Gaussian N(mean_j, std^2 I) of weight w_j that belongs to a cluster. With std 0 the components are data points and the mixture is
 * a finite data set. The marginal flow of any set of components is known exactly (arXiv 2501.05450, section 3), so these experts have no
 * training error. They serve to test samplers, and to measure how far a trained expert or router is from its optimum. */
#ifndef DDM_DIFFUSION_EXACT_H
#define DDM_DIFFUSION_EXACT_H

#include <stdint.h>

#include "diffusion/denoiser.h"
#include "diffusion/path.h"

enum { EXACT_ALL = -1 };

struct exact {
	int64_t n, d; /* components, dimensions */
	int clusters;
	const float *mean;      /* (n, d) */
	const double *weight;   /* (n), or NULL: equal */
	const int32_t *cluster; /* (n), or NULL: all 0 */
	double std;
};

/* x0 (d) = E[x0 | x_t = x] and eps (d) = E[eps | x_t = x], for x (d) on `path` at time t > 0, over the components of one cluster (or EXACT_ALL).
 * Either output may be NULL. */
void exact_moments(const struct exact *m, const struct path *path, double t, int cluster, const float *x, double *x0, double *eps);

/* v (d): the marginal flow of one cluster (or EXACT_ALL) on the linear path. */
void exact_velocity(const struct exact *m, double t, int cluster, const float *x, double *v);

/* logits (clusters): log p(k | x, t) plus a constant, on the linear path; the optimum of the router's cross-entropy. */
void exact_logits(const struct exact *m, double t, const float *x, double *logits);

/* Callbacks for struct expert and struct router; arg is a struct exact_expert / a struct exact. */
struct exact_expert {
	const struct exact *m;
	int cluster;
};
int exact_expert_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e);
int exact_router_run(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e);

#endif
