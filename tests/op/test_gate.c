/* GATE and GATE_GRAD. Float: the sum and the product are rounded once each; dg is a sum of up to 64 rows in order, 1e-5. */
#include "tests/op/optest.h"

#include <string.h>

static void ref_gate(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[0], i) + *element(&c->in[1], i) * *element(&c->in[2], i);
	while (index_next(&c->out[0], i));
}

static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned bcast;
	int quiet; /* 1: without the output dg */
} cases[] = {
    {3, {3, 5, 24}, 2, 0}, {3, {3, 5, 24}, 3, 0}, {3, {3, 5, 24}, 0, 0},   {3, {3, 5, 24}, 2, 1},   {3, {2, 67, 9}, 2, 0},
    {3, {2, 67, 9}, 3, 0}, {3, {3, 70, 9}, 1, 0}, {2, {3, 33}, 0, 0},      {2, {3, 33}, 2, 0},      {3, {2, 5, 33}, 6, 0},
    {1, {9}, 0, 0},        {1, {9}, 1, 0},        {4, {2, 3, 4, 5}, 5, 0}, {4, {2, 3, 4, 1}, 6, 0}, {3, {2, 5, 33}, 7, 0},
};

static void values_and_gradients(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct operand x = {.rank = cases[k].rank, .batch = cases[k].rank > 1};
		struct optest t = {
		    .name = "GATE", .op = OP_GATE, .nin = 3, .nout = 1, .ref = ref_gate, .tol32 = 2.4e-7, .tol64 = 1e-15, .in_place = 1};
		struct optest back = {.name = "GATE_GRAD", .op = OP_GATE_GRAD, .nin = 3, .nout = 2, .tol32 = 1e-5, .tol64 = 1e-14};

		memcpy(x.shape, cases[k].shape, sizeof x.shape);
		t.in[0] = t.in[1] = t.in[2] = t.out[0] = x;
		t.in[1].bcast = cases[k].bcast;
		t.in[1].batch = x.batch && !(cases[k].bcast & 1);
		t.samples = x.batch;
		optest_run(&t);
		back.in[0] = back.in[2] = back.out[0] = x;
		back.in[1] = t.in[1];
		if (!cases[k].quiet) {
			back.out[1].rank = x.rank;
			for (int d = 0; d < x.rank; d++)
				back.out[1].shape[d] = cases[k].bcast >> d & 1 ? 1 : x.shape[d];
		}
		optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN + 1, FROM_IN + 2}, (int[OP_OUT]){2, 1}, 0, 1e-8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_gradients)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
