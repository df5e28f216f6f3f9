/* The inner kernels of products with bf16 numbers: AVX-512's, by an emulation of its instructions on any CPU and by the CPU's own where it has them,
 * have the bits of the portable ones. AMX's have those of its order of adding, emulated and by the CPU's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "kernels/compactrun.h"
#include "kernels/vmath.h"

#if defined(__x86_64__)

#include "core/shortfloat.h"
#include "tests/op/amx_order.h"
#include "tests/op/emulate_amx.h"

#define compact_avx512 compact_emulated
#define compact_avx512_widen emulated_avx512_widen
#define compact_avx512_weave emulated_avx512_weave
#define compact_avx512_columns emulated_avx512_columns
#define compact_amx compact_amx_emulated
#define compact_amx_permitted emulated_amx_permitted
#include "kernels/compact_avx512.c"
#include "kernels/compact_amx.c"
#undef compact_avx512
#undef compact_avx512_widen
#undef compact_avx512_weave
#undef compact_avx512_columns
#undef compact_amx
#undef compact_amx_permitted

enum { NR = COMPACT_NR, MR = 64, PAIRS = 25, K = 2 * PAIRS };

/* The kernels to compare with the portable ones. */
static int others(const struct compact_kernel *k[4])
{
	int n = 0;

	k[n++] = &compact_emulated;
	k[n++] = &compact_amx_emulated;
	if (compact_isa() != COMPACT_PORTABLE)
		k[n++] = &compact_avx512;
	if (compact_isa() == COMPACT_AMX)
		k[n++] = &compact_amx;
	return n;
}

/* Numbers of very different sizes, with zeros, infinities, NaN and subnormal ones among them if `hard`. */
static void draw(float *x, int64_t n, uint64_t seed, int hard)
{
	static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 1, 0x807fffff, 0x80000000, 0x7f7fffff, 0x3f808000, 0x3f818000};

	rng_normal(x, (size_t)n, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < n; i++)
		if (hard && i % 7 == 3)
			x[i] = float_of_bits((int32_t)odd[i / 7 % 10]);
		else if (i % 5 == 1)
			x[i] *= 0x1p-20f;
}

static void weaves_alike(void **state)
{
	const struct compact_kernel *k[4];
	float even[NR], odd[NR];
	uint32_t want[NR], got[NR];

	(void)state;
	draw(even, NR, 1, 1);
	draw(odd, NR, 2, 1);
	for (int i = 0, count = others(k); i < count; i++)
		for (int n = 1; n <= NR; n++) {
			memset(want, 0xee, sizeof want);
			memset(got, 0xee, sizeof got);
			compact_portable.weave(want, even, odd, n);
			k[i]->weave(got, even, odd, n);
			assert_memory_equal(got, want, sizeof want);
		}
}

static void widens_alike(void **state)
{
	const struct compact_kernel *k[4];
	int8_t q[K * NR];
	uint32_t want[PAIRS * NR], got[PAIRS * NR];

	(void)state;
	for (int i = 0; i < K * NR; i++)
		q[i] = (int8_t)(i * 37 % 255 - 127);
	for (int i = 0, count = others(k); i < count; i++) {
		compact_portable.widen(want, q, PAIRS);
		k[i]->widen(got, q, PAIRS);
		assert_memory_equal(got, want, sizeof want);
	}
}

static void *room(int64_t bytes)
{
	return mem_try((size_t)bytes, 1, "test", NULL);
}

static void columns_alike(void **state)
{
	const struct compact_kernel *k[4];
	enum { LD = K + 3 };
	float x[NR * LD];
	uint32_t want[PAIRS * NR], got[PAIRS * NR];

	(void)state;
	draw(x, NR * LD, 6, 1);
	for (int i = 0, count = others(k); i < count; i++)
		for (int n = 1; n <= NR; n++)
			for (int deep = K - 19; deep <= K; deep++) {
				memset(want, 0xee, sizeof want);
				memset(got, 0xee, sizeof got);
				compact_portable.columns(want, x, LD, n, deep);
				k[i]->columns(got, x, LD, n, deep);
				assert_memory_equal(got, want, sizeof want);
			}
}

