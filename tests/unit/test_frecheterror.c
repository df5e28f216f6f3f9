/* metric: the standard errors of Frechet distances, against the deviation over repetitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metric/frechet.h"
#include "metric/frecheterror.h"
#include "metric/moments.h"
#include "tests/unit/rows.h"

enum { REPEAT = 200, N = 240, M = 160, D = 5, P = 3 };

static const double axes[P * D] = {[0] = 1, [D + 1] = 1, [2 * D + 2] = 1};

struct study {
	double value[REPEAT], error; /* distances, and the mean of their errors */
};

/* 200 repetitions give a deviation within 5%, so 20% is four such errors; 3,000 repetitions gave ratios of .99 to 1.03. */
static void agree(const char *what, const struct study *s)
{
	double mean = 0, square = 0, ratio;

	for (int r = 0; r < REPEAT; r++)
		mean += s->value[r] / REPEAT;
	for (int r = 0; r < REPEAT; r++)
		square += (s->value[r] - mean) * (s->value[r] - mean) / (REPEAT - 1);
	ratio = s->error / sqrt(square);
	print_message("# %s: distance %.4f, error %.4f, %.3f of the deviation\n", what, mean, s->error, ratio);
	assert_true(ratio > .8 && ratio < 1.2);
}

/* y: a normal distribution with another mean and scale than x. */
static float *far_off(uint64_t key)
{
	float *y = normals(M, D, key);

	for (int i = 0; i < M * D; i++)
		y[i] = 1.3f * y[i] + .4f;
	return y;
}

/* New vectors and draws in each repetition; fewer draws than vectors, and as many. */
static void drawn(void **state)
{
	static const int takes[] = {80, 120, 160}, rounds[] = {1, 3, 4};
	struct pool *three = pool_new(3, NULL);

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct study s = {.error = 0};
		char what[64];

		for (int r = 0; r < REPEAT; r++) {
			float *x = normals(N, D, 2 * (uint64_t)r), *y = far_off(2 * (uint64_t)r + 1);
			double full, se, again;

			assert_int_equal(frechet_equal(&s.value[r], &full, NULL, x, N, y, M, D, axes, P, takes[k], rounds[k], (uint64_t)r, NULL), 0);
			assert_int_equal(frechet_equal_error(&se, NULL, x, N, y, M, D, axes, P, takes[k], rounds[k], (uint64_t)r, NULL), 0);
			if (r < 3) {
				assert_int_equal(frechet_equal_error(&again, three, x, N, y, M, D, axes, P, takes[k], rounds[k], (uint64_t)r, NULL),
				                 0);
				assert_memory_equal(&se, &again, sizeof se);
			}
			s.error += se / REPEAT;
			mem_free(x);
			mem_free(y);
		}
		snprintf(what, sizeof what, "%d of %d and of %d, drawn %d times", takes[k], N, M, rounds[k]);
		agree(what, &s);
	}
	pool_free(three);
}

/* Against a reference of which only the statistics are known. */
static void fixed(void **state)
{
	static const double mu[P] = {0}, sigma[P * P] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
	struct study s = {.error = 0};

	(void)state;
	for (int r = 0; r < REPEAT; r++) {
		float *y = far_off((uint64_t)r);
		double mean[D], cov[D * D], m[P], c[P * P], se;
		struct moments all;

		assert_int_equal(moments_init(&all, D, NULL), 0);
		moments_add(&all, NULL, y, M);
		assert_int_equal(moments_result(&all, NULL, mean, cov, NULL), 0);
		moments_release(&all);
		frechet_project(m, c, axes, mean, cov, D, P);
		assert_int_equal(frechet_distance(&s.value[r], NULL, mu, sigma, m, c, P, NULL), 0);
		assert_int_equal(frechet_fixed_error(&se, NULL, mu, sigma, y, M, D, axes, P, NULL), 0);
		s.error += se / REPEAT;
		mem_free(y);
	}
	agree("the reference exact", &s);
}

/* Between samples of one distribution the distance is only bias and has no linear part; the error estimate is then too large, not too small. */
static void nothing_between(void **state)
{
	struct study s = {.error = 0};
	double mean = 0, square = 0;

	(void)state;
	for (int r = 0; r < REPEAT; r++) {
		float *x = normals(N, D, 2 * (uint64_t)r), *y = normals(M, D, 2 * (uint64_t)r + 1);
		double full, se;

		assert_int_equal(frechet_equal(&s.value[r], &full, NULL, x, N, y, M, D, axes, P, M, 4, 0, NULL), 0);
		assert_int_equal(frechet_equal_error(&se, NULL, x, N, y, M, D, axes, P, M, 4, 0, NULL), 0);
		s.error += se / REPEAT;
		mean += s.value[r] / REPEAT;
		mem_free(x);
		mem_free(y);
	}
	for (int r = 0; r < REPEAT; r++)
		square += (s.value[r] - mean) * (s.value[r] - mean) / (REPEAT - 1);
	print_message("# one distribution: distance %.4f, error %.3f of the deviation\n", mean, s.error / sqrt(square));
	assert_true(s.error > .85 * sqrt(square));
}

static void few(void **state)
{
	float *x = normals(8, D, 5);
	double se;

	(void)state;
	assert_int_equal(frechet_equal_error(&se, NULL, x, 8, x, 8, D, axes, P, 7, 1, 0, NULL), 0);
	assert_true(isnan(se));
	assert_int_equal(frechet_equal_error(&se, NULL, x, 8, x, 8, D, axes, P, 8, 1, 0, NULL), 0);
	assert_true(isfinite(se));
	mem_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(drawn), cmocka_unit_test(fixed), cmocka_unit_test(nothing_between),
	                                   cmocka_unit_test(few)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
