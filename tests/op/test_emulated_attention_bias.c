/* The CUDA kernels of attention with biases and masks, emulated as in test_emulated_attention.c and with its tolerances. */
#include "tests/op/twinattention.h"

/* A bias for each head, query and key, and one that is broadcast over samples, heads or queries. The last numbers say over which. */
static void biased(void **state)
{
	static const int64_t shapes[][7] = {
	    {2, 17, 33, 2, 32, 0, 0},  {1, 70, 40, 2, 64, 1, 2}, {2, 20, 70, 1, 72, 0, 6}, {2, 40, 65, 2, 24, 0, 1},
	    {1, 33, 20, 1, 128, 1, 0}, {2, 7, 5, 2, 300, 0, 0},  {2, 6, 6, 2, 160, 1, 4},  {2, 3, 1, 2, 8, 0, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		const int64_t *n = shapes[k];
		struct optest t = attention_test(n[0], n[1], n[2], n[3], n[4], (int)n[5]);

		t.nin = 4;
		t.in[3] = (struct operand){.rank = 4, .shape = {n[0], n[3], n[1], n[2]}, .bcast = (unsigned)n[6], .scale = 3, .batch = 1};
		optest_twin(&t, &kernel_attention_cuda, 1e-5);
		attention_gradient(&t, 2e-5);
	}
}

static void masked(void **state)
{
	static const int64_t widths[] = {32, 72, 128};

	(void)state;
	for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
		attention_masks(widths[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(biased), cmocka_unit_test(masked)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
