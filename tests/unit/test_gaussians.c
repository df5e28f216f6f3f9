/* diffusion/gaussians against dense algebra in double, closed forms, exact models of its samples, and its own samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "diffusion/finite.h"
#include "diffusion/gaussians.h"
#include "diffusion/gaussianspec.h"

enum { DMOST = 12 };

/* Factor a (n, n), symmetric and positive definite, in place as L L'; returns log det a. */
static double cholesky(double *a, int64_t n)
{
	double log_det = 0;

	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j <= i; j++) {
			double s = a[i * n + j];

			for (int64_t l = 0; l < j; l++)
				s -= a[i * n + l] * a[j * n + l];
			if (i == j)
				log_det += log(s);
			a[i * n + j] = i == j ? sqrt(s) : s / a[j * n + j];
		}
	return log_det;
}

/* b = (L L')^-1 b */
static void solve(const double *l, int64_t n, double *b)
{
	for (int64_t i = 0; i < n; i++) {
		for (int64_t j = 0; j < i; j++)
			b[i] -= l[i * n + j] * b[j];
		b[i] /= l[i * n + i];
	}
	for (int64_t i = n - 1; i >= 0; i--) {
		for (int64_t j = i + 1; j < n; j++)
			b[i] -= l[j * n + i] * b[j];
		b[i] /= l[i * n + i];
	}
}

/* The covariance (d, d) of component k. */
static void covariance(const struct gaussians *g, int64_t k, double *s)
{
	for (int64_t i = 0; i < g->d; i++)
		for (int64_t j = 0; j < g->d; j++) {
			s[i * g->d + j] = i == j ? g->noise[k] : 0;
			for (int64_t r = 0; r < g->rank; r++)
				s[i * g->d + j] +=
				    g->variance[k * g->rank + r] * g->basis[(k * g->rank + r) * g->d + i] * g->basis[(k * g->rank + r) * g->d + j];
		}
}

/* The log of weight times density of x_t under component k, and E[x0 | x_t, k] (d), with d x d matrices. */
static double dense(const struct gaussians *g, int64_t k, const struct path_point *p, const float *x, double *mean)
{
	double s[DMOST * DMOST], c[DMOST * DMOST], y[DMOST], z[DMOST], form = 0, log_det;

	covariance(g, k, s);
	for (int64_t i = 0; i < g->d * g->d; i++)
		c[i] = p->alpha * p->alpha * s[i] + (i % (g->d + 1) ? 0 : p->sigma * p->sigma);
	for (int64_t i = 0; i < g->d; i++)
		y[i] = z[i] = x[i] - p->alpha * g->mean[k * g->d + i];
	log_det = cholesky(c, g->d);
	solve(c, g->d, z);
	for (int64_t i = 0; i < g->d; i++) {
		form += y[i] * z[i];
		mean[i] = g->mean[k * g->d + i];
		for (int64_t j = 0; j < g->d; j++)
			mean[i] += p->alpha * s[i * g->d + j] * z[j];
	}
	return log(g->weight[k]) - .5 * (form + log_det);
}

static struct gaussians make(int64_t k, int64_t d, int64_t rank, double noise, double overlap, double separation, uint64_t seed)
{
	double weight[16], sum = 0;
	struct gaussian_spec s = {k, d, rank, separation, overlap, .7, noise, .5, weight, seed};
	struct gaussians g;
	struct err e = {0};

	for (int i = 0; i < k; i++)
		sum += weight[i] = 1 + i;
	for (int i = 0; i < k; i++)
		weight[i] /= sum;
	if (gaussian_spec_make(&g, &s, &e))
		fail_msg("%s", e.msg);
	return g;
}

/* A noised sample of the law at t; returns its component. */
static int make_state(const struct gaussians *g, float t, uint64_t i, float *x)
{
	struct path_point p = path_at(&path_linear, t);
	float x0[DMOST], eps[DMOST];
	int k = gaussians_draw(g, 3, RNG_TEST, i, x0);

	rng_normal(eps, (size_t)g->d, 4, RNG_TEST, 9, i);
	path_noise(&p, x, x0, eps, g->d);
	return k;
}

static const float times[] = {0, 1e-4f, .003f, .05f, .3f, .5f, .8f, .97f, 1};
enum { TIMES = sizeof times / sizeof *times };

