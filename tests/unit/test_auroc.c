/* metric/auroc: by hand, by counting pairs, and for two normal distributions whose area is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "core/rng.h"
#include "metric/auroc.h"

static void by_hand(void **state)
{
	static const double a[] = {3, 1, 2}, b[] = {0, 2}, nan_[] = {NAN};

	(void)state;
	assert_float_equal(auroc(a, 3, b, 2), 4.5 / 6, 1e-15);
	assert_float_equal(auroc(b, 2, a, 3), 1.5 / 6, 1e-15);
	assert_float_equal(auroc(a, 3, a, 3), .5, 1e-15);
	assert_float_equal(auroc(a, 1, b, 2), 1, 1e-15);
	assert_true(isnan(auroc(a, 0, b, 2)));
	assert_true(isnan(auroc(a, 3, b, 0)));
	assert_true(isnan(auroc(a, 3, nan_, 1)));
}

static void pairs(void **state)
{
	enum { N = 157, M = 93 };
	float x[N + M];
	double a[N], b[M], count = 0;

	(void)state;
	rng_normal(x, N + M, 7, RNG_METRIC, 0, 0);
	for (int i = 0; i < N; i++)
		a[i] = round(3 * x[i]); /* with ties */
	for (int i = 0; i < M; i++)
		b[i] = round(3 * x[N + i] - 1);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < M; j++)
			count += a[i] > b[j] ? 1 : a[i] == b[j] ? .5 : 0;
	assert_float_equal(auroc(a, N, b, M), count / (N * M), 1e-14);
}

/* P(X + shift > Y) = Phi(shift / sqrt(2)). */
static void normals(void **state)
{
	enum { N = 20000 };
	static float x[2 * N];
	static double a[N], b[N];

	(void)state;
	rng_normal(x, 2 * N, 1, RNG_METRIC, 0, 0);
	for (int i = 0; i < N; i++) {
		a[i] = x[i] + 1.;
		b[i] = x[N + i];
	}
	assert_float_equal(auroc(a, N, b, N), .5 * erfc(-.5), .01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(pairs), cmocka_unit_test(normals)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
