/* Computes standard errors of Frechet distances, for ddm-eval-fid's error bars. */
#include "metric/frecheterror.h"

#include <math.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "metric/frechet.h"

enum { GROUPS = 40, LEAST = 8, REPORT_EVERY = 256 /* vectors between two reports of progress */ };

/* Drawn vectors projected on the axes, and their sums. They form `of` groups in the order of drawing; group sizes differ by at most one. */
struct seen {
	double *z;      /* (n, p), with the mean subtracted */
	double *square; /* (p, p): sum of z z' */
	double *mean;   /* (p), the subtracted mean */
	int64_t n;
	int p, of;
};

static int seen_init(struct seen *s, int64_t n, int p, struct err *e)
{
	size_t pp = (size_t)p * (size_t)p;

	*s = (struct seen){.n = n, .p = p, .of = (int)(n / 2 < GROUPS ? n / 2 : GROUPS)};
	s->z = mem_try((size_t)n * (size_t)p + pp + (size_t)p, sizeof *s->z, "vectors along the principal axes", e);
	if (!s->z)
		return -1;
	s->square = s->z + n * p;
	s->mean = s->square + pp;
	return 0;
}

/* Fill s: row i of z is the i-th of a keyed permutation of x, as in frechet_equal. */
static int seen_draw(struct seen *s, struct pool *pool, struct pool_pass *pass, const float *x, int64_t of, int d, const double *axes, uint64_t seed,
                     uint64_t round, struct err *e)
{
	int p = s->p;

	for (int64_t i = 0; i < s->n; i++) {
		const float *v = x + (int64_t)rng_permute((uint64_t)i, (uint64_t)of, seed, RNG_METRIC, round) * d;

		for (int a = 0; a < p; a++) {
			double sum = 0;

			for (int j = 0; j < d; j++)
				sum += axes[(size_t)a * (size_t)d + (size_t)j] * v[j];
			s->z[i * p + a] = sum;
		}
		if (++pass->done % REPORT_EVERY == 0 && pool_report(pool, pass, e))
			return -1;
	}
	for (int a = 0; a < p; a++) {
		s->mean[a] = 0;
		for (int64_t i = 0; i < s->n; i++)
			s->mean[a] += s->z[i * p + a] / (double)s->n;
		for (int64_t i = 0; i < s->n; i++)
			s->z[i * p + a] -= s->mean[a];
	}
	for (int a = 0; a < p; a++)
		for (int b = 0; b <= a; b++) {
			double sum = 0;

			for (int64_t i = 0; i < s->n; i++)
				sum += s->z[i * p + a] * s->z[i * p + b];
			s->square[a * p + b] = s->square[b * p + a] = sum;
		}
	return 0;
}

/* Mean and covariance of all vectors except those of group g; g < 0: of all vectors. */
static void seen_without(double *mu, double *sigma, const struct seen *s, int g)
{
	int64_t from = g < 0 ? 0 : s->n * g / s->of, to = g < 0 ? 0 : s->n * (g + 1) / s->of;
	double left = (double)(s->n - (to - from));
	int p = s->p;

	for (int a = 0; a < p; a++) {
		mu[a] = 0;
		for (int64_t i = from; i < to; i++)
			mu[a] -= s->z[i * p + a] / left;
	}
	for (int a = 0; a < p; a++)
		for (int b = 0; b <= a; b++) {
			double sum = s->square[a * p + b];

			for (int64_t i = from; i < to; i++)
				sum -= s->z[i * p + a] * s->z[i * p + b];
			sigma[a * p + b] = sigma[b * p + a] = (sum - left * mu[a] * mu[b]) / (left - 1);
		}
	for (int a = 0; a < p; a++)
		mu[a] += s->mean[a];
}

/* out: n times the variance of the distance between s and (mu, sigma), by the jackknife that leaves out one group at a time. */
static int influence(double *out, struct pool *pool, const struct seen *s, const double *mu, const double *sigma, struct err *e)
{
	size_t p = (size_t)s->p;
	double *mem = mem_try(p + p * p + (size_t)s->of, sizeof *mem, "statistics of groups", e), *value = mem + p + p * p, mean = 0, square = 0;
	int rc = mem ? 0 : -1;

	for (int g = 0; g < s->of && !rc; g++) {
		seen_without(mem, mem + p, s, g);
		rc = frechet_distance(&value[g], pool, mem, mem + p, mu, sigma, s->p, e);
		mean += rc ? 0 : value[g] / s->of;
	}
	for (int g = 0; g < s->of && !rc; g++)
		square += (value[g] - mean) * (value[g] - mean);
	*out = square * (s->of - 1) / s->of * (double)s->n;
	mem_free(mem);
	return rc;
}

/* The factor by which influence() is multiplied to give the variance of the mean over `draws` overlapping subsets of `take` of n vectors. */
static double shared(int64_t n, int64_t take, int draws)
{
	return 1. / (double)n + (1. / (double)take - 1. / (double)n) / draws;
}

int frechet_equal_error(double *se, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes, int p,
                        int64_t take, int draws, uint64_t seed, struct err *e)
{
	size_t pp = (size_t)p * (size_t)p;
	struct pool_pass pass = {"error of fd, vectors", 0, 2 * take};
	struct seen a = {0}, b = {0};
	double *s = NULL, vx, vy;
	int rc = -1;

	*se = NAN;
	if (take < LEAST)
		return 0;
	if (!seen_init(&a, take, p, e) && !seen_init(&b, take, p, e))
		s = mem_try(2 * ((size_t)p + pp), sizeof *s, "feature statistics", e);
	if (s && !seen_draw(&a, pool, &pass, x, n, d, axes, seed, 0, e) && !seen_draw(&b, pool, &pass, y, m, d, axes, seed, 1, e)) {
		double *mu = s, *sigma = mu + p, *mu2 = sigma + pp, *sigma2 = mu2 + p;

		seen_without(mu, sigma, &a, -1);
		seen_without(mu2, sigma2, &b, -1);
		rc = influence(&vx, pool, &a, mu2, sigma2, e) || influence(&vy, pool, &b, mu, sigma, e) ? -1 : 0;
		if (!rc)
			*se = sqrt(vx * shared(n, take, draws) + vy * shared(m, take, draws));
	}
	mem_free(a.z);
	mem_free(b.z);
	mem_free(s);
	return rc;
}

int frechet_fixed_error(double *se, struct pool *pool, const double *mu, const double *sigma, const float *y, int64_t m, int d, const double *axes,
                        int p, struct err *e)
{
	struct pool_pass pass = {"error of fd, vectors", 0, m};
	struct seen b = {0};
	double v;
	int rc;

	*se = NAN;
	if (m < LEAST)
		return 0;
	if (seen_init(&b, m, p, e))
		return -1;
	rc = seen_draw(&b, pool, &pass, y, m, d, axes, 0, 0, e) || influence(&v, pool, &b, mu, sigma, e) ? -1 : 0;
	if (!rc)
		*se = sqrt(v / (double)m);
	mem_free(b.z);
	return rc;
}
