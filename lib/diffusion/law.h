/* A law of the data x0 whose posterior given a noised state x_t = alpha x0 + sigma eps is known in closed form. Optimal experts and routers follow
 * from it: every kind of prediction is linear in E[x0 | x_t], and the router's logits are the log masses of the clusters. There are two kinds:
 * a finite set of samples (diffusion/finite.h) and a mixture of Gaussians (diffusion/gaussians.h). Computed in double. */
#ifndef DDM_DIFFUSION_LAW_H
#define DDM_DIFFUSION_LAW_H

#include <stdint.h>

#include "core/err.h"
#include "diffusion/path.h"

enum { LAW_ALL = -1 };

/* The first member of the struct of each kind. */
struct law {
	int clusters;
	int64_t d;     /* elements of x0 */
	double *share; /* (clusters) weights of the clusters, up to a common factor; 0: the cluster is empty */
	/* law_posterior, law_flops and law_free of this kind. */
	void (*posterior)(struct law *l, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean);
	double (*flops)(const struct law *l, int cluster, int with_mean);
	void (*free)(struct law *l);
	/* scratch of law_predict and law_logits */
	double *mean, *mass, *logit; /* (LAW_ROWS, d), (LAW_ROWS), (LAW_ROWS, clusters) */
	struct path_point *at;       /* (LAW_ROWS) */
};

enum { LAW_ROWS = 128 };

/* For the constructor of a kind, which has set clusters and d: allocate share and the scratch. law_release frees them, also after failure. */
int law_allocate(struct law *l, struct err *e);
void law_release(struct law *l);

void law_free(struct law *l); /* NULL is allowed */

/* The posterior of x0 for n rows x (n, d), each at its own point of a path with sigma > 0, over one cluster (or LAW_ALL): mean (n, d) = E[x0 | x];
 * mass (n) = the log of the cluster's weight times the likelihood of x in it, up to a constant of the row that is the same for every
 * cluster. An empty cluster has mass -infinity and mean 0. Either output may be NULL. A row's bits depend on that row alone. */
void law_posterior(struct law *l, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean);

/* out (n, d) = the optimal prediction for the data of one cluster (or LAW_ALL), given x (n, d) on `path` at t (n). Times below CONVERT_MIN_T
 * count as CONVERT_MIN_T. */
void law_predict(struct law *l, int cluster, const struct path *path, enum prediction kind, int64_t n, const float *x, const float *t, float *out);

/* logits (n, clusters) = log p(k | x, t) minus the largest of the row, for x (n, d) on `path` at t (n), with the same least time. */
void law_logits(struct law *l, const struct path *path, int64_t n, const float *x, const float *t, float *logits);

/* out (n, d) = sum_k r_k d logit_k / dx for r (n, clusters), whose rows sum to 0: the gradient of a row's logits is known up to a term that is the
 * same for every cluster. x, t and `path` as in law_logits. */
void law_pull_logits(struct law *l, const struct path *path, int64_t n, const float *x, const float *t, const float *r, float *out);

/* FLOPs of one row: of law_predict with with_mean, of law_logits with LAW_ALL and without it. */
double law_flops(const struct law *l, int cluster, int with_mean);

#endif
