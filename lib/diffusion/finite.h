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
#include "diffusion/law.h"

/* Samples in the order of their clusters. */
struct finite_set {
	int64_t n, d;       /* samples, elements of one */
	const void *sample; /* (n, d) floats, or bytes */
	int bytes;          /* samples are bytes b that stand for b / 127.5f - 1.f, as in training */
	int clusters;
	const int64_t *first; /* (clusters + 1): cluster k is samples first[k] .. first[k + 1] - 1 and may be empty */
	const double *weight; /* (clusters) weight of each sample of the cluster, or NULL: 1 */
};

/* The law of a sample drawn from the set. Copies *s; borrows its arrays and the pool, which may be NULL. ERR_DATA if a sample is not finite. Free
 * with law_free. */
struct law *finite_new(const struct finite_set *s, struct pool *pool, struct err *e);

#endif
