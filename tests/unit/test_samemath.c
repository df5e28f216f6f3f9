/* The functions of core/samemath.h beside the C library's, and a hash of their bits, which is the same on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/samemath.h"

enum { POINTS = 200000 };

static double below_1(double x)
{
	return same_pow(.999, x);
}
static double below_1_libm(double x)
{
	return pow(.999, x);
}
static double decay(double x)
{
	return same_pow(1e4, -x);
}
static double decay_libm(double x)
{
	return pow(1e4, -x);
}
static double length(double x)
{
	return same_hypot(x, 1.3);
}
static double length_libm(double x)
{
	return hypot(x, 1.3);
}

/* The errors are what core/samemath.h states, plus 1 because the C library's own value is not exact. */
static const struct {
	const char *name;
	double (*fn)(double x), (*libm)(double x);
	double from, to, units;
	uint64_t bits;
} cases[] = {
    {"exp", same_exp, exp, -700, 700, 2, 0xb7adef766bcd72c2},
    {"exp near 0", same_exp, exp, -2, 2, 2, 0x579764ff8ba153fd},
    {"log", same_log, log, 1e-3, 50, 2, 0xb109da2d39c98490},
    {"log near 1", same_log, log, .9, 1.1, 2, 0xc1594d43b6721e17},
    {"log1p", same_log1p, log1p, -.99, 9, 4, 0x0a8f20eccf57ee12},
    {"pow(.999, x)", below_1, below_1_libm, 0, 5000, 31, 0xd1f01a246c1ef31a},
    {"pow(10000, -x)", decay, decay_libm, 0, 1, 39, 0x4f4290524ddec63f},
    {"sin", same_sin, sin, -10, 10, 2, 0x276f5696d49316a0},
    {"sin far", same_sin, sin, -1e5, 1e5, 2, 0x80af6c49efaac5ae},
    {"cos", same_cos, cos, -10, 10, 2, 0x9f4279c12cb58b60},
    {"cos far", same_cos, cos, -1e5, 1e5, 2, 0x808a2232ff12623d},
    {"atan", same_atan, atan, -10, 10, 2, 0x59c7a41987a0ffa0},
    {"acos", same_acos, acos, -1, 1, 4, 0x3f31b116e6c86fe6},
    {"erfc", same_erfc, erfc, -3, 26, 3e-13 * 0x1p52, 0x1a0a9b438ea93b6c},
    {"hypot", length, length_libm, -3, 3, 3, 0xf58f0f958d7c10f2},
};

static void near_the_library(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int i = 0; i <= POINTS; i++) {
			double x = cases[k].from + (cases[k].to - cases[k].from) * (i + .37) / (POINTS + 1);
			double is = cases[k].fn(x), want = cases[k].libm(x);

			if (!(fabs(is - want) <= cases[k].units * (nextafter(fabs(want), INFINITY) - fabs(want))))
				fail_msg("%s: at %.17g %.17g, not %.17g", cases[k].name, x, is, want);
		}
}

static void the_same_bits(void **state)
{
	static double v[POINTS];

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		for (int i = 0; i < POINTS; i++)
			v[i] = cases[k].fn(cases[k].from + (cases[k].to - cases[k].from) * (i + .37) / (POINTS + 1));
		if (hash64(v, sizeof v) != cases[k].bits)
			fail_msg("%s: the hash of its bits is 0x%016llx", cases[k].name, (unsigned long long)hash64(v, sizeof v));
	}
}

static void ends(void **state)
{
	(void)state;
	assert_true(same_exp(1000) == INFINITY && same_exp(-1000) == 0 && same_exp(0) == 1 && isnan(same_exp(NAN)));
	assert_true(same_log(0) == -INFINITY && isnan(same_log(-1)) && same_log(INFINITY) == INFINITY && same_log(1) == 0 && isnan(same_log(NAN)));
	assert_true(same_log(0x1p-1070) == log(0x1p-1070));
	assert_true(same_log1p(-1) == -INFINITY && same_log1p(1e-20) == 1e-20);
	for (int n = 0; n <= 22; n++)
		assert_true(same_pow(10, n) == pow(10, n) && same_pow(10, -n) == pow(10, -n));
	assert_true(same_pow(0, .5) == 0 && same_pow(0, 0) == 1 && same_pow(7, 1) == 7 && same_pow(0, -.5) == INFINITY);
	assert_true(same_sin(0) == 0 && same_cos(0) == 1 && same_atan(0) == 0 && same_acos(1) == 0 && same_acos(-1) == acos(-1));
	assert_true(same_atan(INFINITY) == atan(INFINITY) && same_atan(-INFINITY) == -atan(INFINITY) && isnan(same_acos(1.5)));
	assert_true(same_erfc(0) == 1 && same_erfc(INFINITY) == 0 && same_erfc(-INFINITY) == 2 && same_erfc(40) == 0 && isnan(same_erfc(NAN)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(near_the_library),
	    cmocka_unit_test(the_same_bits),
	    cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
