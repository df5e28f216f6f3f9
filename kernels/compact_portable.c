/* The product with compact weights on any CPU. A bf16 is the upper half of a float, so it is computed with float products. */
#include "kernels/bf16.h"
#include "kernels/compacttile.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

typedef uint32_t vbits __attribute__((vector_size(VBYTES), may_alias));

enum { MR = VREGS == 32 ? COMPACT_MR : COMPACT_MR / 2, NR = 2 * VLEN };
_Static_assert(COMPACT_NR % NR == 0, "a panel is whole tiles wide");

static void portable_round(void *dst, const void *x, int bf16, int64_t k)
{
	float *restrict to = dst;

	for (int64_t i = 0; bf16 && i < k; i++)
		to[i] = bf16_value(x, 1, i);
	for (int64_t i = 0; !bf16 && i < k; i++)
		to[i] = bf16_value(x, 0, i);
	if (k % 2)
		to[k] = 0;
}

static int64_t portable_row(int64_t pairs)
{
	return pairs * 2 * (int64_t)sizeof(float);
}

static void portable_widen(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs)
{
	for (int64_t p = 0; p < pairs; p++)
		for (int j = 0; j < COMPACT_NR; j++) {
			uint32_t even = (uint32_t)bits_of_float(src[p * 2 * COMPACT_NR + j]);
			uint32_t odd = (uint32_t)bits_of_float(src[(p * 2 + 1) * COMPACT_NR + j]);

			dst[p * COMPACT_NR + j] = even >> 16 | odd;
		}
}

static inline vreal odd_of(const uint32_t *b)
{
	vbits v;

	memcpy(&v, b, sizeof v);
	return (vreal)(v & 0xffff0000);
}

static inline vreal even_of(const uint32_t *b)
{
	vbits v;

	memcpy(&v, b, sizeof v);
	return (vreal)(v << 16);
}

/* sum [m][NR] of m rows of a times a panel; the rows of sum are ld apart. Row i of a begins at a[2 * i * rs], and its pairs are 2 * cs
 * apart. */
