/* A training step with cuBLASLt's products beside the same step with products of our own (device_set_invariant), of DiT-XL/2 on a GPU; and the
 * search for the first op that differs.
 *
 * Both round alike and differ in the order of sums. Float: a few hundred roundings of 6e-8, through 28 blocks. Bfloat16: what is stored is rounded
 * to 2^-9, and a sum of another order may round to the neighbour. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "core/str.h"
#include "net/netdef.h"
#include "tests/cuda/remote.h"
#include "tests/cuda/wholestep.h"

enum { ROWS = 2 };

static struct pool *pool;

static struct device *gpu(void)
{
	struct err e = {0};
	struct device *d = remote_open(pool, &e);

	if (!d) {
		printf("# needs cuda: %s\n", e.msg);
		skip();
	}
	return d;
}

/* DiT-XL/2 at 256 tokens, or a small network. */
static struct net_config network(int small)
{
	struct net_config c = {
	    .def = &net_dit, .channels = 4, .out_channels = 4, .size = 32, .time_scale = 1000, .classes = 1000, .class_dropout = .1};
	struct err e = {0};

	if (small)
		c.size = 8;
	if (net_preset(small ? "dit-nano/2" : "dit-xl/2", &c, &e))
		fail_msg("%s", e.msg);
	return c;
}

static void cross(enum precision precision, double tol)
{
	const struct step_options o = {ROWS, ROWS, precision == PRECISION_BF16, .times = 1}, kept = {ROWS, ROWS, o.bf16, .times = 1, .no_reuse = 1};
	struct device *d = gpu();
	struct net_config c = network(remote_small());
	struct step own, library;
	struct err e = {0};
	const char *which;
	double out, loss, gradient;

	if (o.bf16 && !(d->storage >> DT_BF16 & 1)) {
		device_free(d);
		printf("# needs cuda: this device computes in float alone\n");
		skip();
	}
	if (device_set_precision(d, precision, &e))
		fail_msg("%s", e.msg);
	device_set_invariant(d, 1);
	step_run(&own, &c, d, &o);
	device_set_invariant(d, 0);
	step_run(&library, &c, d, &o);
	out = step_distance(library.out, own.out, own.outs);
	loss = step_distance(library.each, own.each, ROWS);
	gradient = step_gradient_error(&library, &own, &which);
	printf("# %s: output %.2e, loss %.2e, gradient of %s %.2e; allowed %.0e, %.0e, %.0e\n", precision_names[precision], out, loss, which,
	       gradient, tol, tol, 4 * tol);
	step_free(&own);
	step_free(&library);
	if (!(out <= tol && loss <= tol && gradient <= 4 * tol)) {
		struct str s = {0};

		device_set_invariant(d, 1);
		step_run(&own, &c, d, &kept);
		device_set_invariant(d, 0);
		step_run(&library, &c, d, &kept);
		step_differs(&library, &own, ROWS, tol, &s);
		fail_msg("cuBLASLt's products beside our own: %s", str_text(&s));
	}
	device_free(d);
}

static void cross_f32(void **state)
{
	(void)state;
	cross(PRECISION_F32, 1e-4);
}

static void cross_bf16(void **state)
{
	(void)state;
	cross(PRECISION_BF16, 4e-2);
}

static void (*right)(const struct op_call *c);

/* UNARY with another function: SILU where GELU was asked for and the other way round. */
static void wrong_run(const struct op_call *c)
{
	struct op_call d = *c;

	d.attr.unary.fn = c->attr.unary.fn == UNARY_SILU ? UNARY_GELU_TANH : UNARY_SILU;
	right(&d);
}

/* A kernel that is wrong is named, and nothing is where all are right. */
static void first_that_differs(void **state)
{
	struct device *d = gpu();
	const struct kernel *kernel = d->kernel[OP_UNARY];
	const struct kernel wrong = {wrong_run, kernel->scratch};
	const struct step_options o = {ROWS, ROWS, .times = 1, .no_reuse = 1};
	struct net_config c = network(1);
	struct step good, same, bad;
	struct str s = {0};

	(void)state;
	right = kernel->run;
	step_run(&good, &c, d, &o);
	step_run(&same, &c, d, &o);
	assert_int_equal(step_differs(&same, &good, ROWS, 0, &s), 0);
	str_release(&s);
	d->kernel[OP_UNARY] = &wrong;
	step_run(&bad, &c, d, &o);
	d->kernel[OP_UNARY] = kernel;
	assert_int_equal(step_differs(&bad, &good, ROWS, 1e-4, &s), 1);
	printf("# %s\n", str_text(&s));
	assert_non_null(strstr(str_text(&s), " UNARY, output 0: error "));
	str_release(&s);
	step_free(&good);
	step_free(&same);
	step_free(&bad);
	device_free(d);
}

static int set_up(void **state)
{
	(void)state;
	pool = pool_new(2, NULL);
	return pool ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	pool_free(pool);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(first_that_differs), cmocka_unit_test(cross_f32), cmocka_unit_test(cross_bf16)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
