/* The optimal denoiser of a large finite data set, by two matrix products and a softmax.
 *
 * x_t = alpha x0 + sigma eps with x0 drawn from the set makes p(x_t) a mixture of Gaussians, so the posterior of x0 is a softmax
 * over the samples m_j of (alpha x.m_j - alpha^2 |m_j|^2 / 2) / sigma^2 + log w_j. Every kind of prediction follows from the posterior's mean (arXiv
 * 2501.05450, section 3). Computed in double. tests/unit/exact.h computes the same more slowly, and also for Gaussians. */
#ifndef DDM_DIFFUSION_FINITE_H
#define DDM_DIFFUSION_FINITE_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "diffusion/path.h"

enum { FINITE_ALL = -1 };

/* Samples in the order of their clusters. */
struct finite_set {
	int64_t n, d;       /* samples, elements of one */
	const void *sample; /* (n, d) floats, or bytes */
	int bytes;          /* samples are bytes b that stand for b / 127.5f - 1.f, as in training */
	int clusters;
	const int64_t *first; /* (clusters + 1): cluster k is samples first[k] .. first[k + 1] - 1 and may be empty */
	const double *weight; /* (clusters) weight of each sample of the cluster, or NULL: 1 */
};

struct finite;

/* Copies *s; borrows its arrays and the pool, which may be NULL. ERR_DATA if a sample is not finite. Caller frees with finite_free. */
struct finite *finite_new(const struct finite_set *s, struct pool *pool, struct err *e);
void finite_free(struct finite *f);
const struct finite_set *finite_set(const struct finite *f);

/* The posterior of x0 for n rows x (n, d), each at its own point of a path with sigma > 0, over one cluster (or FINITE_ALL): mean (n, d) = E[x0 | x];
 * mass (n) = the log of the sum of the samples' weights times likelihoods, up to a constant of the row that is the same for every
 * cluster. An empty cluster has mass -infinity and mean 0. Either output may be NULL. A row's bits depend on that row alone. */
void finite_posterior(struct finite *f, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean);

/* out (n, d) = the optimal prediction for the data of one cluster (or FINITE_ALL), given x (n, d) on `path` at t (n). Times below CONVERT_MIN_T
 * count as CONVERT_MIN_T. */
void finite_predict(struct finite *f, int cluster, const struct path *path, enum prediction kind, int64_t n, const float *x, const float *t,
                    float *out);

/* logits (n, clusters) = log p(k | x, t) minus the largest of the row, for x (n, d) on `path` at t (n). */
void finite_logits(struct finite *f, const struct path *path, int64_t n, const float *x, const float *t, float *logits);

/* FLOPs of one row: of finite_predict with with_mean, of finite_logits with FINITE_ALL and without it. */
double finite_flops(const struct finite *f, int cluster, int with_mean);

#endif
