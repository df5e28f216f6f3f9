/* diffusion/timeknots: boundaries of times by a quantity, against integrals in closed form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "diffusion/timeknots.h"

static void knots(double *knot, int parts, const double *t, const double *m, int64_t n)
{
	struct err e = {0};

	if (time_knots(knot, parts, t, m, n, &e))
		fail_msg("%s", e.msg);
	assert_float_equal(knot[0], 0, 0);
	assert_float_equal(knot[parts], 1, 0);
}

/* A constant divides evenly, also if it was measured at one time; 2t at sqrt(i/n); 2 (1 - t) at 1 - sqrt(1 - i/n). */
static void by_hand(void **state)
{
	static const double one[] = {.3}, ends[] = {0, 1}, constant[] = {5, 5}, rising[] = {0, 2}, falling[] = {2, 0};
	static const double middle[] = {.25, .5, .75}, hat[] = {0, 1, 0}, half[] = {.5, .75}, step[] = {0, 4};
	double k[6];

	(void)state;
	knots(k, 5, one, constant, 1);
	for (int i = 0; i <= 5; i++)
		assert_float_equal(k[i], i / 5., 1e-12);
	knots(k, 4, ends, rising, 2);
	for (int i = 0; i <= 4; i++)
		assert_float_equal(k[i], sqrt(i / 4.), 1e-12);
	knots(k, 4, ends, falling, 2);
	for (int i = 0; i <= 4; i++)
		assert_float_equal(k[i], 1 - sqrt(1 - i / 4.), 1e-12);
	knots(k, 2, middle, hat, 3); /* nothing before .25 and after .75 */
	assert_float_equal(k[1], .5, 1e-12);
	knots(k, 3, half, step, 2); /* .5 from .5 to .75, then 4 up to 1: 1.5 in all */
	assert_float_equal(k[1], .75, 1e-12);
	assert_float_equal(k[2], .875, 1e-12);
	knots(k, 1, ends, rising, 2);
}

/* The least loss of the velocity on a Gaussian of variance c is c / (c (1 - t)^2 + t^2), whose integral up to b is
 * sqrt c (atan(((1 + c) b - c) / sqrt c) + atan(sqrt c)). Trapezoids of width 1/2000 have an error of 1e-7 of it. */
static void gaussian(void **state)
{
	enum { N = 2001, PARTS = 4 };
	static const double variances[] = {.05, .5, 1, 4};
	static double t[N], m[N];

	(void)state;
	for (int v = 0; v < 4; v++) {
		double c = variances[v], root = sqrt(c), whole = root * (atan(1 / root) + atan(root)), k[PARTS + 1];

		for (int i = 0; i < N; i++) {
			t[i] = i / (N - 1.);
			m[i] = c / (c * (1 - t[i]) * (1 - t[i]) + t[i] * t[i]);
		}
		knots(k, PARTS, t, m, N);
		for (int p = 1; p < PARTS; p++)
			assert_float_equal(k[p], (c + root * tan(whole * p / PARTS / root - atan(root))) / (1 + c), 1e-5);
	}
}

static void refusals(void **state)
{
	static const struct {
		double t[2], m[2];
		int64_t n;
		const char *part;
	} bad[] = {
	    {{.2, .2}, {1, 1}, 2, "must increase"},          {{.5, .2}, {1, 1}, 2, "must increase"},  {{-.1, .2}, {1, 1}, 2, "must increase"},
	    {{.2, 1.5}, {1, 1}, 2, "must increase"},         {{.2, NAN}, {1, 1}, 2, "must increase"}, {{.2, .5}, {1, -1}, 2, "must not be negative"},
	    {{.2, .5}, {NAN, 1}, 2, "must not be negative"}, {{.2, .5}, {0, 0}, 2, "0 at all times"}, {{.2, .5}, {0, 0}, 0, "no times"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		double k[3];
		struct err e = {0};

		assert_int_equal(time_knots(k, 2, bad[i].t, bad[i].m, bad[i].n, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].part))
			fail_msg("\"%s\" does not say \"%s\"", e.msg, bad[i].part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_hand),
	    cmocka_unit_test(gaussian),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
