/* Posterior and samples of a mixture of low-rank Gaussians. */
#include "diffusion/gaussians.h"

#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"

/* How far the scalar products of a basis may be from 0 and 1, and the sum of the weights from 1. */
#define ORTHONORMAL 1e-9
/* Laws with fewer operations for all rows run on one thread: waking threads would take longer than the work. */
enum { SMALL = 1 << 18 };

int gaussians_init(struct gaussians *g, int64_t k, int64_t d, int64_t rank, struct err *e)
{
	size_t n = (size_t)k, r = (size_t)rank;

	*g = (struct gaussians){.k = k, .d = d, .rank = rank};
	return (g->mean = mem_try(n * (size_t)d, sizeof *g->mean, "means", e)) &&
	               (g->basis = mem_try(n * r * (size_t)d, sizeof *g->basis, "bases", e)) &&
	               (g->variance = mem_try(n * r, sizeof *g->variance, "variances", e)) &&
	               (g->noise = mem_try(n, sizeof *g->noise, "variances of the noise", e)) &&
	               (g->weight = mem_try(n, sizeof *g->weight, "weights", e))
	           ? 0
	           : -1;
}

void gaussians_release(struct gaussians *g)
{
	mem_free(g->mean);
	mem_free(g->basis);
	mem_free(g->variance);
	mem_free(g->noise);
	mem_free(g->weight);
	*g = (struct gaussians){0};
}

/* Four sums, so that the compiler can use vectors without changing the order of an addition. */
static double dot(const double *a, const double *b, int64_t n)
{
	double s[4] = {0};
	int64_t j = 0;

	for (; j + 4 <= n; j += 4)
		for (int l = 0; l < 4; l++)
			s[l] += a[j + l] * b[j + l];
	for (; j < n; j++)
		s[0] += a[j] * b[j];
	return (s[0] + s[1]) + (s[2] + s[3]);
}

static int check_basis(const struct gaussians *g, int64_t k, struct err *e)
{
	const double *u = g->basis + k * g->rank * g->d;

	for (int64_t i = 0; i < g->rank; i++)
		for (int64_t l = 0; l <= i; l++) {
			double s = dot(u + i * g->d, u + l * g->d, g->d);

			if (!(fabs(s - (i == l)) <= ORTHONORMAL))
				return err_set(e, ERR_DATA, "component %lld: rows %lld and %lld of its basis have the scalar product %g, expected %d",
				               (long long)k, (long long)l, (long long)i, s, i == l);
		}
	return 0;
}

int gaussians_check(const struct gaussians *g, struct err *e)
{
	double sum = 0;

	if (g->rank > g->d)
		return err_set(e, ERR_DATA, "rank %lld in %lld dimensions", (long long)g->rank, (long long)g->d);
	for (int64_t k = 0; k < g->k; k++) {
		for (int64_t j = 0; j < g->d; j++)
			if (!isfinite(g->mean[k * g->d + j]))
				return err_set(e, ERR_DATA, "component %lld: its mean holds a NaN or an infinity", (long long)k);
		for (int64_t i = 0; i < g->rank; i++)
			if (!isfinite(g->variance[k * g->rank + i]) || g->variance[k * g->rank + i] < 0)
				return err_set(e, ERR_DATA, "component %lld: variance %lld is %g", (long long)k, (long long)i,
				               g->variance[k * g->rank + i]);
		if (!isfinite(g->noise[k]) || g->noise[k] <= 0)
			return err_set(e, ERR_DATA, "component %lld: its noise has the variance %g; without noise the law has no density",
			               (long long)k, g->noise[k]);
		if (!isfinite(g->weight[k]) || g->weight[k] <= 0)
			return err_set(e, ERR_DATA, "component %lld: its weight is %g", (long long)k, g->weight[k]);
		if (check_basis(g, k, e))
			return -1;
		sum += g->weight[k];
	}
	return fabs(sum - 1) <= ORTHONORMAL ? 0 : err_set(e, ERR_DATA, "the weights add up to %.12g, expected 1", sum);
}

