/* SUM, IM2COL and COL2IM of CUDA, run by tests/op/emulate.h, beside the CPU's. A sum's order differs: 32-bit roundings of partial sums of
 * random signs, 4e-6 of the largest as in test_reduce.c. Patches are moved to the bit, and added back in the CPU's order. */
#include "tests/op/alone.h"
#include "tests/op/optest.h"

#include <string.h>

#include "file/safetensors.h"

#define __device__
#include "kernels/divider.h"

extern const struct kernel kernel_sum_cuda, kernel_im2col_cuda, kernel_col2im_cuda;

/* Bit d of `summed`: dimension d is. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned summed;
} cases[] = {
    {1, {1}, 0},           {1, {1}, 1},           {1, {30}, 1},          {1, {140003}, 1},      {1, {140000}, 1},
    {2, {7, 5}, 0},        {2, {7, 5}, 1},        {2, {7, 5}, 2},        {2, {7, 5}, 3},        {2, {300, 136}, 1},
    {2, {3, 9001}, 2},     {2, {3, 9000}, 2},     {3, {3, 70, 600}, 2},  {3, {3, 700, 17}, 2},  {3, {5, 66, 17}, 3},
    {3, {5, 6, 17}, 5},    {3, {4, 600, 9}, 6},   {3, {2, 4, 5000}, 6},  {3, {2, 300, 16}, 2},  {4, {3, 4, 9, 5}, 10},
    {4, {3, 4, 9, 8}, 10}, {4, {3, 4, 9, 5}, 5},  {4, {9, 4, 40, 8}, 5}, {6, {2, 3, 2, 3, 2, 5}, 42}, {6, {2, 3, 2, 3, 2, 5}, 63},
    {2, {131072, 2}, 1},
};

static void sums(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = {.name = "SUM", .op = OP_SUM, .attr.f = {.5}, .nin = 1, .nout = 1};

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

/* Scratch is asked for at capacity and must do for every smaller batch. */
static void sums_of_any_batch(void **state)
{
	size_t most = 0;

	(void)state;
	for (int64_t n = 1; n < 300000; n += 1 + n % 1021) {
		struct op_call c = {.nin = 1, .nout = 1, .in = {{.rank = 2, .shape = {n, 3}, .stride = {3, 1}, .dtype = DT_F32}},
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

static int64_t size_out(int64_t n, const struct op_attr *a)
{
	return (n + 2 * a->i[2] - a->i[0]) / a->i[1] + 1;
}

static void patches(void **state)
{
	static const int64_t shapes[][7] = { /* B C H W k step pad */
	    {2, 3, 6, 7, 3, 1, 1}, {1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 3, 1, 1}, {2, 20, 5, 5, 3, 2, 1}, {1, 2, 9, 8, 5, 3, 2},
	    {3, 4, 8, 8, 2, 2, 0}, {2, 17, 12, 12, 3, 1, 1}, {1, 2, 4, 4, 3, 1, 3}, {1, 2, 5, 5, 1, 2, 2}, {1, 1, 5, 7, 2, 1, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		const int64_t *n = shapes[k];
		struct op_attr attr = {{n[4], n[5], n[6]}, {0}};
		struct operand x = {.rank = 4, .shape = {n[0], n[1], n[2], n[3]}, .dense = 1, .batch = 1};
		struct operand y = {.rank = 3, .shape = {n[0], size_out(n[2], &attr) * size_out(n[3], &attr), n[1] * n[4] * n[4]}, .dense = 1,
		                    .batch = 1};
		struct optest t = {.name = "IM2COL", .op = OP_IM2COL, .attr = attr, .nin = 1, .nout = 1, .in = {x}, .out = {y}, .samples = 1};
		struct optest back = {.name = "COL2IM", .op = OP_COL2IM, .attr = attr, .nin = 1, .nout = 1, .in = {y}, .out = {x}, .samples = 1};

		optest_twin(&t, &kernel_im2col_cuda, 0);
		optest_twin(&back, &kernel_col2im_cuda, 0);
	}
}

/* Patches that do not begin at a whole word of 16 bytes, of float and bfloat16: the same, element by element. */
static void patches_anywhere(void **state)
{
	enum { SIDE = 6, COUNT = SIDE * SIDE * 9 };
	_Alignas(16) float x[SIDE * SIDE], y[2][COUNT + 4];

	(void)state;
	for (int bf16 = 0; bf16 < 2; bf16++) {
		enum dtype t = bf16 ? DT_BF16 : DT_F32;

		for (int i = 0; i < SIDE * SIDE; i++)
			if (bf16)
				((uint16_t *)x)[i] = f32_to_bf16((float)(i + 1));
			else
				x[i] = (float)(i + 1);
		for (int off = 0; off < 2; off++) {
			struct op_call c = {.nin = 1, .nout = 1, .attr = {{3, 1, 1}, {0}},
			                    .in = {{x, t, 4, {1, 1, SIDE, SIDE}, {SIDE * SIDE, SIDE * SIDE, SIDE, 1}}},
			                    .out = {{(char *)y[off] + off * (int)dtype_size(t), t, 3, {1, SIDE * SIDE, 9}, {COUNT, 9, 1}}}};

			optest_call(&kernel_im2col_cuda, &c);
		}
		assert_memory_equal((char *)y[1] + dtype_size(t), y[0], COUNT * dtype_size(t));
	}
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(sums),    cmocka_unit_test(sums_of_any_batch), cmocka_unit_test(any_batch),
	                                   cmocka_unit_test(patches), cmocka_unit_test(patches_anywhere),  cmocka_unit_test(divides)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
