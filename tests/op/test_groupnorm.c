/* GROUPNORM. Means and variances are sums in double of short sums in float, so the error in float is the rounding of the values, 1e-6 of the
 * largest. */
#include "kernels/flavour.h"
#include "tests/op/hostile.h"
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

static const double EPS = 1e-3;

static double act_of(int64_t act, double z)
{
	return act - 1 == UNARY_SILU ? z / (1 + exp(-z)) : act - 1 == UNARY_RELU && z < 0 ? 0 : z;
}

static double vector_at(const struct array *a, int64_t i, double none)
{
	return a->data ? ((const double *)a->data)[i * a->stride[0]] : none;
}

/* x [B, H, W, C] */
static void ref_groupnorm(const struct op_call *c)
{
	const struct array *x = &c->in[0];
	int64_t groups = c->attr.groupnorm.groups, per = x->shape[3] / groups, i[ARRAY_RANK];
	double n = (double)(x->shape[1] * x->shape[2] * per);
	struct array one = *x;

	one.shape[0] = 1;
	one.shape[3] = per;
	for (int64_t b = 0; b < x->shape[0]; b++)
		for (int64_t g = 0; g < groups; g++) {
			double mean = 0, square = 0, rstd;

			one.data = (double *)x->data + b * x->stride[0] + g * per * x->stride[3];
			memset(i, 0, sizeof i);
			do
				mean += *element(&one, i) / n;
			while (index_next(&one, i));
			do
				square += pow(*element(&one, i) - mean, 2) / n;
			while (index_next(&one, i));
			rstd = 1 / sqrt(square + EPS);
			*element(&c->out[1], (int64_t[]){b, g, 0, 0, 0, 0}) = mean;
			*element(&c->out[1], (int64_t[]){b, g, 1, 0, 0, 0}) = rstd;
			memset(i, 0, sizeof i);
			do {
				int64_t ch = g * per + i[3], to[ARRAY_RANK] = {b, i[1], i[2], ch};
				double z = (*element(&one, i) - mean) * rstd * vector_at(&c->in[1], ch, 1) + vector_at(&c->in[2], ch, 0);

				*element(&c->out[0], to) = act_of(c->attr.groupnorm.act, z);
			} while (index_next(&one, i));
		}
}

static const struct {
	int64_t b, h, w, c, groups;
	int act, affine;
	double scale, shift; /* of x */
} cases[] = {
    {2, 3, 5, 6, 3, 0, 1, 1, 0},
    {1, 1, 1, 4, 2, 0, 0, 1, 0},
    {3, 2, 2, 5, 5, UNARY_SILU + 1, 1, 1, 0},
    {2, 7, 3, 12, 1, UNARY_RELU + 1, 1, 1, 0},
    {2, 9, 9, 64, 32, UNARY_SILU + 1, 1, 3, 50},
    {1, 33, 31, 40, 4, 0, 1, 1, -2},
    {1, 1, 5, 20000, 10, UNARY_SILU + 1, 1, 1, 0},
};

/* A mean of 50 increases the rounding of the values 50 / 3 times, and with it tol32. */
static struct optest test_of(size_t k)
{
	struct operand x = {.rank = 4,
	                    .shape = {cases[k].b, cases[k].h, cases[k].w, cases[k].c},
	                    .dense = 1,
	                    .batch = 1,
	                    .scale = cases[k].scale,
	                    .shift = cases[k].shift};
	struct operand v = {.rank = 1, .shape = {cases[k].c}, .dense = 1}, y = x;
	struct operand stats = {.rank = 3, .shape = {cases[k].b, cases[k].groups, 2}, .dense = 1, .batch = 1};
	struct optest t = {.name = "GROUPNORM",
	                   .op = OP_GROUPNORM,
	                   .attr.groupnorm = {cases[k].groups, cases[k].act, EPS},
	                   .nin = 3,
	                   .nout = 2,
	                   .in = {x},
	                   .out = {y, stats},
	                   .ref = ref_groupnorm,
	                   .tol32 = cases[k].shift > 9 ? 3e-5 : 2e-6,
	                   .tol64 = 1e-13,
	                   .in_place = 1,
	                   .samples = 1};

	if (cases[k].affine)
		t.in[1] = t.in[2] = v;
	return t;
}

static void forward(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = test_of(k);

		optest_run(&t);
	}
}

/* Samples far from zero, whose variance a sum of squares about zero would lose. */
static void far_from_zero(void **state)
{
	struct operand x = {.rank = 4, .shape = {1, 16, 16, 2}, .dense = 1, .batch = 1, .shift = 1000};
	struct operand stats = {.rank = 3, .shape = {1, 1, 2}, .dense = 1, .batch = 1};
	struct optest t = {.name = "GROUPNORM far from zero",
	                   .op = OP_GROUPNORM,
	                   .attr.groupnorm = {1, 0, EPS},
	                   .nin = 3,
	                   .nout = 2,
	                   .in = {x},
	                   .out = {x, stats},
	                   .ref = ref_groupnorm,
	                   .tol32 = 5e-5,
	                   .tol64 = 1e-11};

	(void)state;
	optest_run(&t);
}

/* The second case has groups of two values, which always become -1 and 1: its gradient is the small difference of large terms. */
static void gradients(void **state)
{
	static const size_t small[] = {0, 1, 2};

	(void)state;
	for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
		struct optest fwd = test_of(small[k]);
		struct operand dy = fwd.in[0];
		struct optest back = {.name = "GROUPNORM_GRAD",
		                      .op = OP_GROUPNORM_GRAD,
		                      .attr = fwd.attr,
		                      .nin = 5,
		                      .nout = 3,
		                      .in = {dy, fwd.in[0], fwd.out[1], fwd.in[1], fwd.in[2]},
		                      .out = {dy, fwd.in[1], fwd.in[2]},
		                      .tol32 = small[k] == 1 ? 2e-3 : 2e-5,
		                      .tol64 = 1e-13,
		                      .in_place = 1,
		                      .samples = 0};

		optest_gradient(&fwd, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_OUT + 1, FROM_IN + 1, FROM_IN + 2}, (int[OP_OUT]){0, 1, 2}, 0, 1e-7);
	}
}

static void hostile(void **state)
{
	(void)state;
	hostile_norms(flavour_kernels()[OP_GROUPNORM], flavour_kernels()[OP_GROUPNORM_GRAD], 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(far_from_zero), cmocka_unit_test(gradients),
	                                   cmocka_unit_test(hostile)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