static const struct law_case {
	int64_t k, d, rank;
	double noise, overlap, separation;
} cases[] = {{1, 1, 1, .1, -1, 0},   {3, 5, 2, .05, -1, 2},  {3, 12, 3, .02, .4, 3}, {4, 12, 3, .01, 0, 0},
             {2, 12, 12, .2, -1, 1}, {5, 9, 1, 1e-3, .9, 4}, {2, 7, 4, .03, 1, .5}};
enum { CASES = sizeof cases / sizeof *cases };

/* The dense solution loses the condition of its matrix, at most 12 elements of variance 1 over noise^2, in digits; the log mass also the size of its
 * terms. At t = 0, where sigma is 0, the posterior exists because the law has a density. */
static void agrees_with_dense_algebra(void **state)
{
	(void)state;
	for (int c = 0; c < CASES * TIMES; c++) {
		const struct law_case *q = &cases[c / TIMES];
		struct gaussians g = make(q->k, q->d, q->rank, q->noise, q->overlap, q->separation, (uint64_t)c);
		struct path_point p = path_at(&path_linear, times[c % TIMES]);
		struct law *each = gaussians_law(&g, 0, NULL, NULL), *one = gaussians_law(&g, 1, NULL, NULL);
		double bound = 1e-13 * 12 / (q->noise * q->noise);

		for (uint64_t i = 0; i < 20; i++) {
			double mean[16][DMOST], mass[16], top = -INFINITY, sum = 0, got[DMOST], all[DMOST] = {0}, m, whole;
			float x[DMOST];

			make_state(&g, times[c % TIMES], i, x);
			for (int k = 0; k < q->k; k++) {
				mass[k] = dense(&g, k, &p, x, mean[k]);
				top = fmax(top, mass[k]);
				law_posterior(each, k, 1, x, &p, &m, got);
				if (!(fabs(m - mass[k]) <= bound * (1 + fabs(m))))
					fail_msg("case %d t %g: mass %.17g, dense %.17g", c / TIMES, times[c % TIMES], m, mass[k]);
				for (int j = 0; j < q->d; j++)
					if (!(fabs(got[j] - mean[k][j]) <= bound))
						fail_msg("case %d t %g: mean %.17g, dense %.17g", c / TIMES, times[c % TIMES], got[j], mean[k][j]);
			}
			for (int k = 0; k < q->k; k++)
				sum += exp(mass[k] - top);
			for (int k = 0; k < q->k; k++)
				for (int j = 0; j < q->d; j++)
					all[j] += exp(mass[k] - top) / sum * mean[k][j];
			law_posterior(each, LAW_ALL, 1, x, &p, &m, got);
			assert_true(fabs(m - top - log(sum)) <= bound * (1 + fabs(m)));
			for (int j = 0; j < q->d; j++)
				assert_true(fabs(got[j] - all[j]) <= bound * (1 + fabs(m)));
			law_posterior(one, 0, 1, x, &p, &whole, all);
			assert_true(whole == m && !memcmp(all, got, (size_t)q->d * sizeof *all));
		}
		law_free(each);
		law_free(one);
		gaussians_release(&g);
	}
}

/* The router's logits are the log posterior, at t = 1 the log weights; both ends are finite. */
static void logits(void **state)
{
	struct gaussians g = make(4, 10, 2, .02, .3, 3, 5);
	struct law *l = gaussians_law(&g, 0, NULL, NULL);

	(void)state;
	for (int c = 0; c < TIMES; c++)
		for (uint64_t i = 0; i < 20; i++) {
			float x[DMOST], got[4], v[DMOST], t = times[c];
			struct path_point p = path_at(&path_linear, fmax(t, 1e-4));
			double want[4], mean[DMOST], top = -INFINITY;

			make_state(&g, t, i, x);
			for (int k = 0; k < 4; k++)
				top = fmax(top, want[k] = dense(&g, k, &p, x, mean));
			law_logits(l, &path_linear, 1, x, &t, got);
			for (int k = 0; k < 4; k++)
				assert_true(fabs(got[k] - (want[k] - top)) <= 1e-6 * (1 + fabs(want[k] - top)));
			for (int k = 0; k < 4 && t == 1; k++)
				assert_true(fabs(got[k] - log(g.weight[k] / g.weight[3])) < 1e-6);
			law_predict(l, LAW_ALL, &path_linear, PREDICT_VELOCITY, 1, x, &t, v);
			for (int j = 0; j < 10; j++)
				assert_true(isfinite(v[j]));
		}
	law_free(l);
	gaussians_release(&g);
}