static inline __attribute__((always_inline)) void rows_of(float *sum, int64_t ld, const float *a, const uint32_t *b, int64_t pairs, int m, int64_t rs,
                                                          int64_t cs)
{
	vreal lo[MR], hi[MR];

#pragma GCC unroll 12
	for (int i = 0; i < m; i++)
		lo[i] = hi[i] = v_splat(0);
	for (int64_t p = 0; p < pairs; p++, b += COMPACT_NR) {
		vreal b0 = odd_of(b), b1 = odd_of(b + VLEN);

#pragma GCC unroll 12
		for (int i = 0; i < m; i++) {
			vreal s = v_splat(a[(i * rs + p * cs) * 2 + 1]);

			lo[i] = v_fma(s, b0, lo[i]);
			hi[i] = v_fma(s, b1, hi[i]);
		}
		b0 = even_of(b);
		b1 = even_of(b + VLEN);
#pragma GCC unroll 12
		for (int i = 0; i < m; i++) {
			vreal s = v_splat(a[(i * rs + p * cs) * 2]);

			lo[i] = v_fma(s, b0, lo[i]);
			hi[i] = v_fma(s, b1, hi[i]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < m; i++) {
		v_store(sum + i * ld, lo[i]);
		v_store(sum + i * ld + VLEN, hi[i]);
	}
}

#define TILE(m) \
	static __attribute__((noinline)) void rows_##m(float *sum, int64_t ld, const float *a, const uint32_t *b, int64_t pairs) \
	{ \
		rows_of(sum, ld, a, b, pairs, m, pairs, 1); \
	} \
	static __attribute__((noinline)) void across_##m(float *sum, int64_t ld, const float *a, const uint32_t *b, int64_t pairs) \
	{ \
		rows_of(sum, ld, a, b, pairs, m, 1, COMPACT_MR); \
	}
TILE_HEIGHTS(TILE)

static const struct {
	int m;
	void (*rows)(float *sum, int64_t ld, const float *a, const uint32_t *b, int64_t pairs);
	void (*across)(float *sum, int64_t ld, const float *a, const uint32_t *b, int64_t pairs);
} tiles[] = {
#define TILE_ENTRY(m) {m, rows_##m, across_##m},
    TILE_HEIGHTS(TILE_ENTRY)};

/* VDPBF16PS takes subnormal inputs as zero and flushes subnormal results; this sets the same mode. On CPUs other than x86, sums below 2^-126
 * are not flushed, which is the only difference. */
#ifdef __SSE2__

static unsigned flush_begin(void)
{
	unsigned old = _mm_getcsr();

	_mm_setcsr(old | 0x8040);
	return old;
}

static void flush_end(unsigned old)
{
	_mm_setcsr(old);
}

#else

static unsigned flush_begin(void)
{
	return 0;
}

static void flush_end(unsigned old)
{
	(void)old;
}

#endif

/* across: the rows of a lie pair by pair. */
static void multiply(float *sum, int64_t ld, const float *row, const uint32_t *b, int64_t pairs, int64_t m, int across)
{
	unsigned mode = flush_begin();

	for (size_t v = 0; m > 0; v++)
		for (; m >= tiles[v].m; m -= tiles[v].m) {
			for (int64_t j = 0; j < COMPACT_NR; j += NR)
				(across ? tiles[v].across : tiles[v].rows)(sum + j, ld, row, b + j, pairs);
			row += tiles[v].m * (across ? 1 : pairs) * 2;
			sum += tiles[v].m * ld;
		}
	flush_end(mode);
}

static void portable_tile(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m)
{
	multiply(sum, ld, a, b, pairs, m, 0);
}

static void portable_tile_across(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m)
{
	multiply(sum, ld, a, b, pairs, m, 1);
}

static void portable_across(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k)
{
	int64_t step = portable_row((k + 1) / 2), pair = portable_row(COMPACT_MR);

	for (int64_t at = 0; at < k; at += 2)
		for (int64_t i = 0; i < n; i += COMPACT_MR) {
			const void *even = compact_number(a, bf16, at * lda + i);
			float *restrict to = (float *)((char *)dst + i * step + at / 2 * pair);

			for (int64_t v = 0; v < COMPACT_MR && v < n - i; v++) {
				to[2 * v] = bf16_value(even, bf16, v);
				to[2 * v + 1] = at + 1 < k ? bf16_value(even, bf16, lda + v) : 0;
			}
		}
}

static inline __attribute__((always_inline)) void weave(uint32_t *restrict dst, int64_t pitch, const void *restrict even, const void *restrict odd,
                                                        int bf16, int64_t n)
{
	for (int64_t from = 0; from < n; from += COMPACT_NR, dst += pitch)
		for (int64_t j = 0; j < COMPACT_NR; j++)
			dst[j] = from + j < n ? bf16_bits(even, bf16, from + j) >> 16 | (odd ? bf16_bits(odd, bf16, from + j) : 0) : 0;
}

static void portable_weave(uint32_t *dst, int64_t pitch, const void *even, const void *odd, int bf16, int64_t n)
{
	if (bf16)
		weave(dst, pitch, even, odd, 1, n);
	else
		weave(dst, pitch, even, odd, 0, n);
}

static void portable_columns(uint32_t *restrict dst, const void *restrict b, int bf16, int64_t ldb, int64_t n, int64_t k)
{
	if (n < COMPACT_NR)
		memset(dst, 0, (size_t)((k + 1) / 2 * COMPACT_NR) * sizeof *dst);
	for (int64_t j = 0; j < n; j++) {
		const void *x = compact_number(b, bf16, j * ldb);

		for (int64_t i = 0; i + 1 < k; i += 2)
			dst[i / 2 * COMPACT_NR + j] = bf16_bits(x, bf16, i) >> 16 | bf16_bits(x, bf16, i + 1);
		if (k % 2)
			dst[k / 2 * COMPACT_NR + j] = bf16_bits(x, bf16, k - 1) >> 16;
	}
}

extern const struct compact_kernel REAL_NAME(compact_portable);
const struct compact_kernel REAL_NAME(compact_portable) = {.mr = COMPACT_MR,
                                                           .panels = 12,
                                                           .floats = 1,
                                                           .round = portable_round,
                                                           .row = portable_row,
                                                           .widen = portable_widen,
                                                           .tile = portable_tile,
                                                           .across = portable_across,
                                                           .tile_across = portable_tile_across,
                                                           .weave = portable_weave,
                                                           .columns = portable_columns};
