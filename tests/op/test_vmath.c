/* kernels/vmath.h in float against libm in double: errors in ulp over whole ranges, special values. A vectorised loop gives the same bits as one
 * element at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "kernels/vmath.h"

static double gelu(double x)
{
	return .5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + .044715 * x * x * x)));
}

static double slope(double (*f)(double), double x)
{
	double h = 1e-5;

	return (f(x + h) - f(x - h)) / (2 * h);
}

static double silu(double x)
{
	return x / (1 + exp(-x));
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double silu_slope(double x)
{
	return slope(silu, x);
}

static double gelu_slope(double x)
{
	return slope(gelu, x);
}

static float fsin(float x)
{
	float s, c;

	real_sincos(x, &s, &c);
	return s;
}

static float fcos(float x)
{
	float s, c;

	real_sincos(x, &s, &c);
	return c;
}

static double ulp(double x)
{
	float f = fabsf((float)x);

	return (double)nextafterf(f, HUGE_VALF) - (double)f;
}

/* max |f - ref| / max(ulp(ref), floor) */
static double worst(float (*f)(float), double (*ref)(double), double lo, double hi, double floor)
{
	double w = 0;

	for (int i = 0; i <= 400000; i++) {
		float x = (float)(lo + (hi - lo) * i / 400000);
		double r = ref((double)x);

		w = fmax(w, fabs((double)f(x) - r) / fmax(ulp(r), floor));
	}
	return w;
}

static void accuracy(void **state)
{
	static const struct {
		const char *name;
		float (*f)(float);
		double (*ref)(double);
		double lo, hi, floor, bound;
	} t[] = {
	    {"exp", real_exp, exp, -87.3, 88.3, 0, 1.5},        {"exp small", real_exp, exp, -1, 1, 0, 1.5},
	    {"exp down", real_exp_down, exp, -87, 1, 0, 1.5},   {"exp2", real_exp2_near, exp2, -126, 126, 0, 2.5},
	    {"log", real_log, log, 1e-30, 1e30, 0, 1.5},        {"log near 1", real_log, log, .5, 2, 0, 1.5},
	    {"log tiny", real_log, log, 1e-44, 1e-37, 0, 1.5},  {"tanh", real_tanh, tanh, -10, 10, 0, 2.5},
	    {"tanh small", real_tanh, tanh, -.01, .01, 0, 2.5}, {"erf", real_erf, erf, -5, 5, 0, 3},
	    {"erf small", real_erf, erf, -1e-3, 1e-3, 0, 3},    {"sigmoid", real_sigmoid, sigmoid, -87, 87, 0, 3},
	    {"silu", real_silu, silu, -80, 80, 0, 4},           {"silu slope", real_silu_slope, silu_slope, -20, 20, 1e-7, 4},
	    {"gelu", real_gelu, gelu, -4, 20, 1.2e-7, 4},       {"gelu slope", real_gelu_slope, gelu_slope, -10, 10, 1.2e-7, 4},
	    {"sin", fsin, sin, -8000, 8000, 1e-7, 1.1},         {"cos", fcos, cos, -8000, 8000, 1e-7, 1.1},
	    {"sin small", fsin, sin, -4, 4, 1e-7, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		double w = worst(t[i].f, t[i].ref, t[i].lo, t[i].hi, t[i].floor);

		printf("# %-12s %.2f ulp\n", t[i].name, w);
		assert_true(w <= t[i].bound);
	}
}

static void special(void **state)
{
	(void)state;
	assert_true(real_exp(-HUGE_VALF) == 0 && real_exp(HUGE_VALF) == HUGE_VALF && real_exp(0) == 1);
	assert_true(real_exp(88.36f) < HUGE_VALF && real_exp(88.38f) == HUGE_VALF);
	assert_true(real_exp_down(-87.34f) == 0 && real_exp_down(-1e30f) == 0 && real_exp_down(-HUGE_VALF) == 0);
	assert_true(real_exp_down(0) == 1 && isnan(real_exp_down(NAN)));
	assert_true(real_exp(-87.34f) == 0 && real_exp(-1e30f) == 0 && real_exp(1e30f) == HUGE_VALF);
	assert_true(real_log(0) == -HUGE_VALF && real_log(1) == 0 && isnan(real_log(-1)) && real_log(HUGE_VALF) == HUGE_VALF);
	assert_true(real_tanh(100) == 1 && real_tanh(-100) == -1 && real_tanh(0) == 0);
	assert_true(real_erf(10) == 1 && real_erf(-10) == -1 && real_erf(0) == 0);
	assert_true(real_sigmoid(-200) == 0 && real_sigmoid(200) == 1 && real_sigmoid(0) == .5f);
	assert_true(real_gelu(-50) == 0 && real_gelu(50) == 50 && real_silu(-200) == 0);
	assert_true(real_gelu(-HUGE_VALF) == 0 && real_gelu(HUGE_VALF) == HUGE_VALF && real_gelu(0) == 0 && real_gelu(3e38f) == 3e38f);
	assert_true(real_gelu_slope(-1e10f) == 0 && real_gelu_slope(50) == 1 && real_gelu_slope(0) == .5f && isnan(real_gelu_slope(NAN)));
	assert_true(real_exp2_near(-126) == 0x1p-126f && real_exp2_near(126) == 0x1p126f && real_exp2_near(0) == 1);
	assert_true(isnan(real_exp(NAN)) && isnan(real_log(NAN)) && isnan(real_tanh(NAN)) && isnan(real_erf(NAN)));
	assert_true(isnan(real_sigmoid(NAN)) && isnan(fsin(NAN)) && isnan(real_gelu(NAN)));
}

#define LOOP(name) \
	static __attribute__((noinline)) void name##_loop(float *y, const float *x, int n) \
	{ \
		for (int i = 0; i < n; i++) \
			y[i] = real_##name(x[i]); \
	}
/* clang-format off */
LOOP(exp) LOOP(exp_down) LOOP(log) LOOP(tanh) LOOP(erf) LOOP(gelu) LOOP(gelu_slope) LOOP(silu_slope)
    /* clang-format on */

    static void bits_of_a_lane(void **state)
{
	void (*const loop[])(float *, const float *, int) = {exp_loop, exp_down_loop, log_loop,        tanh_loop,
	                                                     erf_loop, gelu_loop,     gelu_slope_loop, silu_slope_loop};
	enum { N = 1003 };
	float x[N], y[N], one;

	(void)state;
	for (int i = 0; i < N; i++)
		x[i] = 9 * sinf((float)i) + (i % 3 ? 0 : 10);
	for (size_t k = 0; k < sizeof loop / sizeof *loop; k++) {
		loop[k](y, x, N);
		for (int i = 0; i < N; i++) {
			loop[k](&one, x + i, 1);
			assert_memory_equal(&one, y + i, sizeof one);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(accuracy),
	    cmocka_unit_test(special),
	    cmocka_unit_test(bits_of_a_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
