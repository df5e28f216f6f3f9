/* A mixture of low-rank Gaussians as a law: component k draws
 *
 *     x0 = mean_k + sum_i sqrt(variance_ki) a_i basis_ki + sqrt(noise_k) b,   a (rank) and b (d) standard normal.
 *
 * The isotropic noise gives x0 a density. Given x_t = alpha x0 + sigma eps, let c = alpha^2 noise + sigma^2, n_i = c + alpha^2 variance_i,
 * y = x - alpha mean, p = basis y and q = y - basis' p. Then
 *
 *     -2 log N(x) = |q|^2 / c + sum_i p_i^2 / n_i + (d - rank) log c + sum_i log n_i + d log 2 pi
 *     E[x0 | x, k] = mean + alpha (noise / c) q + alpha sum_i (variance_i + noise) / n_i p_i basis_i
 *
 * (the Woodbury identity for an orthonormal basis), in O(rank d) operations, without a d x d matrix. */
#ifndef DDM_DIFFUSION_GAUSSIANS_H
#define DDM_DIFFUSION_GAUSSIANS_H

#include "core/pool.h"
#include "core/rng.h"
#include "diffusion/law.h"

struct gaussians {
	int64_t k, d, rank; /* components; elements of x0; rank >= 0 of every component without its noise */
	double *mean;       /* (k, d) */
	double *basis;      /* (k, rank, d), orthonormal rows */
	double *variance;   /* (k, rank), not negative */
	double *noise;      /* (k) variance of the isotropic noise, positive */
	double *weight;     /* (k) positive, sum 1 */
};

/* Allocate the arrays, zeroed. Release with gaussians_release, also after failure. */
int gaussians_init(struct gaussians *g, int64_t k, int64_t d, int64_t rank, struct err *e);
void gaussians_release(struct gaussians *g);

/* ERR_DATA names the first number that breaks the rules above. */
int gaussians_check(const struct gaussians *g, struct err *e);

/* The law of the mixture: every component is a cluster, or, with `one`, all of them are one cluster. Borrows the mixture and the pool, which may be
 * NULL. ERR_DATA as gaussians_check. Free with law_free. A state with sigma = 0 has a posterior too. */
struct law *gaussians_law(const struct gaussians *g, int one, struct pool *pool, struct err *e);

/* Draw sample `index` into x (d); returns its component. The sample depends on seed, purpose and index alone. */
int gaussians_draw(const struct gaussians *g, uint64_t seed, enum rng_purpose purpose, uint64_t index, float *x);

/* SHA-256 of the mixture in hexadecimal. As the partition of samples into their components it has the role of data/partition.h. */
void gaussians_hash(const struct gaussians *g, char hex[65]);

#endif