/* The smallest loss of one component on the linear path: a direction of variance T has T / (alpha^2 T + sigma^2). The mean over 4000 states is within
 * 4.5 standard errors. */
static void least_loss_of_a_component(void **state)
{
	struct gaussians g = make(1, 8, 3, .1, -1, 0, 6);
	struct law *l = gaussians_law(&g, 0, NULL, NULL);
	enum { N = 4000 };

	(void)state;
	for (int c = 2; c < TIMES; c++) {
		double want = 0, sum = 0, squares = 0;
		struct path_point p = path_at(&path_linear, times[c]);

		for (int i = 0; i < 8; i++) {
			double s = g.noise[0] + (i < 3 ? g.variance[i] : 0);

			want += s / (p.alpha * p.alpha * s + p.sigma * p.sigma);
		}
		for (uint64_t i = 0; i < N; i++) {
			float x0[DMOST], eps[DMOST], x[DMOST], v[DMOST];
			double loss = 0;

			gaussians_draw(&g, 3, RNG_TEST, i, x0);
			rng_normal(eps, 8, 4, RNG_TEST, (uint64_t)c, i);
			path_noise(&p, x, x0, eps, 8);
			law_predict(l, 0, &path_linear, PREDICT_VELOCITY, 1, x, &times[c], v);
			for (int j = 0; j < 8; j++)
				loss += (v[j] - (eps[j] - x0[j])) * (double)(v[j] - (eps[j] - x0[j]));
			sum += loss;
			squares += loss * loss;
		}
		sum /= N;
		squares = sqrt((squares / N - sum * sum) / N);
		if (!(fabs(sum - want) < 4.5 * squares))
			fail_msg("t %g: loss %g +- %g, expected %g", times[c], sum, squares, want);
	}
	law_free(l);
	gaussians_release(&g);
}

/* Mean square difference per element between the law's E[x0 | x_t] at t = .6 and that of the exact model of n samples. */
static double distance_to_samples(const struct gaussians *g, int64_t n)
{
	float *points = mem_alloc((size_t)(n * g->d) * sizeof *points);
	int64_t first[2] = {0, n};
	struct finite_set s = {n, g->d, points, 0, 1, first, NULL};
	struct path_point p = path_at(&path_linear, .6f);
	struct law *f, *l = gaussians_law(g, 0, NULL, NULL);
	double sum = 0;
	enum { STATES = 200 };

	for (int64_t i = 0; i < n; i++)
		gaussians_draw(g, 8, RNG_DRAW, (uint64_t)i, points + i * g->d);
	f = finite_new(&s, NULL, NULL);
	for (uint64_t i = 0; i < STATES; i++) {
		double a[DMOST], b[DMOST];
		float x[DMOST];

		make_state(g, .6f, i, x);
		law_posterior(l, LAW_ALL, 1, x, &p, NULL, a);
		law_posterior(f, LAW_ALL, 1, x, &p, NULL, b);
		for (int64_t j = 0; j < g->d; j++)
			sum += (a[j] - b[j]) * (a[j] - b[j]) / (double)(STATES * g->d);
	}
	law_free(f);
	law_free(l);
	mem_free(points);
	return sum;
}

/* The exact model of n samples converges to the law like 1/n in mean square. */
static void samples_converge_to_it(void **state)
{
	struct gaussians g = make(3, 4, 2, .1, -1, 3, 7);
	double few = distance_to_samples(&g, 1000), many = distance_to_samples(&g, 64000);

	(void)state;
	if (!(few / many > 20 && few / many < 200 && many < 1e-5))
		fail_msg("%g with 1000 samples, %g with 64000", few, many);
	gaussians_release(&g);
}

/* Counts, means and second moments of 40000 samples: all within 5 standard errors. */
static void moments(void **state)
{
	struct gaussians g = make(3, 6, 2, .05, -1, 2, 11);
	enum { N = 40000 };
	static double sum[3][6], square[3][36];
	double count[3] = {0};

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		float x[6];
		int k = gaussians_draw(&g, 1, RNG_DRAW, i, x);

		count[k]++;
		for (int a = 0; a < 6; a++) {
			sum[k][a] += x[a] - g.mean[k * 6 + a];
			for (int b = 0; b < 6; b++)
				square[k][a * 6 + b] += (x[a] - g.mean[k * 6 + a]) * (x[b] - g.mean[k * 6 + b]);
		}
	}
	for (int k = 0; k < 3; k++) {
		double s[36], n = count[k];

		covariance(&g, k, s);
		assert_true(fabs(n - N * g.weight[k]) < 5 * sqrt(N * g.weight[k] * (1 - g.weight[k])));
		for (int a = 0; a < 6; a++) {
			assert_true(fabs(sum[k][a] / n) < 5 * sqrt(s[a * 7] / n));
			for (int b = 0; b < 6; b++)
				assert_true(fabs(square[k][a * 6 + b] / n - s[a * 6 + b]) <
				            5 * sqrt((s[a * 7] * s[b * 7] + s[a * 6 + b] * s[a * 6 + b]) / n));
		}
	}
	gaussians_release(&g);
}