struct gaussians_law {
	struct law law;
	const struct gaussians *g;
	struct pool *pool;
	int one;
};

/* A call of gaussians_posterior: components [from, to) at all rows. */
struct posterior {
	const struct gaussians *g;
	int64_t from, to;
	const float *x;
	const struct path_point *at;
	double *mass, *mean;
};

/* y = x - alpha mean_k */
static void centre(const struct gaussians *g, int64_t k, const float *x, double alpha, double *y)
{
	for (int64_t j = 0; j < g->d; j++)
		y[j] = x[j] - alpha * g->mean[k * g->d + j];
}

/* The log of weight times likelihood of component k without d log 2 pi / 2, and p (rank). Destroys y: q is formed as a vector, because |y|^2 - |p|^2
 * would cancel where c is small. */
static double log_mass(const struct gaussians *g, int64_t k, const struct path_point *at, double *y, double *p)
{
	const double *u = g->basis + k * g->rank * g->d, *l = g->variance + k * g->rank;
	double c = at->alpha * at->alpha * g->noise[k] + at->sigma * at->sigma, s = (double)(g->d - g->rank) * log(c);

	for (int64_t i = 0; i < g->rank; i++)
		p[i] = dot(u + i * g->d, y, g->d);
	for (int64_t i = 0; i < g->rank; i++) {
		double n = c + at->alpha * at->alpha * l[i];

		for (int64_t j = 0; j < g->d; j++)
			y[j] -= p[i] * u[i * g->d + j];
		s += p[i] * p[i] / n + log(n);
	}
	return log(g->weight[k]) - .5 * (s + dot(y, y, g->d) / c);
}

/* mean += w E[x0 | x, k], with q = y - basis' p put in: alpha noise / c y + alpha sum_i ((variance_i + noise) / n_i - noise / c) p_i basis_i. */
static void add_mean(const struct gaussians *g, int64_t k, const struct path_point *at, double w, const double *y, const double *p, double *mean)
{
	const double *u = g->basis + k * g->rank * g->d, *l = g->variance + k * g->rank, *mu = g->mean + k * g->d;
	double a = at->alpha, c = a * a * g->noise[k] + at->sigma * at->sigma, shrink = g->noise[k] / c;

	for (int64_t j = 0; j < g->d; j++)
		mean[j] += w * (mu[j] + a * shrink * y[j]);
	for (int64_t i = 0; i < g->rank; i++) {
		double f = w * a * ((l[i] + g->noise[k]) / (c + a * a * l[i]) - shrink) * p[i];

		for (int64_t j = 0; j < g->d; j++)
			mean[j] += f * u[i * g->d + j];
	}
}

static void row_task(void *arg, int64_t row, int worker)
{
	const struct posterior *t = arg;
	const struct gaussians *g = t->g;
	const struct path_point *at = &t->at[row];
	const float *x = t->x + row * g->d;
	int64_t n = t->to - t->from;
	double *y = mem_alloc((size_t)(g->d + n * (g->rank + 1)) * sizeof *y), *w = y + g->d, *p = w + n, top = -INFINITY, sum = 0;

	(void)worker;
	for (int64_t i = 0; i < n; i++) {
		centre(g, t->from + i, x, at->alpha, y);
		w[i] = log_mass(g, t->from + i, at, y, p + i * g->rank);
		top = fmax(top, w[i]);
	}
	for (int64_t i = 0; i < n; i++) {
		w[i] = exp(w[i] - top);
		sum += w[i];
	}
	if (t->mass)
		t->mass[row] = top + log(sum);
	if (t->mean) {
		memset(t->mean + row * g->d, 0, (size_t)g->d * sizeof *y);
		for (int64_t i = 0; i < n; i++) {
			if (w[i] == 0)
				continue;
			centre(g, t->from + i, x, at->alpha, y);
			add_mean(g, t->from + i, at, w[i] / sum, y, p + i * g->rank, t->mean + row * g->d);
		}
	}
	mem_free(y);
}

