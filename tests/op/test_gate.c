/* GATE and GATE_GRAD. Float: the sum and the product are rounded once each; dg is a sum of up to 64 rows in order, 1e-5. */
#include "tests/op/optest.h"

#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"

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

/* dh in bf16 is dh in float, rounded once, and dg does not change: for a gate of each element, of each sample, and of each token. */
static void gradient_in_bf16_is_rounded(void **state)
{
	enum { SAMPLES = 2, TOKENS = 5, MOST = 70, N = SAMPLES * TOKENS * MOST };
	struct device *d = device_cpu(NULL, DT_F32);
	float dy[N], g[N], h[N], dh[N], dg[N], same_dg[N];
	uint16_t rounded[N];

	(void)state;
	rng_normal(dy, N, 1, RNG_TEST, 0, 0);
	rng_normal(g, N, 2, RNG_TEST, 0, 0);
	rng_normal(h, N, 3, RNG_TEST, 0, 0);
	for (int64_t n = 1; n <= MOST; n += n < 30 ? 13 : 1)
		for (int how = 0; how < 3; how++) {
			struct array x = {dy, DT_F32, 3, {SAMPLES, TOKENS, n}, {TOKENS * n, n, 1}}, gate = x, sum = x;
			struct op_call c = {.nin = 3, .nout = 2};
			char *scratch;

			if (how) { /* broadcast over tokens, or over a row */
				gate.stride[how] = 0;
				sum.shape[how] = 1;
			}
			sum.stride[1] = sum.shape[2];
			sum.stride[0] = sum.shape[1] * sum.shape[2];
			gate.data = g;
			c.in[0] = c.in[2] = c.out[0] = x;
			c.in[1] = gate;
			c.in[2].data = h;
			c.out[0].data = dh;
			c.out[1] = sum;
			c.out[1].data = dg;
			scratch = mem_try(device_scratch(d, OP_GATE_GRAD, &c) + 1, 1, "test", NULL);
			device_run(d, OP_GATE_GRAD, &c, scratch);
			c.out[0].data = rounded;
			c.out[0].dtype = DT_BF16;
			c.out[1].data = same_dg;
			memset(rounded, 0xff, sizeof rounded);
			device_run(d, OP_GATE_GRAD, &c, scratch);
			for (int64_t i = 0; i < SAMPLES * TOKENS * n; i++)
				assert_int_equal(rounded[i], f32_to_bf16(dh[i]));
			for (int64_t i = SAMPLES * TOKENS * n; i < N; i++)
				assert_int_equal(rounded[i], 0xffff);
			assert_memory_equal(dg, same_dg, (size_t)(sum.shape[0] * sum.stride[0]) * sizeof *dg);
			mem_free(scratch);
		}
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_gradients), cmocka_unit_test(gradient_in_bf16_is_rounded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
