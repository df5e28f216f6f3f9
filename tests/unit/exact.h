/* The optimal expert and router of a finite data set or of a mixture of Gaussians, in closed form.
 *
 * Component j is a Gaussian N(mean_j, std^2 I) of weight w_j that belongs to a cluster. With std 0 the components are data points and the mixture is
 * a finite data set. The marginal flow of any set of components is known exactly (arXiv 2501.05450, section 3), so these experts have no
 * training error, and tests compare solvers, conversions and mixtures with them. */
#ifndef DDM_TESTS_EXACT_H
#define DDM_TESTS_EXACT_H

#include <math.h>
#include <stdint.h>

#include "core/mem.h"
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

static inline int exact_member(const struct exact *m, int64_t j, int cluster)
{
	return cluster == EXACT_ALL || (m->cluster ? m->cluster[j] : 0) == cluster;
}

/* log(w_j N(x; alpha mean_j, var I)) without the constant common to all components. */
static inline double exact_log_mass(const struct exact *m, const struct path_point *p, double var, int64_t j, const float *x)
{
	double s = 0;

	for (int64_t i = 0; i < m->d; i++) {
		double r = x[i] - p->alpha * m->mean[j * m->d + i];

		s += r * r;
	}
	return (m->weight ? log(m->weight[j]) : 0) - s / (2 * var);
}

static inline double exact_variance(const struct exact *m, const struct path_point *p)
{
	return p->alpha * p->alpha * m->std * m->std + p->sigma * p->sigma;
}

/* x0 (d) = E[x0 | x_t = x] and eps (d) = E[eps | x_t = x], for x (d) on `path` at time t > 0, over the components of one cluster (or EXACT_ALL).
 * Either output may be NULL. For one component E[x0 | x] = mean + alpha std^2 / var (x - alpha mean) and E[eps | x] = sigma / var (x - alpha mean);
 * both are linear in the posterior mean of `mean`. */
static inline void exact_moments(const struct exact *m, const struct path *path, double t, int cluster, const float *x, double *x0, double *eps)
{
	struct path_point p = path_at(path, t);
	double var = exact_variance(m, &p), top = -INFINITY, sum = 0;
	double *lw = mem_alloc((size_t)m->n * sizeof *lw), *mean = mem_zalloc((size_t)m->d, sizeof *mean);

	for (int64_t j = 0; j < m->n; j++) {
		lw[j] = exact_member(m, j, cluster) ? exact_log_mass(m, &p, var, j, x) : -INFINITY;
		top = fmax(top, lw[j]);
	}
	for (int64_t j = 0; j < m->n; j++) {
		double w = exp(lw[j] - top);

		if (w == 0)
			continue;
		sum += w;
		for (int64_t i = 0; i < m->d; i++)
			mean[i] += w * m->mean[j * m->d + i];
	}
	for (int64_t i = 0; i < m->d; i++) {
		double mu = mean[i] / sum, r = (x[i] - p.alpha * mu) / var;

		if (x0)
			x0[i] = mu + p.alpha * m->std * m->std * r;
		if (eps)
			eps[i] = p.sigma * r;
	}
	mem_free(mean);
	mem_free(lw);
}

/* v (d): the marginal flow of one cluster (or EXACT_ALL) on the linear path. */
static inline void exact_velocity(const struct exact *m, double t, int cluster, const float *x, double *v)
{
	struct path_point p = path_at(&path_linear, t);
	double *eps = mem_alloc((size_t)m->d * sizeof *eps);

	exact_moments(m, &path_linear, t, cluster, x, v, eps);
	for (int64_t i = 0; i < m->d; i++)
		v[i] = p.dalpha * v[i] + p.dsigma * eps[i];
	mem_free(eps);
}

/* logits (clusters): log p(k | x, t) plus a constant, on the linear path; the optimum of the router's cross-entropy. */
static inline void exact_logits(const struct exact *m, double t, const float *x, double *logits)
{
	struct path_point p = path_at(&path_linear, t);
	double var = exact_variance(m, &p);

	for (int k = 0; k < m->clusters; k++)
		logits[k] = -INFINITY;
	for (int64_t j = 0; j < m->n; j++) {
		double l = exact_log_mass(m, &p, var, j, x), *sum = &logits[m->cluster ? m->cluster[j] : 0], top = fmax(l, *sum);

		*sum = top + log(exp(l - top) + exp(*sum - top));
	}
}

/* Callbacks for struct expert and struct router; arg is a struct exact_expert / a struct exact. */
struct exact_expert {
	const struct exact *m;
	int cluster;
};

static inline int exact_expert_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	const struct exact_expert *a = arg;
	int64_t d = a->m->d;
	double *u = mem_alloc((size_t)d * sizeof *u);

	(void)c;
	(void)e;
	for (int64_t i = 0; i < n; i++) {
		exact_velocity(a->m, t[i], a->cluster, x + i * d, u);
		for (int64_t j = 0; j < d; j++)
			v[i * d + j] = (float)u[j];
	}
	mem_free(u);
	return 0;
}

static inline int exact_router_run(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	const struct exact *m = arg;
	double *l = mem_alloc((size_t)m->clusters * sizeof *l);

	(void)e;
	for (int64_t i = 0; i < n; i++) {
		double top = -INFINITY;

		exact_logits(m, t[i], x + i * m->d, l);
		for (int k = 0; k < m->clusters; k++)
			top = fmax(top, l[k]);
		for (int k = 0; k < m->clusters; k++)
			logits[i * m->clusters + k] = (float)(l[k] - top);
	}
	mem_free(l);
	return 0;
}

#endif
