/* Computes optimal velocities and cluster posteriors of finite sets and Gaussian mixtures, in double. */
#include "diffusion/exact.h"

#include <math.h>

#include "core/mem.h"

static int member(const struct exact *m, int64_t j, int cluster)
{
	return cluster == EXACT_ALL || (m->cluster ? m->cluster[j] : 0) == cluster;
}

/* log(w_j N(x; alpha mean_j, var I)) without the constant common to all components. */
static double log_mass(const struct exact *m, const struct path_point *p, double var, int64_t j, const float *x)
{
	double s = 0;

	for (int64_t i = 0; i < m->d; i++) {
		double r = x[i] - p->alpha * m->mean[j * m->d + i];

		s += r * r;
	}
	return (m->weight ? log(m->weight[j]) : 0) - s / (2 * var);
}

static double variance(const struct exact *m, const struct path_point *p)
{
	return p->alpha * p->alpha * m->std * m->std + p->sigma * p->sigma;
}

/* For one component E[x0 | x] = mean + alpha std^2 / var (x - alpha mean) and E[eps | x] = sigma / var (x - alpha mean); both
 * are linear in the posterior mean of `mean`. */
void exact_moments(const struct exact *m, const struct path *path, double t, int cluster, const float *x, double *x0, double *eps)
{
	struct path_point p = path_at(path, t);
	double var = variance(m, &p), top = -INFINITY, sum = 0;
	double *lw = mem_alloc((size_t)m->n * sizeof *lw), *mean = mem_zalloc((size_t)m->d, sizeof *mean);

	for (int64_t j = 0; j < m->n; j++) {
		lw[j] = member(m, j, cluster) ? log_mass(m, &p, var, j, x) : -INFINITY;
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

void exact_velocity(const struct exact *m, double t, int cluster, const float *x, double *v)
{
	struct path_point p = path_at(&path_linear, t);
	double *eps = mem_alloc((size_t)m->d * sizeof *eps);

	exact_moments(m, &path_linear, t, cluster, x, v, eps);
	for (int64_t i = 0; i < m->d; i++)
		v[i] = p.dalpha * v[i] + p.dsigma * eps[i];
	mem_free(eps);
}

void exact_logits(const struct exact *m, double t, const float *x, double *logits)
{
	struct path_point p = path_at(&path_linear, t);
	double var = variance(m, &p);

	for (int k = 0; k < m->clusters; k++)
		logits[k] = -INFINITY;
	for (int64_t j = 0; j < m->n; j++) {
		double l = log_mass(m, &p, var, j, x), *sum = &logits[m->cluster ? m->cluster[j] : 0], top = fmax(l, *sum);

		*sum = top + log(exp(l - top) + exp(*sum - top));
	}
}

int exact_expert_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
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

int exact_router_run(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
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
