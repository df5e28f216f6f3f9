/* Draws the directions of a mixture of Gaussians, and scales it. */
#include "diffusion/gaussianspec.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

/* Streams of RNG_LAW. Frame k (the basis of component k) has the stream FRAMES + k. */
enum { MEANS, SHARED, FRAMES };

static int check_weights(const struct gaussian_spec *s, struct err *e)
{
	double sum = 0;

	for (int64_t k = 0; s->weight && k < s->k; k++) {
		if (!(s->weight[k] > 0 && isfinite(s->weight[k])))
			return err_set(e, ERR_USAGE, "the weight of component %lld is %g, expected a positive number", (long long)k, s->weight[k]);
		sum += s->weight[k];
	}
	if (s->weight && fabs(sum - 1) > 1e-6)
		return err_set(e, ERR_USAGE, "the weights add up to %.9g, expected 1", sum);
	return 0;
}

/* Orthonormal directions that the bases need together. */
static int64_t directions(const struct gaussian_spec *s)
{
	if (s->overlap < 0 || s->overlap >= 1)
		return s->rank;
	return (s->k + (s->overlap > 0)) * s->rank;
}

static int check(const struct gaussian_spec *s, struct err *e)
{
	if (s->rank > s->d)
		return err_set(e, ERR_USAGE, "components of rank %lld do not fit into %lld dimensions", (long long)s->rank, (long long)s->d);
	if (!(s->noise > 0))
		return err_set(e, ERR_USAGE, "without isotropic noise the law has no density: its standard deviation must be positive");
	if (!(s->rms > s->noise))
		return err_set(e, ERR_USAGE, "a root mean square of %g leaves nothing beside noise of %g", s->rms, s->noise);
	if (s->separation > 0 && s->k > s->d)
		return err_set(e, ERR_USAGE, "%lld means at equal distances do not fit into %lld dimensions: take separation 0 or fewer components",
		               (long long)s->k, (long long)s->d);
	if (directions(s) > s->d)
		return err_set(e, ERR_USAGE,
		               "%lld subspaces of rank %lld with overlap %g need %lld dimensions, and there are %lld: draw them at random, or take "
		               "fewer components or a lower rank",
		               (long long)s->k, (long long)s->rank, s->overlap, (long long)directions(s), (long long)s->d);
	return check_weights(s, e);
}

/* Fill rows (n, d) with orthonormal directions, uniformly distributed: normals, made orthogonal to the `before` rows that precede them. Twice is
 * enough for full precision (Giraud, Langou 2002). */
static int draw_frame(double *rows, int64_t before, int64_t n, int64_t d, uint64_t seed, uint64_t stream, struct err *e)
{
	float *z = mem_alloc((size_t)d * sizeof *z);
	int rc = 0;

	for (int64_t i = 0; i < n && !rc; i++) {
		double *v = rows + i * d, norm = 0;

		rng_normal(z, (size_t)d, seed, RNG_LAW, stream, (uint64_t)i);
		for (int64_t j = 0; j < d; j++)
			v[j] = z[j];
		for (int pass = 0; pass < 2; pass++) {
			for (int64_t l = -before; l < i; l++) {
				const double *u = rows + l * d;
				double s = 0;

				for (int64_t j = 0; j < d; j++)
					s += u[j] * v[j];
				for (int64_t j = 0; j < d; j++)
					v[j] -= s * u[j];
			}
			norm = 0;
			for (int64_t j = 0; j < d; j++)
				norm += v[j] * v[j];
			norm = sqrt(norm);
			for (int64_t j = 0; j < d; j++)
				v[j] /= norm;
		}
		if (!(norm > .5))
			rc = err_set(e, ERR_FAIL, "seed %llu gives directions that depend on each other: take another", (unsigned long long)seed);
	}
	mem_free(z);
	return rc;
}

