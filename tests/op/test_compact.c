/* Compact weights: rounding against PyTorch and numpy. The product has the bits of the float product of the rounded matrices with the two ks of each
 * pair exchanged, or, for float storage, of the matrices unchanged; on every instruction set of this CPU, for any pool and any position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/shortfloat.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "kernels/vmath.h"
#include "tests/golden/compact_values.h"
#include "tests/op/amx_order.h"

/* 1 if a float product is added without rounding it first. */
#ifdef __FMA__
enum { FUSED = 1 };
#else
enum { FUSED = 0 };
#endif

static float of_bits(uint32_t u)
{
	return float_of_bits((int32_t)u);
}

static void *memory(size_t n, size_t size)
{
	void *p = mem_try(n + !n, size, "test", NULL);

	assert_non_null(p);
	return p;
}

static struct compact compact_of(enum compact_type type, int64_t n, int64_t k, const float *values)
{
	struct compact w;

	if (type == COMPACT_VIEW) {
		compact_view(&w, values, n, k);
		return w;
	}
	assert_int_equal(compact_init(&w, type, n, k, NULL), 0);
	compact_pack(&w, values);
	return w;
}

/* Every instruction set to try: the portable one, then the CPU's own. */
static int sets(enum compact_isa isa[3])
{
	int n = 0;

	isa[n++] = COMPACT_PORTABLE;
	if (compact_isa_pairwise() != COMPACT_PORTABLE)
		isa[n++] = compact_isa_pairwise();
	if (compact_isa() == COMPACT_AMX)
		isa[n++] = COMPACT_AMX;
	return n;
}

static void bf16_is_pytorchs(void **state)
{
	float values[GOLDEN_BF16], back[GOLDEN_BF16], y, one = 1;
	enum compact_isa isa[3];
	struct compact w;
	void *scratch = memory(compact_scratch(NULL, 1), 1);

	(void)state;
	for (int i = 0; i < GOLDEN_BF16; i++)
		values[i] = of_bits(golden_float[i]);
	for (int wide = 0; wide < 2; wide++) { /* as a column, then as a row of W */
		w = compact_of(COMPACT_BF16, wide ? 1 : GOLDEN_BF16, wide ? GOLDEN_BF16 : 1, values);
		compact_unpack(&w, back);
		for (int i = 0; i < GOLDEN_BF16; i++)
			assert_int_equal((uint32_t)bits_of_float(back[i]), (uint32_t)golden_bf16[i] << 16);
		compact_release(&w);
	}
	w = compact_of(COMPACT_BF16, 1, 1, &one);
	for (int s = 0, n = sets(isa); s < n; s++)
		for (int i = 0; i < GOLDEN_BF16; i++) {
			compact_run(NULL, isa[s], &w, 1, &y, 1, values + i, 1, NULL, scratch);
			assert_true(y == of_bits((uint32_t)golden_bf16[i] << 16));
		}
	compact_release(&w);
	mem_free(scratch);
}

static void int8_is_numpys(void **state)
{
	float values[GOLDEN_ROWS * GOLDEN_COLUMNS], back[GOLDEN_ROWS * GOLDEN_COLUMNS];
	struct compact w;

	(void)state;
	for (int i = 0; i < GOLDEN_ROWS * GOLDEN_COLUMNS; i++)
		values[i] = of_bits(golden_matrix[i]);
	w = compact_of(COMPACT_INT8, GOLDEN_ROWS, GOLDEN_COLUMNS, values);
	compact_unpack(&w, back);
	for (int r = 0; r < GOLDEN_ROWS; r++) {
		assert_true(w.scale[r] == of_bits(golden_scale[r]));
		for (int k = 0; k < GOLDEN_COLUMNS; k++)
			assert_true(back[r * GOLDEN_COLUMNS + k] == (float)golden_int8[r * GOLDEN_COLUMNS + k] * w.scale[r]);
	}
	assert_int_equal(compact_bytes(&w), 32 * 14 + 32 * 4);
	compact_release(&w);
	w = compact_of(COMPACT_BF16, GOLDEN_ROWS, GOLDEN_COLUMNS, values);
	assert_int_equal(compact_bytes(&w), 32 * 14 * 2);
	compact_release(&w);
}

