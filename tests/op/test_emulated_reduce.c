/* CUDA's SUM, run with tests/op/emulate.h, against the CPU's. The order of addition differs: float roundings of partial sums with random signs, 4e-6
 * of the largest value as in test_reduce.c. */
#include "tests/op/alone.h"
#include "tests/op/optest.h"

#include <string.h>

#include "file/safetensors.h"

#define __device__
#include "kernels/divider.h"

extern const struct kernel kernel_sum_cuda;

/* Bit d of `summed`: dimension d is summed. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned summed;
} cases[] = {
    {1, {1}, 0},
    {1, {1}, 1},
    {1, {30}, 1},
    {1, {140003}, 1},
    {1, {140000}, 1},
    {2, {7, 5}, 0},
    {2, {7, 5}, 1},
    {2, {7, 5}, 2},
    {2, {7, 5}, 3},
    {2, {300, 136}, 1},
    {2, {3, 9001}, 2},
    {2, {3, 9000}, 2},
    {3, {3, 70, 600}, 2},
    {3, {3, 700, 17}, 2},
    {3, {5, 66, 17}, 3},
    {3, {5, 6, 17}, 5},
    {3, {4, 600, 9}, 6},
    {3, {2, 4, 5000}, 6},
    {3, {2, 300, 16}, 2},
    {4, {3, 4, 9, 5}, 10},
    {4, {3, 4, 9, 8}, 10},
    {4, {3, 4, 9, 5}, 5},
    {4, {9, 4, 40, 8}, 5},
    {6, {2, 3, 2, 3, 2, 5}, 42},
    {6, {2, 3, 2, 3, 2, 5}, 63},
    {2, {131072, 2}, 1},
};

static void sums(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = {.name = "SUM", .op = OP_SUM, .attr.sum = {.5}, .nin = 1, .nout = 1};

		t.in[0].rank = t.out[0].rank = cases[k].rank;
		memcpy(t.in[0].shape, cases[k].shape, sizeof t.in[0].shape);
		memcpy(t.out[0].shape, cases[k].shape, sizeof t.in[0].shape);
		t.in[0].free = t.out[0].free = 1;
		for (int d = 0; d < cases[k].rank; d++)
			if (cases[k].summed >> d & 1)
				t.out[0].shape[d] = 1;
		t.samples = t.in[0].batch = t.out[0].batch = !(cases[k].summed & 1) && cases[k].shape[0] < 10;
		optest_twin(&t, &kernel_sum_cuda, 4e-6);
		t.in[0].free = 0;
		optest_twin(&t, &kernel_sum_cuda, 4e-6);
		t.in[0].bcast = 1;
		optest_twin(&t, &kernel_sum_cuda, 4e-6);
	}
}

/* The scratch for the capacity must suffice for every smaller batch. */
static void sums_of_any_batch(void **state)
{
	size_t most = 0;

	(void)state;
	for (int64_t n = 1; n < 300000; n += 1 + n % 1021) {
		struct op_call c = {.nin = 1,
		                    .nout = 1,
		                    .in = {{.rank = 2, .shape = {n, 3}, .stride = {3, 1}, .dtype = DT_F32}},
		                    .out = {{.rank = 2, .shape = {1, 3}, .stride = {3, 1}, .dtype = DT_F32}}};
		size_t need = kernel_sum_cuda.scratch(&c, 1);

		assert_true(need >= most);
		most = need;
	}
}

static void any_batch(void **state)
{
	(void)state;
	sums_alone(&kernel_sum_cuda);
}

static void divides(void **state)
{
	static const uint32_t by[] = {1, 2, 3, 5, 7, 8, 641, 1152, 65535, 65536, 65537, 0x3fffffff, 0x40000000, 0x7ffffffe, 0x7fffffff};

	(void)state;
	for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
		struct divider d = divider_of(by[k]);
		uint32_t rest;

		for (int64_t q = 0; q <= 0x7fffffff / by[k]; q += 1 + q / 3)
			for (int64_t i = q * by[k] - 1; i <= q * by[k] + 1; i++)
				if (i >= 0 && i <= 0x7fffffff) {
					assert_int_equal(divide_rest(d, (uint32_t)i, &rest), i / by[k]);
					assert_int_equal(rest, i % by[k]);
				}
		assert_int_equal(divide(d, 0x7fffffff), 0x7fffffff / by[k]);
		assert_int_equal(divide(d, 0x7ffffffe), 0x7ffffffe / by[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(sums_of_any_batch), cmocka_unit_test(any_batch),
	                                   cmocka_unit_test(divides)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