/* Among states to which the posterior gives component k a probability near p, the share that came from k is p: in each of ten bins within 4.5
 * standard errors. */
static void posterior_is_calibrated(void **state)
{
	struct gaussians g = make(3, 6, 2, .05, -1, 2, 12);
	struct law *l = gaussians_law(&g, 0, NULL, NULL);
	int used = 0;

	(void)state;
	for (int c = 3; c < TIMES - 1; c++) {
		double said[10] = {0}, came[10] = {0}, variance[10] = {0};

		for (uint64_t i = 0; i < 20000; i++) {
			float x[DMOST], y[3], t = times[c];
			int own = make_state(&g, t, i, x);
			double w[3], sum = 0;

			law_logits(l, &path_linear, 1, x, &t, y);
			for (int k = 0; k < 3; k++)
				sum += w[k] = exp((double)y[k]);
			for (int k = 0; k < 3; k++) {
				double q = w[k] / sum;
				int bin = q < 1 ? (int)(10 * q) : 9;

				said[bin] += q;
				came[bin] += k == own;
				variance[bin] += q * (1 - q);
			}
		}
		for (int b = 0; b < 10; b++) {
			used += variance[b] > 10;
			if (variance[b] > 10 && !(fabs(said[b] - came[b]) < 4.5 * sqrt(variance[b])))
				fail_msg("t %g, bin %d: %g expected, %g came", times[c], b, said[b], came[b]);
		}
	}
	assert_true(used >= 20);
	law_free(l);
	gaussians_release(&g);
}

/* What gaussian_spec promises: distances of means, principal angles, centre, root mean square. */
static void as_specified(void **state)
{
	struct gaussian_spec s = {4, 40, 3, 2.5, .36, 1, .02, .5, NULL, 21};
	struct gaussians g;
	struct err e = {0};
	double scale, total = 0;

	(void)state;
	assert_int_equal(gaussian_spec_make(&g, &s, &e), 0);
	scale = sqrt(g.variance[0]);
	for (int k = 0; k < 4; k++) {
		assert_true(fabs(g.variance[k * 3 + 2] / g.variance[k * 3] - 1. / 3) < 1e-14);
		for (int l = 0; l < k; l++) {
			double far = 0;

			for (int j = 0; j < 40; j++)
				far += pow(g.mean[k * 40 + j] - g.mean[l * 40 + j], 2);
			assert_true(fabs(sqrt(far) - 2.5 * scale) < 1e-12);
			for (int a = 0; a < 9; a++) {
				double p = 0;

				for (int j = 0; j < 40; j++)
					p += g.basis[(k * 3 + a / 3) * 40 + j] * g.basis[(l * 3 + a % 3) * 40 + j];
				assert_true(fabs(p - (a % 4 ? 0 : .36)) < 1e-12);
			}
		}
		for (int a = 0; a < 3; a++)
			total += g.variance[k * 3 + a] / 4;
		for (int j = 0; j < 40; j++)
			total += g.mean[k * 40 + j] * g.mean[k * 40 + j] / 4;
	}
	assert_true(fabs(total / 40 + .02 * .02 - .25) < 1e-13);
	for (int j = 0; j < 40; j++)
		assert_true(fabs(g.mean[j] + g.mean[40 + j] + g.mean[80 + j] + g.mean[120 + j]) < 1e-13);
	gaussians_release(&g);
}