static float wave(int64_t i, float size)
{
	return size * (float)sin(1.7 * (double)i + .3 * (double)(i % 7));
}

/* A copy (rows, `even`) of a matrix (rows, k) with row stride ld: rounded, and with the ks of each pair exchanged, or in order. */
static float *rounded(const float *x, int64_t rows, int64_t k, int64_t ld, int64_t even, int in_order, float *scale)
{
	float *out = memory((size_t)(rows * even), sizeof *out);

	for (int64_t r = 0; r < rows; r++) {
		float most = 0;

		for (int64_t i = 0; i < k; i++)
			most = fmaxf(most, fabsf(x[r * ld + i]));
		if (scale)
			scale[r] = most / 127;
		for (int64_t i = 0; i < k; i++)
			out[r * even + (in_order ? i : i ^ 1)] = scale ? rintf(x[r * ld + i] / scale[r]) : bf16_to_f32(f32_to_bf16(x[r * ld + i]));
	}
	return out;
}

struct shape {
	int64_t m, n, k;
};

/* A dense copy of a matrix (rows, k) with row stride ld. */
static float *dense(const float *x, int64_t rows, int64_t k, int64_t ld)
{
	float *out = memory((size_t)(rows * k), sizeof *out);

	for (int64_t r = 0; r < rows; r++)
		memcpy(out + r * k, x + r * ld, (size_t)k * sizeof *out);
	return out;
}

/* y (m, n) from gemm_run_f32, which sums over k in order, or in the order of AMX. */
static float *expected(const struct shape *s, enum compact_type type, enum compact_isa isa, const float *x, int64_t lda, const float *w,
                       const float *bias, enum gemm_act act)
{
	int floats = type == COMPACT_F32 || type == COMPACT_VIEW, amx = isa == COMPACT_AMX && !floats;
	int64_t even = floats || amx ? s->k : (s->k + 1) / 2 * 2;
	struct gemm g = {.tb = GEMM_T, .m = s->m, .n = s->n, .k = even, .lda = even, .ldb = even, .ldc = s->n};
	float *scale = type == COMPACT_INT8 ? memory((size_t)s->n, sizeof *scale) : NULL;
	float *a = floats ? dense(x, s->m, s->k, lda) : rounded(x, s->m, s->k, lda, even, amx, NULL);
	float *b = floats ? dense(w, s->n, s->k, s->k) : rounded(w, s->n, s->k, s->k, even, amx, scale);
	float *y = memory((size_t)(s->m * s->n), sizeof *y);
	void *scratch = memory(gemm_scratch_f32(&g, 1), 1);

	if (amx)
		amx_product(y, s->n, a, b, s->m, s->n, s->k, 0);
	else
		gemm_run_f32(NULL, &g, y, a, b, NULL, scratch);
	for (int64_t i = 0; i < s->m * s->n; i++) {
		float z = scale ? y[i] * scale[i % s->n] : y[i];

		z = bias ? z + bias[i % s->n] : z;
		y[i] = act == GEMM_SILU ? real_silu(z) : act == GEMM_GELU ? real_gelu(z) : z;
	}
	mem_free(a);
	mem_free(b);
	mem_free(scale);
	mem_free(scratch);
	return y;
}

