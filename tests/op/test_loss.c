/* SOFTMAX, XENT, XENT_SOFT, MSE, their gradients, and QSAMPLE. Float: exp is within 2 ulp, sums are
 * added in lanes: 2e-6 of the largest value. SOFTMAX_GRAD subtracts sum y dy from dy, terms that are ten times the result. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

/* The softmax along the last dimension at index i, and the logarithm of its denominator. */
static double softmax_at(const struct array *x, const int64_t i[ARRAY_RANK], double *lse)
{
	int64_t j[ARRAY_RANK];
	double top = -INFINITY, sum = 0;

	memcpy(j, i, sizeof j);
	for (j[x->rank - 1] = 0; j[x->rank - 1] < x->shape[x->rank - 1]; j[x->rank - 1]++)
		top = fmax(top, *element(x, j));
	for (j[x->rank - 1] = 0; j[x->rank - 1] < x->shape[x->rank - 1]; j[x->rank - 1]++)
		sum += exp(*element(x, j) - top);
	*lse = top + log(sum);
	return exp(*element(x, i) - *lse);
}

static void ref_softmax(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};
	double lse;

	do
		*element(&c->out[0], i) = softmax_at(&c->in[0], i, &lse);
	while (index_next(&c->out[0], i));
}

static void softmax(void **state)
{
	static const struct operand shapes[] = {
	    {.rank = 2, .shape = {3, 10}, .batch = 1},    {.rank = 2, .shape = {4, 1}, .batch = 1},
	    {.rank = 3, .shape = {3, 2, 67}, .batch = 1}, {.rank = 1, .shape = {5}},
	    {.rank = 2, .shape = {2, 1100}, .batch = 1},
	};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operand x = shapes[k];
		struct optest t = {.name = "SOFTMAX",
		                   .op = OP_SOFTMAX,
		                   .nin = 1,
		                   .nout = 1,
		                   .in = {x},
		                   .out = {x},
		                   .ref = ref_softmax,
		                   .tol32 = 4e-6,
		                   .tol64 = 1e-14,
		                   .samples = x.batch};
		struct optest back = {.name = "SOFTMAX_GRAD",
		                      .op = OP_SOFTMAX_GRAD,
		                      .nin = 2,
		                      .nout = 1,
		                      .in = {x, x},
		                      .out = {x},
		                      .tol32 = 2e-5,
		                      .tol64 = 1e-13,
		                      .samples = x.batch};

		t.in[0].scale = 4;
		optest_run(&t);
		t.in[0].scale = 200; /* exp overflows unless the maximum is subtracted; a score of 600 in float has an error of 3e-5 */
		t.tol32 = 1e-4;
		t.tol64 = 1e-12;
		optest_run(&t);
		t.in[0].scale = 1;
		if (x.shape[x.rank - 1] == 1)
			continue;
		if (x.shape[x.rank - 1] < 100)
			optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_OUT}, (int[OP_OUT]){0}, 0, 1e-8);
	}
}

static void ref_xent(const struct op_call *c)
{
	for (int64_t b = 0; b < c->in[0].shape[0]; b++) {
		int64_t i[ARRAY_RANK] = {b, index_value(&c->in[1], b)};
		double lse;

		softmax_at(&c->in[0], i, &lse);
		*element(&c->out[0], (int64_t[ARRAY_RANK]){b}) = lse - *element(&c->in[0], i);
	}
}

static void cross_entropy(void **state)
{
	static const int64_t shapes[][2] = {{5, 8}, {3, 1}, {1, 40}, {4, 3}, {2, 1000}};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operand x = {.rank = 2, .shape = {shapes[k][0], shapes[k][1]}, .batch = 1, .scale = 3};
		struct operand v = {.rank = 1, .shape = {shapes[k][0]}, .batch = 1}, label = v;
		struct optest t = {.name = "XENT", .op = OP_XENT, .nin = 2, .nout = 1, .ref = ref_xent, .tol32 = 2e-6, .tol64 = 1e-14, .samples = 1};
		struct optest back = {.name = "XENT_GRAD", .op = OP_XENT_GRAD, .nin = 3, .nout = 1, .tol32 = 4e-6, .tol64 = 1e-14, .samples = 1};

		label.limit = (int)shapes[k][1];
		t.in[0] = back.in[1] = back.out[0] = x;
		t.in[1] = back.in[2] = label;
		t.out[0] = back.in[0] = v;
		optest_run(&t);
		t.in[0].scale = 200;
		optest_run(&t);
		t.in[0].scale = 3;
		if (shapes[k][1] > 1 && shapes[k][1] < 100)
			optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_IN + 1}, (int[OP_OUT]){0}, 0, 1e-8);
	}
}

static void ref_xent_soft(const struct op_call *c)
{
	for (int64_t b = 0; b < c->in[0].shape[0]; b++) {
		double sum = 0, lse;

		for (int64_t k = 0; k < c->in[0].shape[1]; k++) {
			int64_t i[ARRAY_RANK] = {b, k};

			softmax_at(&c->in[0], i, &lse);
			sum += *element(&c->in[1], i) * (lse - *element(&c->in[0], i));
		}
		*element(&c->out[0], (int64_t[ARRAY_RANK]){b}) = sum;
	}
}

