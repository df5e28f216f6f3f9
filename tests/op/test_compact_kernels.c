/* The inner kernels of products with bf16 numbers: AVX-512's, by an emulation of its instructions on any CPU and by the CPU's own where it has them,
 * have the bits of the portable ones. */
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

#include "tests/op/emulate_avx512.h"

#define compact_avx512 compact_emulated
#include "kernels/compact_avx512.c"
#undef compact_avx512

enum { NR = COMPACT_NR, MR = COMPACT_MR, PAIRS = 25, K = 2 * PAIRS };

/* The kernels to compare with the portable ones. */
static int others(const struct compact_kernel *k[2])
{
	k[0] = &compact_emulated;
	k[1] = compact_kernel_of(compact_isa());
	return k[1] == &compact_portable ? 1 : 2;
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
	const struct compact_kernel *k[2];
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
	const struct compact_kernel *k[2];
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

/* sum of m rows of x (m, k) and of x stored transposed, times a panel */
static void multiply(const struct compact_kernel *q, int across, const float *x, int64_t m, int64_t k, const uint32_t *panel, float *sum)
{
	int64_t pairs = (k + 1) / 2, lda = across ? MR : K;
	static const float zero[MR];
	char *rows = room(MR * q->row(pairs) + q->row(MR) * pairs);

	if (across)
		for (int64_t p = 0; p < pairs; p++)
			q->across(rows + p * q->row(MR), x + 2 * p * lda, 2 * p + 1 < k ? x + (2 * p + 1) * lda : zero, m);
	else
		for (int64_t i = 0; i < m; i++)
			q->round(rows + i * q->row(pairs), x + i * lda, k);
	(across ? q->tile_across : q->tile)(sum, rows, panel, pairs, m);
	mem_free(rows);
}

static void tiles_alike(void **state)
{
	const struct compact_kernel *k[2];
	float *x = room(K * MR * 4), *even = room(PAIRS * NR * 4), *odd = room(PAIRS * NR * 4), *want = room(MR * NR * 4), *got = room(MR * NR * 4);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(weaves_alike), cmocka_unit_test(widens_alike), cmocka_unit_test(tiles_alike)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif
