/* diffusion/finite against tests/unit/exact.h, which computes the same by sums over samples, and against closed forms. */
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
#include "tests/unit/exact.h"

/* More than one block of 1024 and more rows than one chunk of 128, neither a multiple; enough elements for threads. */
enum { N = 1500, D = 47, K = 3, ROWS = 150 };
static const int64_t first[K + 1] = {0, 1100, 1100, N}; /* cluster 1 is empty */
static float points[N * D];
static uint8_t bytes[N * D];
static int32_t cluster[N];
static double weight[N];
static const double counts[K] = {1, 1, 2.5};

static int make(void **state)
{
	(void)state;
	for (int j = 0; j < N; j++) {
		cluster[j] = j < first[1] ? 0 : 2;
		weight[j] = counts[cluster[j]];
		for (int i = 0; i < D; i++) {
			bytes[j * D + i] = (uint8_t)rng_below(256, 1, RNG_TEST, (uint64_t)j, (uint64_t)i, 0);
			points[j * D + i] = (float)bytes[j * D + i] / 127.5f - 1.f;
		}
	}
	return 0;
}

static struct law *new_set(int as_bytes, const double *counted, struct pool *pool)
{
	struct finite_set s = {N, D, as_bytes ? (const void *)bytes : points, as_bytes, K, first, counted};
	struct err e = {0};
	struct law *f = finite_new(&s, pool, &e);

	assert_non_null(f);
	return f;
}

/* Noised samples at times from 1 down to .001. */
static void make_rows(float *x, float *t)
{
	for (int i = 0; i < ROWS; i++) {
		struct path_point p;
		float eps[D];

		t[i] = i < 3 ? (float[]){1, .001f, .01f}[i] : (float)(.02 + .98 * i / ROWS);
		p = path_at(&path_linear, t[i]);
		rng_normal(eps, D, 2, RNG_TEST, 0, (uint64_t)i);
		path_noise(&p, x + i * D, points + i * 10 * D, eps, D);
	}
}

/* Both compute in double. At t the exponents are up to D / t^2, and rounding is 1e-13 of that; the tolerance is at least 1e-12. */
static void agrees_with_the_sums(void **state)
{
	const struct exact m = {N, D, K, points, weight, cluster, 0};
	static float x[ROWS * D], t[ROWS], v[ROWS * D], logits[ROWS * K];
	static double mean[ROWS * D], mass[ROWS];
	static struct path_point at[ROWS];
	struct law *f = new_set(0, counts, NULL);

	(void)state;
	make_rows(x, t);
	for (int i = 0; i < ROWS; i++)
		at[i] = path_at(&path_linear, t[i]);
	for (int k = LAW_ALL; k < K; k++) {
		law_posterior(f, k, ROWS, x, at, mass, mean);
		law_predict(f, k, &path_linear, PREDICT_VELOCITY, ROWS, x, t, v);
		for (int i = 0; i < ROWS; i++) {
			double want[D], u[D], bound = fmax(1e-12, 1e-13 * D / (t[i] * t[i]));

			if (k == 1) {
				assert_true(mass[i] == -INFINITY);
				continue;
			}
			exact_moments(&m, &path_linear, t[i], k, x + i * D, want, NULL);
			exact_velocity(&m, t[i], k, x + i * D, u);
			for (int j = 0; j < D; j++) {
				assert_true(fabs(mean[i * D + j] - want[j]) < bound);
				assert_true(fabs(v[i * D + j] - u[j]) < 1e-6 * (fabs(u[j]) + 1) + bound / t[i]);
			}
		}
	}
	law_logits(f, &path_linear, ROWS, x, t, logits);
	for (int i = 0; i < ROWS; i++) {
		double want[K], top;

		exact_logits(&m, t[i], x + i * D, want);
		top = fmax(want[0], want[2]);
		for (int k = 0; k < K; k += 2)
			assert_true(fabs(logits[i * K + k] - (want[k] - top)) < 1e-6 * (1 + fabs(want[k] - top)) + 1e-12 * D / (t[i] * t[i]));
		assert_true(logits[i * K + 1] == -INFINITY);
	}
	law_free(f);
}

/* Samples +a and -a: E[x0 | x] = a tanh(alpha a.x / sigma^2). */
static void two_points(void **state)
{
	static const float two[] = {.5f, -.25f, 1, -.5f, .25f, -1};
	static const int64_t one[] = {0, 2};
	struct finite_set s = {2, 3, two, 0, 1, one, NULL};
	struct err e = {0};
	struct law *f = finite_new(&s, NULL, &e);

	(void)state;
	for (int i = 1; i <= 40; i++) {
		float x[3], t = (float)i / 40, x0[3], eps[3];
		double tt = t, th;

		rng_normal(x, 3, 5, RNG_TEST, 0, (uint64_t)i);
		th = tanh((1 - tt) * (.5 * x[0] - .25 * x[1] + x[2]) / (tt * tt));
		law_predict(f, 0, &path_linear, PREDICT_X0, 1, x, &t, x0);
		law_predict(f, 0, &path_linear, PREDICT_EPSILON, 1, x, &t, eps);
		for (int j = 0; j < 3; j++) {
			assert_true(fabs(x0[j] - th * two[j]) < 1e-7);
			assert_true(fabs(eps[j] - (x[j] - (1 - tt) * th * two[j]) / tt) < 2e-7 * (1 + fabs((double)eps[j])));
		}
	}
	law_free(f);
}