/* Targets of any sign and sum: the definition holds for all. With the target one-hot the loss is XENT's. */
static void soft_cross_entropy(void **state)
{
	static const int64_t shapes[][2] = {{5, 8}, {3, 1}, {1, 40}, {4, 3}, {2, 600}};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operand x = {.rank = 2, .shape = {shapes[k][0], shapes[k][1]}, .batch = 1, .scale = 3}, target = x;
		struct operand v = {.rank = 1, .shape = {shapes[k][0]}, .batch = 1};
		struct optest t = {
		    .name = "XENT_SOFT", .op = OP_XENT_SOFT, .nin = 2, .nout = 1, .ref = ref_xent_soft, .tol32 = 4e-6, .tol64 = 1e-13, .samples = 1};
		struct optest back = {
		    .name = "XENT_SOFT_GRAD", .op = OP_XENT_SOFT_GRAD, .nin = 3, .nout = 1, .tol32 = 4e-6, .tol64 = 1e-14, .samples = 1};

		target.scale = .2;
		target.shift = .5;
		t.in[0] = back.in[1] = back.out[0] = x;
		t.in[1] = back.in[2] = target;
		t.out[0] = back.in[0] = v;
		optest_run(&t);
		t.in[0].scale = 200;
		optest_run(&t);
		t.in[0].scale = 3;
		if (shapes[k][1] > 1 && shapes[k][1] < 100)
			optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_IN + 1}, (int[OP_OUT]){0}, 0, 1e-8);
	}
}

static void ref_mse(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, n = array_count(&c->in[0]) / c->in[0].shape[0];
	double *y = c->out[0].data;

	memset(y, 0, (size_t)c->out[0].shape[0] * sizeof *y);
	do {
		double d = *element(&c->in[0], i) - *element(&c->in[1], i);

		y[i[0]] += d * d / (double)n * (c->in[2].data ? ((double *)c->in[2].data)[i[0]] : 1);
	} while (index_next(&c->in[0], i));
}

static void ref_mse_grad(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, n = array_count(&c->in[1]) / c->in[1].shape[0];

	do
		*element(&c->out[0], i) = *element(&c->in[0], i) * (c->in[3].data ? *element(&c->in[3], i) : 1) * 2 / (double)n *
		                          (*element(&c->in[1], i) - *element(&c->in[2], i));
	while (index_next(&c->out[0], i));
}

static void mean_squared_error(void **state)
{
	static const struct operand shapes[] = {
	    {.rank = 4, .shape = {3, 2, 3, 5}, .batch = 1, .dense = 1},
	    {.rank = 1, .shape = {4}, .batch = 1, .dense = 1},
	    {.rank = 2, .shape = {2, 9000}, .batch = 1, .dense = 1},
	    {.rank = 2, .shape = {2, 40000}, .batch = 1, .dense = 1},
	};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
		for (int weighted = 0; weighted < 2; weighted++) {
			struct operand x = shapes[k], v = {.rank = 1, .shape = {x.shape[0]}, .batch = 1};
			struct optest t = {.name = "MSE",
			                   .op = OP_MSE,
			                   .nin = 3,
			                   .nout = 1,
			                   .in = {x, x},
			                   .out = {v},
			                   .ref = ref_mse,
			                   .tol32 = 2e-6,
			                   .tol64 = 1e-12,
			                   .samples = 1};
			struct optest back = {.name = "MSE_GRAD",
			                      .op = OP_MSE_GRAD,
			                      .nin = 4,
			                      .nout = 1,
			                      .in = {v, x, x},
			                      .out = {x},
			                      .ref = ref_mse_grad,
			                      .tol32 = 1e-6,
			                      .tol64 = 1e-14,
			                      .samples = 1};

			if (weighted)
				t.in[2] = back.in[3] = v;
			optest_run(&t);
			if (array_count(&(struct array){.rank = x.rank, .shape = {x.shape[0], x.shape[1], x.shape[2], x.shape[3]}}) < 1000)
				optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_IN + 1, FROM_IN + 2}, (int[OP_OUT]){0}, 0, 1e-8);
			else
				optest_run(&back);
		}
}

static void ref_qsample(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[2], i) * *element(&c->in[0], i) + *element(&c->in[3], i) * *element(&c->in[1], i);
	while (index_next(&c->out[0], i));
}

static void noising(void **state)
{
	static const struct operand shapes[] = {
	    {.rank = 4, .shape = {3, 2, 3, 5}, .batch = 1, .dense = 1},
	    {.rank = 1, .shape = {4}, .batch = 1, .dense = 1},
	    {.rank = 2, .shape = {2, 40000}, .batch = 1, .dense = 1},
	    {.rank = 2, .shape = {50, 700}, .dense = 1},
	};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operand x = shapes[k], v = {.rank = 1, .shape = {x.shape[0]}, .batch = x.batch};
		struct optest t = {.name = "QSAMPLE",
		                   .op = OP_QSAMPLE,
		                   .nin = 4,
		                   .nout = 1,
		                   .in = {x, x, v, v},
		                   .out = {x},
		                   .ref = ref_qsample,
		                   .tol32 = 2.4e-7,
		                   .tol64 = 1e-15,
		                   .samples = x.batch};

		optest_run(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(softmax), cmocka_unit_test(cross_entropy), cmocka_unit_test(soft_cross_entropy), cmocka_unit_test(mean_squared_error),
	    cmocka_unit_test(noising),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