static int make_random(struct gaussians *g, const struct gaussian_spec *s, struct err *e)
{
	for (int64_t k = 0; k < s->k; k++)
		if (draw_frame(g->basis + k * s->rank * s->d, 0, s->rank, s->d, s->seed, FRAMES + (uint64_t)k, e))
			return -1;
	return 0;
}

/* Row i of component k is sqrt(overlap) v_i + sqrt(1 - overlap) w_ki with all v and w orthonormal, so that basis_j basis_k' = overlap I. */
static int make_overlapping(struct gaussians *g, const struct gaussian_spec *s, struct err *e)
{
	int64_t n = s->rank * s->d, shared = s->overlap > 0;
	double *v = mem_try((size_t)((s->k + 1) * n), sizeof *v, "directions", e), a = sqrt(s->overlap), b = sqrt(1 - s->overlap);
	int rc = v ? 0 : -1;

	if (!rc && shared)
		rc = draw_frame(v, 0, s->rank, s->d, s->seed, SHARED, e);
	for (int64_t k = 0; k < s->k && !rc; k++) {
		double *w = v + (k + shared) * n;

		if (s->overlap < 1)
			rc = draw_frame(w, (k + shared) * s->rank, s->rank, s->d, s->seed, FRAMES + (uint64_t)k, e);
		for (int64_t j = 0; j < n && !rc; j++)
			g->basis[k * n + j] = s->overlap < 1 ? a * v[j] * (double)shared + b * w[j] : v[j];
	}
	mem_free(v);
	return rc;
}

/* The corners of a simplex, whose weighted centre is 0. */
static int make_means(struct gaussians *g, const struct gaussian_spec *s, struct err *e)
{
	if (s->separation == 0)
		return 0;
	if (draw_frame(g->mean, 0, s->k, s->d, s->seed, MEANS, e))
		return -1;
	for (int64_t j = 0; j < s->d; j++) {
		double centre = 0;

		for (int64_t k = 0; k < s->k; k++)
			centre += g->weight[k] * g->mean[k * s->d + j];
		for (int64_t k = 0; k < s->k; k++)
			g->mean[k * s->d + j] = s->separation * sqrt(.5) * (g->mean[k * s->d + j] - centre);
	}
	return 0;
}

/* The expectation of |x0|^2 without the noise. */
static double power(const struct gaussians *g)
{
	double sum = 0;

	for (int64_t k = 0; k < g->k; k++) {
		double one = 0;

		for (int64_t i = 0; i < g->rank; i++)
			one += g->variance[k * g->rank + i];
		for (int64_t j = 0; j < g->d; j++)
			one += g->mean[k * g->d + j] * g->mean[k * g->d + j];
		sum += g->weight[k] * one;
	}
	return sum;
}

static void scale(struct gaussians *g, double square)
{
	for (int64_t i = 0; i < g->k * g->rank; i++)
		g->variance[i] *= square;
	for (int64_t j = 0; j < g->k * g->d; j++)
		g->mean[j] *= sqrt(square);
}

int gaussian_spec_make(struct gaussians *g, const struct gaussian_spec *s, struct err *e)
{
	double sum = 0;

	*g = (struct gaussians){0};
	if (check(s, e) || gaussians_init(g, s->k, s->d, s->rank, e))
		return -1;
	for (int64_t k = 0; k < s->k; k++)
		sum += s->weight ? s->weight[k] : 1;
	for (int64_t k = 0; k < s->k; k++) {
		g->weight[k] = (s->weight ? s->weight[k] : 1) / sum;
		g->noise[k] = s->noise * s->noise;
		for (int64_t i = 0; i < s->rank; i++)
			g->variance[k * s->rank + i] = pow((double)(i + 1), -s->spectrum);
	}
	if ((s->overlap < 0 ? make_random(g, s, e) : make_overlapping(g, s, e)) || make_means(g, s, e))
		return -1;
	scale(g, (double)s->d * (s->rms * s->rms - s->noise * s->noise) / power(g));
	return gaussians_check(g, e);
}