static double row_flops(const struct gaussians *g, int64_t components, int with_mean)
{
	return (double)components * (double)g->d * ((with_mean ? 6. : 4.) * (double)g->rank + (with_mean ? 8. : 4.));
}

static void gaussians_posterior(struct law *l, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean)
{
	const struct gaussians_law *f = (const struct gaussians_law *)l;
	int every = cluster == LAW_ALL || f->one;
	struct posterior t = {f->g, every ? 0 : cluster, every ? f->g->k : cluster + 1, x, at, mass, mean};

	pool_run((double)n * row_flops(f->g, t.to - t.from, mean != NULL) < SMALL ? NULL : f->pool, n, row_task, &t);
}

static double gaussians_flops(const struct law *l, int cluster, int with_mean)
{
	const struct gaussians_law *f = (const struct gaussians_law *)l;

	return row_flops(f->g, cluster == LAW_ALL || f->one ? f->g->k : 1, with_mean);
}

static void gaussians_free(struct law *l)
{
	law_release(l);
	mem_free(l);
}

struct law *gaussians_law(const struct gaussians *g, int one, struct pool *pool, struct err *e)
{
	struct gaussians_law *f;

	if (gaussians_check(g, e))
		return NULL;
	f = mem_zalloc(1, sizeof *f);
	*f = (struct gaussians_law){.g = g, .pool = pool, .one = one};
	f->law = (struct law){
	    .clusters = one ? 1 : (int)g->k, .d = g->d, .posterior = gaussians_posterior, .flops = gaussians_flops, .free = gaussians_free};
	if (law_allocate(&f->law, e)) {
		gaussians_free(&f->law);
		return NULL;
	}
	for (int k = 0; k < f->law.clusters; k++)
		f->law.share[k] = one ? 1 : g->weight[k];
	return &f->law;
}

int gaussians_draw(const struct gaussians *g, uint64_t seed, enum rng_purpose purpose, uint64_t index, float *x)
{
	double u = rng_uniform(seed, purpose, 0, index, 0), *s = mem_alloc((size_t)g->d * sizeof *s), std;
	float *a = mem_alloc((size_t)(g->rank + 1) * sizeof *a);
	int64_t k = 0;

	while (k < g->k - 1 && u >= g->weight[k])
		u -= g->weight[k++];
	std = sqrt(g->noise[k]);
	rng_normal(a, (size_t)g->rank, seed, purpose, 1, index);
	rng_normal(x, (size_t)g->d, seed, purpose, 2, index);
	for (int64_t j = 0; j < g->d; j++)
		s[j] = g->mean[k * g->d + j] + std * x[j];
	for (int64_t i = 0; i < g->rank; i++) {
		double f = sqrt(g->variance[k * g->rank + i]) * a[i];

		for (int64_t j = 0; j < g->d; j++)
			s[j] += f * g->basis[(k * g->rank + i) * g->d + j];
	}
	for (int64_t j = 0; j < g->d; j++)
		x[j] = (float)s[j];
	mem_free(a);
	mem_free(s);
	return (int)k;
}

void gaussians_hash(const struct gaussians *g, char hex[65])
{
	const int64_t size[3] = {g->k, g->d, g->rank};
	size_t k = (size_t)g->k, d = (size_t)g->d, r = (size_t)g->rank;
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, "gaussians", 10);
	sha256_add(&h, size, sizeof size);
	sha256_add(&h, g->mean, k * d * sizeof *g->mean);
	sha256_add(&h, g->basis, k * r * d * sizeof *g->basis);
	sha256_add(&h, g->variance, k * r * sizeof *g->variance);
	sha256_add(&h, g->noise, k * sizeof *g->noise);
	sha256_add(&h, g->weight, k * sizeof *g->weight);
	sha256_end(&h, hex);
}