static void refused(const struct gaussian_spec *s, const char *word)
{
	struct gaussians g;
	struct err e = {0};

	assert_int_equal(gaussian_spec_make(&g, s, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	if (!strstr(e.msg, word))
		fail_msg("%s", e.msg);
	gaussians_release(&g);
}

static void refuses_impossible_laws(void **state)
{
	static const double few[] = {.5, .3}, zero[] = {1, 0}, nan[] = {.5, NAN};
	struct gaussian_spec good = {2, 6, 2, 1, .5, 0, .1, .5, NULL, 0}, s;

	(void)state;
	s = good, s.rank = 7, refused(&s, "rank 7 do not fit into 6 dimensions");
	s = good, s.noise = 0, refused(&s, "no density");
	s = good, s.noise = .5, refused(&s, "leaves nothing");
	s = good, s.weight = few, refused(&s, "add up to 0.8");
	s = good, s.weight = zero, refused(&s, "component 1 is 0");
	s = good, s.weight = nan, refused(&s, "component 1 is");
	s = good, s.k = 7, s.overlap = -1, refused(&s, "7 means");
	s = good, s.k = 3, refused(&s, "need 8 dimensions");
}

/* What a file may hold and a law may not. */
static void checks_its_numbers(void **state)
{
	struct gaussians g = make(2, 6, 2, .05, .5, 2, 13);
	double *const at[] = {&g.mean[7], &g.basis[3], &g.variance[1], &g.noise[1], &g.noise[0], &g.weight[0], &g.weight[1]};
	const double bad[] = {NAN, .9, -1, 0, INFINITY, -.1, .5};

	(void)state;
	assert_int_equal(gaussians_check(&g, NULL), 0);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		struct err e = {0};
		double was = *at[i];

		*at[i] = bad[i];
		assert_null(gaussians_law(&g, 0, NULL, &e));
		assert_int_equal(e.code, ERR_DATA);
		*at[i] = was;
	}
	gaussians_release(&g);
}

/* A row's bits depend on that row alone, also with threads; a sample's on seed, purpose and index. */
static void same_bits(void **state)
{
	enum { ROWS = 150, D = 600 };
	struct gaussian_spec s = {3, D, 4, 2, .5, 0, .1, .5, NULL, 2};
	struct err e = {0};
	struct pool *pool = pool_new(3, &e);
	float *x = mem_alloc(ROWS * D * sizeof *x), *a = mem_alloc(ROWS * D * sizeof *a), *b = mem_alloc(ROWS * D * sizeof *b), t[ROWS];
	struct gaussians g, again;
	struct law *one, *many;
	char hash[65], other[65];

	(void)state;
	assert_int_equal(gaussian_spec_make(&g, &s, &e), 0);
	assert_int_equal(gaussian_spec_make(&again, &s, &e), 0);
	gaussians_hash(&g, hash);
	gaussians_hash(&again, other);
	assert_string_equal(hash, other);
	gaussians_release(&again);
	s.seed = 3;
	assert_int_equal(gaussian_spec_make(&again, &s, &e), 0);
	gaussians_hash(&again, other);
	assert_string_not_equal(hash, other);
	one = gaussians_law(&g, 0, NULL, &e);
	many = gaussians_law(&g, 0, pool, &e);
	for (int i = 0; i < ROWS; i++) {
		t[i] = (float)(i + 1) / ROWS;
		gaussians_draw(&g, 5, RNG_DRAW, (uint64_t)i, x + i * D);
	}
	law_predict(many, LAW_ALL, &path_linear, PREDICT_VELOCITY, ROWS, x, t, a);
	for (int i = 0; i < ROWS; i++)
		law_predict(one, LAW_ALL, &path_linear, PREDICT_VELOCITY, 1, x + i * D, t + i, b + i * D);
	assert_memory_equal(a, b, ROWS * D * sizeof *a);
	gaussians_draw(&g, 5, RNG_DRAW, 9, a);
	assert_memory_equal(a, x + 9 * D, D * sizeof *a);
	gaussians_draw(&g, 6, RNG_DRAW, 9, a);
	assert_memory_not_equal(a, x + 9 * D, D * sizeof *a);
	gaussians_draw(&g, 5, RNG_METRIC, 9, a);
	assert_memory_not_equal(a, x + 9 * D, D * sizeof *a);
	law_free(one);
	law_free(many);
	gaussians_release(&g);
	gaussians_release(&again);
	pool_free(pool);
	mem_free(x);
	mem_free(a);
	mem_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_dense_algebra),
	    cmocka_unit_test(logits),
	    cmocka_unit_test(least_loss_of_a_component),
	    cmocka_unit_test(samples_converge_to_it),
	    cmocka_unit_test(moments),
	    cmocka_unit_test(posterior_is_calibrated),
	    cmocka_unit_test(as_specified),
	    cmocka_unit_test(refuses_impossible_laws),
	    cmocka_unit_test(checks_its_numbers),
	    cmocka_unit_test(same_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