/* sum of m rows of x (m, k) and of x stored transposed, times a panel */
static void multiply(const struct compact_kernel *q, int across, const float *x, int64_t m, int64_t k, const uint32_t *panel, float *sum)
{
	int64_t pairs = (k + 1) / 2, lda = across ? MR : K, step = q->row(pairs), bytes = (MR + q->mr) * step;
	char *rows = room(bytes);

	memset(rows, 0xff, (size_t)bytes);
	if (across)
		q->across(rows, x, lda, m, k);
	else
		for (int64_t i = 0; i < m; i++)
			q->round(rows + i * step, x + i * lda, k);
	if (q->begin)
		q->begin();
	for (int64_t i = 0; i < m; i += q->mr)
		(across ? q->tile_across : q->tile)(sum + i * NR, NR, rows + i * step, panel, pairs, m - i < q->mr ? m - i : q->mr);
	if (q->end)
		q->end();
	mem_free(rows);
}

/* The same in the order of AMX. */
static void multiply_in_order(int across, const float *x, int64_t m, int64_t k, const uint32_t *panel, float *sum)
{
	float rows[MR * K], columns[NR * K];

	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < k; j++)
			rows[i * k + j] = bf16_to_f32(f32_to_bf16(across ? x[j * MR + i] : x[i * K + j]));
	for (int64_t n = 0; n < NR; n++)
		for (int64_t j = 0; j < k; j++)
			columns[n * k + j] = bf16_to_f32((uint16_t)(panel[j / 2 * NR + n] >> 16 * (j % 2)));
	amx_product(sum, NR, rows, columns, m, NR, k, 0);
}

static void tiles_alike(void **state)
{
	const struct compact_kernel *k[4];
	float *x = room(K * MR * 4), *even = room(PAIRS * NR * 4), *odd = room(PAIRS * NR * 4), *want = room(MR * NR * 4),
	      *got = room(2 * MR * NR * 4);
	uint32_t *panel = room(PAIRS * NR * 4);

	(void)state;
	draw(x, K * MR, 3, 0);
	draw(even, PAIRS * NR, 4, 0);
	draw(odd, PAIRS * NR, 5, 0);
	for (int p = 0; p < PAIRS; p++)
		compact_portable.weave(panel + p * NR, even + p * NR, odd + p * NR, NR);
	for (int i = 0, count = others(k); i < count; i++)
		for (int across = 0; across < 2; across++)
			for (int m = 1; m <= MR; m++)
				for (int odd_k = 0; odd_k < 2; odd_k++) {
					if (k[i]->mr == COMPACT_MR_AMX)
						multiply_in_order(across, x, m, K - odd_k, panel, want);
					else
						multiply(&compact_portable, across, x, m, K - odd_k, panel, want);
					multiply(k[i], across, x, m, K - odd_k, panel, got);
					assert_memory_equal(got, want, (size_t)(m * NR) * sizeof *got);
				}
	mem_free(x);
	mem_free(even);
	mem_free(odd);
	mem_free(panel);
	mem_free(want);
	mem_free(got);
}

/* Numbers near 2^-126, infinities and NaN: the tiles do what their emulation does. */
static void tiles_are_emulated(void **state)
{
	float *x = room(K * MR * 4), *y = room(2 * PAIRS * NR * 4), *want = room(MR * NR * 4), *got = room(MR * NR * 4);
	uint32_t *panel = room(PAIRS * NR * 4);
	int zeros = 0, odd = 0;

	(void)state;
	if (compact_isa() != COMPACT_AMX) {
		print_message("skipped: this CPU has no AMX\n");
		goto end;
	}
	for (int turn = 0; turn < 2; turn++) {
		draw(x, K * MR, 7, turn);
		draw(y, 2 * PAIRS * NR, 8, turn);
		for (int i = 0; !turn && i < K * MR; i++)
			x[i] *= 0x1p-64f;
		for (int i = 0; !turn && i < 2 * PAIRS * NR; i++)
			y[i] *= 0x1p-63f;
		for (int p = 0; p < PAIRS; p++)
			compact_portable.weave(panel + p * NR, y + 2 * p * NR, y + (2 * p + 1) * NR, NR);
		multiply(&compact_amx_emulated, 0, x, MR, K, panel, want);
		multiply(&compact_amx, 0, x, MR, K, panel, got);
		for (int i = 0; i < MR * NR; i++) {
			assert_true((isnan(got[i]) && isnan(want[i])) || bits_of_float(got[i]) == bits_of_float(want[i]));
			zeros += got[i] == 0;
			odd += !isfinite(got[i]);
		}
	}
	assert_true(zeros > 0 && odd > 0);
end:
	mem_free(x);
	mem_free(y);
	mem_free(want);
	mem_free(got);
	mem_free(panel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(weaves_alike), cmocka_unit_test(widens_alike), cmocka_unit_test(tiles_alike),
	                                   cmocka_unit_test(columns_alike), cmocka_unit_test(tiles_are_emulated)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif
