/* SUM. Float: the 64 rows of a group are added in order (64 roundings of partial sums), and so are the groups; runs are added in 32 lanes of at most
 * 128 terms. Errors are below 64 ulp of the largest partial sum, 8e-6, and much smaller with random signs. */
#include "kernels/flavour.h"
#include "tests/op/alone.h"
#include "tests/op/optest.h"

#include <string.h>

static void ref_sum(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = 0;
	while (index_next(&c->out[0], i));
	do
		*element(&c->out[0], i) += c->attr.sum.factor * *element(&c->in[0], i);
	while (index_next(&c->in[0], i));
}

/* Bit d of `summed`: dimension d is summed. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned summed;
} cases[] = {
    {1, {1}, 0},
    {1, {1}, 1},
    {1, {30}, 1},
    {1, {100003}, 1},
    {2, {7, 5}, 0},
    {2, {7, 5}, 1},
    {2, {7, 5}, 2},
    {2, {7, 5}, 3},
    {2, {300, 130}, 1},
    {2, {3, 9001}, 2},
    {3, {3, 70, 600}, 2},
    {3, {3, 200, 17}, 2},
    {3, {5, 66, 17}, 3},
    {3, {5, 6, 17}, 5},
    {3, {4, 600, 9}, 6},
    {3, {2, 4, 5000}, 6},
    {3, {1, 5, 17}, 2},
    {4, {3, 4, 9, 5}, 10},
    {4, {3, 4, 9, 5}, 5},
    {6, {2, 3, 2, 3, 2, 5}, 42},
    {6, {2, 3, 2, 3, 2, 5}, 63},
};

static void sums(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = {
		    .name = "SUM", .op = OP_SUM, .attr.sum = {.5}, .nin = 1, .nout = 1, .ref = ref_sum, .tol32 = 4e-6, .tol64 = 1e-14, .layouts = 1};

		t.in[0].rank = t.out[0].rank = cases[k].rank;
		memcpy(t.in[0].shape, cases[k].shape, sizeof t.in[0].shape);
		memcpy(t.out[0].shape, cases[k].shape, sizeof t.in[0].shape);
		t.in[0].free = t.out[0].free = 1;
		for (int d = 0; d < cases[k].rank; d++)
			if (cases[k].summed >> d & 1)
				t.out[0].shape[d] = 1;
		if (!(cases[k].summed & 1) && cases[k].shape[0] < 10)
			t.samples = t.in[0].batch = t.out[0].batch = 1;
		optest_run(&t);
	}
}

/* As in the gradient of a broadcast, x has strides of 0. */
static void sums_a_broadcast_input(void **state)
{
	struct optest t = {.name = "SUM of a broadcast",
	                   .op = OP_SUM,
	                   .attr.sum = {1},
	                   .nin = 1,
	                   .nout = 1,
	                   .in = {{.rank = 3, .shape = {3, 9, 5}, .bcast = 5}},
	                   .out = {{.rank = 3, .shape = {3, 1, 1}}},
	                   .ref = ref_sum,
	                   .tol32 = 2e-6,
	                   .tol64 = 1e-14,
	                   .layouts = 1};

	(void)state;
	optest_run(&t);
}

static void any_batch(void **state)
{
	(void)state;
	sums_alone(flavour_kernels()[OP_SUM]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums),
	    cmocka_unit_test(sums_a_broadcast_input),
	    cmocka_unit_test(any_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