static void check_product(const struct shape *s, enum compact_type type, int threads, enum compact_isa isa, enum gemm_act act)
{
	struct pool *p = threads ? pool_new(threads, NULL) : NULL;
	int64_t lda = s->k + threads % 3, ldc = s->n + 1;
	float *x = memory((size_t)(s->m * lda), sizeof *x), *w = memory((size_t)(s->n * s->k), sizeof *w);
	float *bias = memory((size_t)s->n, sizeof *bias), *y = memory((size_t)(s->m * ldc), sizeof *y), *want;
	struct gemm_epilogue_f32 ep = {.bias = act == GEMM_SILU ? NULL : bias, .act = act};
	struct compact c;
	unsigned char *scratch;
	size_t bytes;

	for (int64_t i = 0; i < s->m * lda; i++)
		x[i] = i % lda < s->k ? wave(i / lda * s->k + i % lda, 1) : NAN;
	for (int64_t i = 0; i < s->n * s->k; i++)
		w[i] = wave(3 * i + 1, .3f);
	for (int64_t i = 0; i < s->n; i++)
		bias[i] = wave(5 * i, 1);
	memset(y, 0xff, (size_t)(s->m * ldc) * sizeof *y);
	c = compact_of(type, s->n, s->k, w);
	bytes = compact_scratch(&c, pool_threads(p));
	scratch = memory(bytes + 64, 1);
	memset(scratch, 0xff, bytes);
	compact_run(p, isa, &c, s->m, y, ldc, x, lda, act == GEMM_LINEAR && threads == 2 ? NULL : &ep, scratch);
	want = expected(s, type, isa, x, lda, w, act == GEMM_LINEAR && threads == 2 ? NULL : ep.bias, act);
	for (int64_t r = 0; r < s->m; r++) {
		assert_memory_equal(y + r * ldc, want + r * s->n, (size_t)s->n * sizeof *y);
		assert_true(isnan(y[r * ldc + s->n]));
	}
	for (int i = 0; i < 64; i++)
		assert_int_equal(scratch[bytes + (size_t)i], 0);
	compact_release(&c);
	mem_free(x);
	mem_free(w);
	mem_free(bias);
	mem_free(y);
	mem_free(want);
	mem_free(scratch);
	pool_free(p);
}

/* Sizes: one, odd numbers, edges of tiles, panels and chunks, the rows of a task and one more. */
static void bits_of_the_float_product(void **state)
{
	static const struct shape shape[] = {{1, 1, 1},    {3, 1, 2},     {2, 37, 5},    {12, 32, 64},   {13, 33, 383},
	                                     {7, 96, 384}, {25, 31, 385}, {193, 65, 33}, {64, 400, 770}, {211, 5, 1153}};
	enum compact_isa isa[3];
	int n = sets(isa);

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		for (enum compact_type type = COMPACT_BF16; type <= COMPACT_VIEW; type++)
			for (int s = 0; s < n; s++) {
				check_product(&shape[i], type, 0, isa[s], GEMM_GELU);
				check_product(&shape[i], type, 1, isa[s], GEMM_SILU);
				check_product(&shape[i], type, 2, isa[s], GEMM_LINEAR);
				check_product(&shape[i], type, 5, isa[s], GEMM_LINEAR);
			}
}

