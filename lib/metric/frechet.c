/* Computes the Frechet distance, in full and along the principal axes, where a covariance can be estimated from few samples. */
#include "metric/frechet.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "metric/moments.h"
#include "metric/roots.h"

enum { REPORT_EVERY = 256 }; /* vectors between two reports of progress */

/* Eigenvectors of s (d, d) as rows of v (d, d), and eigenvalues ascending in w (d). s is not changed. */
static int eigen(double *w, double *v, const double *s, int d, struct err *e)
{
	size_t n = (size_t)d * (size_t)d;
	lapack_int info;

	for (size_t i = 0; i < n; i++)
		if (!isfinite(s[i]))
			return err_set(e, ERR_DATA, "a covariance holds a value that is not finite");
	memcpy(v, s, n * sizeof *v);
	/* LAPACK is column-major, so its columns are the rows of v */
	info = LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', d, v, d, w);
	if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
		return err_set(e, ERR_NOMEM, "out of memory: eigenvalues of a %d x %d covariance", d, d);
	if (info)
		return err_set(e, ERR_FAIL, "LAPACK dsyevd failed on a %d x %d covariance (info %d)", d, d, (int)info);
	if (w[0] < -1e-6 * fabs(w[d - 1]))
		return err_set(e, ERR_DATA, "a covariance has the negative eigenvalue %g beside %g", w[0], w[d - 1]);
	return 0;
}

static double dot(const double *a, const double *b, int d)
{
	double s = 0;

	for (int i = 0; i < d; i++)
		s += a[i] * b[i];
	return s;
}

/* tr((S1 S2)^(1/2)) is the sum of the singular values of R1 R2' for any R' R = S. Their squares are the eigenvalues of S1^(1/2) S2 S1^(1/2), but the
 * roots of computed eigenvalues would lose half the digits of the small ones. */
int frechet_distance(double *out, struct pool *pool, const double *mu1, const double *s1, const double *mu2, const double *s2, int d, struct err *e)
{
	size_t n = (size_t)d * (size_t)d;
	double *r = mem_try(2 * n, sizeof *r, "covariance roots", e), shift = 0, trace = 0, cross;
	int n1, n2, rc = -1;

	if (!r)
		return -1;
	n1 = roots_factor(r, pool, s1, d, e);
	n2 = n1 < 0 ? -1 : roots_factor(r + n, pool, s2, d, e);
	if (n2 >= 0 && !roots_trace(&cross, pool, r, n1, r + n, n2, d, e)) {
		for (int i = 0; i < d; i++) {
			shift += (mu1[i] - mu2[i]) * (mu1[i] - mu2[i]);
			trace += s1[(size_t)i * (size_t)(d + 1)] + s2[(size_t)i * (size_t)(d + 1)];
		}
		*out = fmax(shift + trace - 2 * cross, 0);
		rc = isfinite(*out) ? 0 : err_set(e, ERR_DATA, "the Frechet distance is not finite");
	}
	mem_free(r);
	return rc;
}

int frechet_axes(double *axes, const double *s, int d, int p, struct err *e)
{
	double *v = mem_try((size_t)d * (size_t)(d + 1), sizeof *v, "principal axes", e);
	int rc = v ? eigen(v + (size_t)d * (size_t)d, v, s, d, e) : -1;

	for (int i = 0; i < p && !rc; i++)
		memcpy(axes + (size_t)i * (size_t)d, v + (size_t)(d - 1 - i) * (size_t)d, (size_t)d * sizeof *axes);
	mem_free(v);
	return rc;
}

void frechet_project(double *mu_out, double *s_out, const double *axes, const double *mu, const double *s, int d, int p)
{
	double *t = mem_alloc((size_t)d * sizeof *t);

	for (int i = 0; i < p; i++) {
		const double *a = axes + (size_t)i * (size_t)d;

		mu_out[i] = dot(a, mu, d);
		for (int j = 0; j < d; j++)
			t[j] = dot(s + (size_t)j * (size_t)d, a, d);
		for (int j = 0; j <= i; j++)
			s_out[i * p + j] = s_out[j * p + i] = dot(axes + (size_t)j * (size_t)d, t, d);
	}
	mem_free(t);
}

/* Mean and covariance of elements first .. first + take - 1 of a keyed permutation of x (n, d). */
static int draw(double *mu, double *sigma, struct pool *pool, struct pool_pass *pass, const float *x, int64_t n, int d, int64_t first, int64_t take,
                uint64_t seed, uint64_t round, struct err *e)
{
	struct moments s;
	int rc = 0;

	if (moments_init(&s, d, e))
		return -1;
	for (int64_t i = first; i < first + take && !rc; i++) {
		moments_add(&s, pool, x + (int64_t)rng_permute((uint64_t)i, (uint64_t)n, seed, RNG_METRIC, round) * d, 1);
		if (++pass->done % REPORT_EVERY == 0)
			rc = pool_report(pool, pass, e);
	}
	rc = rc || moments_result(&s, pool, mu, sigma, e) ? -1 : 0;
	moments_release(&s);
	return rc;
}

int frechet_equal(double *along, double *full, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, const double *axes,
                  int p, int64_t take, int draws, uint64_t seed, struct err *e)
{
	size_t dd = (size_t)d * (size_t)d, pp = (size_t)p * (size_t)p;
	struct pool_pass pass = {"Frechet distance, vectors drawn", 0, 2 * take * draws};
	int same = x == y, rc = 0;
	double *mem, *mu, *s, *mup, *sp, one;

	if (take < 2 || take > n || take > m || (same && 2 * take > n))
		return err_set(e, ERR_USAGE, "%lld samples cannot be drawn from each of %lld and %lld for a Frechet distance (at least 2%s)",
		               (long long)take, (long long)n, (long long)m, same ? ", and twice as many of one set" : "");
	mem = mem_try(2 * ((size_t)d + dd + (size_t)p + pp), sizeof *mem, "feature statistics", e);
	if (!mem)
		return -1;
	mu = mem, s = mu + 2 * d, mup = s + 2 * dd, sp = mup + 2 * p;
	*along = *full = 0;
	for (int k = 0; k < draws && !rc; k++) {
		uint64_t round = 2 * (uint64_t)k;

		rc = draw(mu, s, pool, &pass, x, n, d, 0, take, seed, round, e) ||
		     draw(mu + d, s + dd, pool, &pass, y, m, d, same ? take : 0, take, seed, same ? round : round + 1, e) ||
		     frechet_distance(&one, pool, mu, s, mu + d, s + dd, d, e);
		if (rc)
			break;
		*full += one / draws;
		frechet_project(mup, sp, axes, mu, s, d, p);
		frechet_project(mup + p, sp + pp, axes, mu + d, s + dd, d, p);
		rc = frechet_distance(&one, pool, mup, sp, mup + p, sp + pp, p, e);
		*along += one / draws;
	}
	mem_free(mem);
	return rc ? -1 : 0;
}