/* A grid of quantiles of N(m, s^2) in each dimension approximates the Gaussian: E[x0 | x] = m + alpha s^2 (x - alpha m) / (alpha^2 s^2 + sigma^2).
 * The grid's tails end at 2.6 s; 200 x 200 points agree within .02 s for noise above .4. */
static void a_blob(void **state)
{
	enum { G = 200 };
	static float grid[G * G * 2];
	static const int64_t one[] = {0, G * G};
	static const double m[] = {.3, -1.2}, s[] = {.5, .8};
	struct finite_set set = {G * G, 2, grid, 0, 1, one, NULL};
	struct err e = {0};
	double q[G], z = -6;
	struct law *f;

	(void)state;
	for (int i = 0; i < G; i++) {
		while (.5 * erfc(-z / sqrt(2)) < (i + .5) / G)
			z += 1e-4;
		q[i] = z;
	}
	for (int i = 0; i < G * G; i++) {
		grid[2 * i] = (float)(m[0] + s[0] * q[i / G]);
		grid[2 * i + 1] = (float)(m[1] + s[1] * q[i % G]);
	}
	f = finite_new(&set, NULL, &e);
	for (int i = 0; i < 60; i++) {
		float t = (float)(.4 + .6 * i / 59), x[2], x0[2];
		struct path_point p = path_at(&path_linear, t);

		rng_normal(x, 2, 6, RNG_TEST, 0, (uint64_t)i);
		for (int j = 0; j < 2; j++) {
			double sd = hypot(p.alpha * s[j], p.sigma);

			x[j] = (float)(p.alpha * m[j] + sd * fmin(fmax(x[j], -2), 2));
		}
		law_predict(f, LAW_ALL, &path_linear, PREDICT_X0, 1, x, &t, x0);
		for (int j = 0; j < 2; j++) {
			double var = p.alpha * p.alpha * s[j] * s[j] + p.sigma * p.sigma;

			assert_true(fabs(x0[j] - (m[j] + p.alpha * s[j] * s[j] * (x[j] - p.alpha * m[j]) / var)) < .02 * s[j]);
		}
	}
	law_free(f);
}

/* At t = 1 the router's output is the weighted shares; towards t = 0 the softmax is 1 for the nearest sample, without overflow, also at 0. */
static void both_ends(void **state)
{
	struct law *f = new_set(0, counts, NULL);
	float x[D], logits[K], t = 1, v[D];

	(void)state;
	rng_normal(x, D, 3, RNG_TEST, 0, 0);
	law_logits(f, &path_linear, 1, x, &t, logits);
	assert_true(fabs(logits[0] - logits[2] - log(1100 / (400 * 2.5))) < 1e-6);
	for (int i = 0; i < 6; i++) {
		t = (float[]){.02f, .01f, 1e-3f, 1e-4f, 1e-6f, 0}[i];
		for (int j = 0; j < D; j++)
			x[j] = points[1300 * D + j] + (j & 1 ? .001f : -.001f);
		law_logits(f, &path_linear, 1, x, &t, logits);
		assert_true(logits[2] == 0 && logits[0] < -1 && !isnan(logits[0]));
		law_predict(f, LAW_ALL, &path_linear, PREDICT_X0, 1, x, &t, v);
		for (int j = 0; j < D && i; j++)
			assert_true(fabs(v[j] - points[1300 * D + j]) < 1e-6);
		law_predict(f, 2, &path_linear, PREDICT_VELOCITY, 1, x, &t, v);
		for (int j = 0; j < D; j++)
			assert_true(isfinite(v[j]));
	}
	law_free(f);
}

static void bits_depend_on_the_row_alone(void **state)
{
	static float x[ROWS * D], t[ROWS], a[ROWS * D], b[ROWS * D], la[ROWS * K], lb[ROWS * K];
	struct err e = {0};
	struct pool *pool = pool_new(3, &e);
	struct law *f = new_set(0, counts, NULL), *g = new_set(1, counts, pool);

	(void)state;
	make_rows(x, t);
	law_predict(f, LAW_ALL, &path_linear, PREDICT_VELOCITY, ROWS, x, t, a);
	law_logits(f, &path_linear, ROWS, x, t, la);
	for (int i = 0; i < ROWS; i += 7) {
		int n = ROWS - i < 7 ? ROWS - i : 7;

		law_predict(g, LAW_ALL, &path_linear, PREDICT_VELOCITY, n, x + i * D, t + i, b + i * D);
		law_logits(g, &path_linear, n, x + i * D, t + i, lb + i * K);
	}
	assert_memory_equal(a, b, sizeof a);
	assert_memory_equal(la, lb, sizeof la);
	law_free(f);
	law_free(g);
	pool_free(pool);
}

static void refuses_what_is_not_a_number(void **state)
{
	static const float bad[] = {0, 1, NAN, 2};
	static const int64_t one[] = {0, 2};
	struct finite_set s = {2, 2, bad, 0, 1, one, NULL};
	struct err e = {0};

	(void)state;
	assert_null(finite_new(&s, NULL, &e));
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "sample 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_the_sums),
	    cmocka_unit_test(two_points),
	    cmocka_unit_test(a_blob),
	    cmocka_unit_test(both_ends),
	    cmocka_unit_test(bits_depend_on_the_row_alone),
	    cmocka_unit_test(refuses_what_is_not_a_number),
	};

	return cmocka_run_group_tests(tests, make, NULL);
}
