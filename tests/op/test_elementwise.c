/* ADD, MUL, UNARY and their gradients. Float errors: a few roundings each, 4 ulp = 2.4e-7 of the largest value; the
 * transcendental ones 3 ulp more. */
#include "tests/op/optest.h"

#include <math.h>

static void ref_add(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = c->attr.add.a * *element(&c->in[0], i) + c->attr.add.b * *element(&c->in[1], i);
	while (index_next(&c->out[0], i));
}

static void ref_mul(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[0], i) * *element(&c->in[1], i);
	while (index_next(&c->out[0], i));
}

/* Shapes, and the dimensions in which b is broadcast: small, odd, larger than a task, rank 1 to 6, the last dimension broadcast. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned bcast;
} shapes[] = {
    {1, {1}, 0},        {1, {7}, 0},        {1, {40001}, 0},     {1, {33}, 1},          {2, {5, 3}, 1},           {3, {3, 5, 17}, 2},
    {3, {3, 4, 17}, 3}, {3, {3, 4, 17}, 4}, {3, {9, 70, 49}, 2}, {4, {2, 1, 3, 5}, 12}, {5, {2, 3, 1, 2, 9}, 10}, {6, {2, 3, 2, 2, 3, 5}, 21},
};

static void adds_and_multiplies(void **state)
{
	(void)state;
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (int op = 0; op < 2; op++) {
			struct optest t = {.name = op ? "MUL" : "ADD",
			                   .op = op ? OP_MUL : OP_ADD,
			                   .attr.add = {1.5, -.25},
			                   .nin = 2,
			                   .nout = 1,
			                   .ref = op ? ref_mul : ref_add,
			                   .tol32 = 2.4e-7,
			                   .tol64 = 1e-15,
			                   .in_place = 1,
			                   .samples = 1};

			t.in[0].rank = t.in[1].rank = t.out[0].rank = shapes[s].rank;
			for (int d = 0; d < shapes[s].rank; d++)
				t.in[0].shape[d] = t.in[1].shape[d] = t.out[0].shape[d] = shapes[s].shape[d];
			t.in[1].bcast = shapes[s].bcast;
			t.in[0].batch = t.out[0].batch = 1;
			t.in[1].batch = !(shapes[s].bcast & 1);
			if (t.in[0].shape[0] > 10)
				t.samples = 0;
			optest_run(&t);
		}
}

static double value(int64_t kind, double x)
{
	switch (kind) {
	case UNARY_SILU:
		return x / (1 + exp(-x));
	case UNARY_GELU_TANH:
		return .5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + .044715 * x * x * x)));
	case UNARY_GELU_ERF:
		return .5 * x * (1 + erf(x / sqrt(2)));
	case UNARY_TANH:
		return tanh(x);
	case UNARY_SIGMOID:
		return 1 / (1 + exp(-x));
	case UNARY_EXP:
		return exp(x);
	case UNARY_SQUARE:
		return x * x;
	default:
		return x > 0 ? x : 0;
	}
}

static void ref_unary(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = value(c->attr.unary.fn, *element(&c->in[0], i));
	while (index_next(&c->out[0], i));
}

static void unary_values(void **state)
{
	(void)state;
	for (int kind = 0; kind < UNARY_COUNT; kind++)
		for (int wide = 0; wide < 2; wide++) {
			struct optest t = {
			    .name = "UNARY",
			    .op = OP_UNARY,
			    .attr.unary = {kind},
			    .nin = 1,
			    .nout = 1,
			    .in = {{.rank = 2, .shape = {3, wide ? 7001 : 1}, .batch = 1, .scale = 3}},
			    .out = {{.rank = 2, .shape = {3, wide ? 7001 : 1}, .batch = 1}},
			    .ref = ref_unary,
			    .tol32 = 6e-7,
			    .tol64 = 4e-15,
			    .in_place = 1,
			    .samples = 1,
			};

			optest_run(&t);
		}
}

/* Differences with h = 1e-5 have errors of h^2 and 1e-16 / h: 1e-9 of the largest value. The inputs of ReLU are not near zero. */
static void unary_gradients(void **state)
{
	(void)state;
	for (int kind = 0; kind < UNARY_COUNT; kind++) {
		struct operand x = {.rank = 3, .shape = {2, 3, 19}, .batch = 1, .scale = 2};
		struct optest fwd = {.name = "UNARY", .op = OP_UNARY, .attr.unary = {kind}, .nin = 1, .nout = 1, .in = {x}, .out = {x}};
		struct optest back = {.name = "UNARY_GRAD",
		                      .op = OP_UNARY_GRAD,
		                      .attr.unary = {kind},
		                      .nin = 2,
		                      .nout = 1,
		                      .in = {x, x},
		                      .out = {x},
		                      .tol32 = 1e-6,
		                      .tol64 = 1e-12,
		                      .in_place = 1,
		                      .samples = 1};

		optest_gradient(&fwd, &back, (int[OP_IN]){FROM_DY, FROM_IN}, (int[OP_OUT]){0}, 0, 1e-8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(adds_and_multiplies),
	    cmocka_unit_test(unary_values),
	    cmocka_unit_test(unary_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