/* Products and sums near 2^-126: the instruction sets still agree. Overflow and NaN stay in their rows. */
static void extremes(void **state)
{
	enum { M = 30, N = 40, K = 50 };
	float x[M * K], w[N * K], stored[N * K], y[3][M * N];
	struct compact c;
	enum compact_isa isa[3];
	void *scratch = memory(compact_scratch(NULL, 1), 1);
	int zeros = 0, small = 0;

	(void)state;
	for (int i = 0; i < M * K; i++)
		x[i] = wave(i, i / K % 2 ? 2e-19f : 2e-38f);
	for (int i = 0; i < N * K; i++)
		w[i] = wave(7 * i, 2e-19f);
	c = compact_of(COMPACT_BF16, N, K, w);
	for (int s = 0, n = sets(isa); s < n; s++)
		compact_run(NULL, isa[s], &c, M, y[s], N, x, K, NULL, scratch);
#if defined(__x86_64__)
	for (int s = 1; s < sets(isa); s++)
		for (int i = 0; i < M * N; i++)
			assert_true(fabsf(y[0][i] - y[s][i]) <= (FUSED && isa[s] != COMPACT_AMX ? 0 : K * 0x1p-126f));
	for (int i = 0; i < M * N; i++) {
		zeros += y[0][i] == 0;
		small += y[0][i] != 0 && fabsf(y[0][i]) < 0x1p-122f;
	}
	assert_true(zeros >= M * N / 2 && small > M);
#endif
	for (int i = 0; i < M * K; i++)
		x[i] = i / K == 3 ? 3e38f : 1;
	x[5 * K + 7] = NAN;
	x[9 * K + 1] = INFINITY;
	for (int s = 0, n = sets(isa); s < n; s++) {
		compact_run(NULL, isa[s], &c, M, y[s], N, x, K, NULL, scratch);
		for (int i = 0; i < M * N; i++)
			assert_int_equal(i / N == 5   ? isnan(y[s][i])
			                 : i / N == 9 ? !isfinite(y[s][i])
			                              : !isfinite(y[s][i]),
			                 i / N == 5 || i / N == 9);
	}
	compact_release(&c);
	w[2 * K + 3] = INFINITY;
	w[4 * K] = NAN;
	for (int i = 0; i < K; i++) /* a scale below 2^-149 x 127 */
		w[6 * K + i] = i % 2 ? 1e-45f : 190e-45f;
	for (enum compact_type type = COMPACT_BF16; type <= COMPACT_F32; type++) {
		c = compact_of(type, N, K, w);
		compact_unpack(&c, stored);
		assert_true(type == COMPACT_F32 ? !memcmp(stored + 5 * K, w + 5 * K, 2 * K * sizeof *w) : type == COMPACT_BF16 || stored[6 * K] > 0);
		compact_run(NULL, isa[0], &c, 1, y[0], N, x, K, NULL, scratch);
		for (int j = 0; j < N; j++)
			assert_int_equal(!isfinite(y[0][j]), j == 2 || j == 4);
		compact_release(&c);
	}
	mem_free(scratch);
}

/* Through the device: rows of a wider array, and an activation that is not fused. */
static void as_an_op(void **state)
{
	enum { B = 2, T = 3, N = 35, K = 9, GAP = 4 };
	float x[B * T * (K + GAP)], w[N * K], bias[N], y[B * T * N], *want;
	struct compact c;
	struct device *d = device_cpu(NULL, DT_F32);
	const struct kernel *k = d->kernel[OP_LINEAR];
	struct op_call call = {.nin = 3, .nout = 2, .attr = {.linear = {1 + UNARY_TANH}}};

	(void)state;
	for (int i = 0; i < B * T * (K + GAP); i++)
		x[i] = i % (K + GAP) < K ? wave(i, 1) : NAN;
	for (int i = 0; i < N * K; i++)
		w[i] = wave(2 * i, .3f);
	for (int i = 0; i < N; i++)
		bias[i] = wave(11 * i, 1);
	c = compact_of(COMPACT_INT8, N, K, w);
	call.in[0] = (struct array){x, DT_F32, 3, {B, T, K}, {T * (K + GAP), K + GAP, 1}};
	call.in[1] = (struct array){&c, DT_COMPACT, 2, {N, K}, {K, 1}};
	call.in[2] = (struct array){bias, DT_F32, 1, {N}, {1}};
	call.out[0] = (struct array){y, DT_F32, 3, {B, T, N}, {T * N, N, 1}};
	call.scratch = memory(k->scratch(&call, 1), 1);
	k->run(&call);
	want = expected(&(struct shape){B * T, N, K}, COMPACT_INT8, compact_isa(), x, K + GAP, w, bias, GEMM_LINEAR);
	for (int i = 0; i < B * T * N; i++)
		assert_true(y[i] == real_tanh(want[i]));
	mem_free(want);
	mem_free(call.scratch);
	compact_release(&c);
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bf16_is_pytorchs), cmocka_unit_test(int8_is_numpys), cmocka_unit_test(bits_of_the_float_product),
	    cmocka_unit_test(extremes),         cmocka_unit_test(as_an_op),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
