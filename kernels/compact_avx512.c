/* The product with compact weights by AVX512-BF16 instructions. Builds for older CPUs include it too; compact_isa() checks the CPU. */
#include "kernels/compacttile.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#ifndef TARGET /* tests/op/test_compact_kernels.c emulates the instructions */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

#include "kernels/avx512.h"

TARGET static void avx512_round(void *dst, const void *x, int bf16, int64_t k)
{
	int64_t whole = k / 32 * 32;

	if (bf16)
		memcpy(dst, x, (size_t)(whole * 2));
	for (int64_t i = 0; !bf16 && i < whole; i += 32)
		_mm512_storeu_si512((uint16_t *)dst + i, avx512_rounded((const float *)x + i, 0, 32));
	if (whole < k)
		_mm512_mask_storeu_epi32((uint16_t *)dst + whole, (__mmask16)((1u << (k - whole + 1) / 2) - 1),
		                         avx512_rounded(compact_number(x, bf16, whole), bf16, k - whole));
}

static int64_t avx512_row(int64_t pairs)
{
	return pairs * 4;
}

TARGET static inline __m512i bf16_bits(const int8_t *q)
{
	return (__m512i)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)q)));
}

TARGET void compact_avx512_widen(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs)
{
	for (int64_t p = 0; p < pairs; p++)
		for (int half = 0; half < 2; half++) {
			const int8_t *even = src + p * 2 * COMPACT_NR + 16 * half;
			__m512i lo = _mm512_srli_epi32(bf16_bits(even), 16), hi = bf16_bits(even + COMPACT_NR);

			_mm512_storeu_si512(dst + p * COMPACT_NR + 16 * half, _mm512_mask_blend_epi16(0xaaaaaaaa, lo, hi));
		}
}

/* Where a tile stores its product: c (m, COMPACT_NR) = product [+ c, with `add`] [+ bias]. */
struct into {
	float *c;
	int64_t ldc;
	const float *bias; /* [COMPACT_NR] or NULL */
	int add;
};

/* Row i of a begins at a[i * rs], and its pairs are cs apart. */
TARGET __attribute__((always_inline)) static inline void rows_of(const struct into *to, const uint32_t *a, const uint32_t *b, int64_t pairs, int m,
                                                                 int64_t rs, int64_t cs)
{
	__m512 lo[COMPACT_MR], hi[COMPACT_MR];
	float *c = to->c;
	int64_t ldc = to->ldc;

#pragma GCC unroll 12
	for (int i = 0; i < m; i++)
		lo[i] = hi[i] = _mm512_setzero_ps();
	for (int64_t p = 0; p < pairs; p++) {
		__m512bh b0 = (__m512bh)_mm512_loadu_si512(b + p * COMPACT_NR);
		__m512bh b1 = (__m512bh)_mm512_loadu_si512(b + p * COMPACT_NR + 16);

#pragma GCC unroll 12
		for (int i = 0; i < m; i++) {
			__m512bh s = (__m512bh)_mm512_set1_epi32((int)a[i * rs + p * cs]);

			lo[i] = _mm512_dpbf16_ps(lo[i], s, b0);
			hi[i] = _mm512_dpbf16_ps(hi[i], s, b1);
		}
	}
	if (to->add)
#pragma GCC unroll 12
		for (int i = 0; i < m; i++) {
			lo[i] = _mm512_add_ps(lo[i], _mm512_loadu_ps(c + i * ldc));
			hi[i] = _mm512_add_ps(hi[i], _mm512_loadu_ps(c + i * ldc + 16));
		}
	if (to->bias)
#pragma GCC unroll 12
		for (int i = 0; i < m; i++) {
			lo[i] = _mm512_add_ps(lo[i], _mm512_loadu_ps(to->bias));
			hi[i] = _mm512_add_ps(hi[i], _mm512_loadu_ps(to->bias + 16));
		}
#pragma GCC unroll 12
	for (int i = 0; i < m; i++) {
		_mm512_storeu_ps(c + i * ldc, lo[i]);
		_mm512_storeu_ps(c + i * ldc + 16, hi[i]);
	}
}

#define ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define TILE(m) \
	TARGET static void rows_##m(const struct into *to, const uint32_t *a, const uint32_t *b, int64_t pairs) \
	{ \
		rows_of(to, a, b, pairs, m, pairs, 1); \
	} \
	TARGET static void across_##m(const struct into *to, const uint32_t *a, const uint32_t *b, int64_t pairs) \
	{ \
		rows_of(to, a, b, pairs, m, 1, COMPACT_MR); \
	}
ROWS(TILE)

static void avx512_tile_into(float *c, int64_t ldc, const void *a, const uint32_t *b, int64_t pairs, int64_t m, int across, int add,
                             const float *bias)
{
#define NAMES(m) {rows_##m, across_##m},
	static void (*const tiles[][2])(const struct into *, const uint32_t *, const uint32_t *, int64_t) = {ROWS(NAMES)};
#undef NAMES

	tiles[m - 1][across](&(struct into){c, ldc, bias, add}, a, b, pairs);
}

static void avx512_tile(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m)
{
	avx512_tile_into(sum, ld, a, b, pairs, m, 0, 0, NULL);
}

static void avx512_tile_across(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m)
{
	avx512_tile_into(sum, ld, a, b, pairs, m, 1, 0, NULL);
}

TARGET __attribute__((always_inline)) static inline void weave(uint32_t *dst, int64_t pitch, const void *even, const void *odd, int bf16, int64_t n)
{
	int64_t rows = odd ? 2 : 1, from = 0;

	odd = odd ? odd : even;
	for (; from + COMPACT_NR <= n; from += COMPACT_NR, dst += pitch)
		for (int j = 0; j < COMPACT_NR; j += 16)
			_mm512_storeu_si512(dst + j,
			                    avx512_paired(compact_number(even, bf16, from + j), compact_number(odd, bf16, from + j), bf16, 16, rows));
	for (int j = 0; from < n && j < COMPACT_NR; j += 16)
		_mm512_storeu_si512(dst + j, avx512_paired(compact_number(even, bf16, from + j), compact_number(odd, bf16, from + j), bf16,
		                                           n - from > j ? n - from - j : 0, rows));
}

TARGET void compact_avx512_weave(uint32_t *dst, int64_t pitch, const void *even, const void *odd, int bf16, int64_t n)
{
	if (bf16)
		weave(dst, pitch, even, odd, 1, n);
	else
		weave(dst, pitch, even, odd, 0, n);
}

enum {
	SOON_ROWS = 8,        /* rows by which an operand is prefetched whose rows are read in pieces, which the processor does not foresee */
	SOON_COLUMNS = 96,    /* the same, in columns */
	WIDE = 4 * COMPACT_MR /* columns of three vectors */
};

/* Store the pairs of WIDE columns as four groups of COMPACT_MR, `step` bytes apart. */
TARGET __attribute__((always_inline)) static inline void store_groups(char *dst, int64_t step, const void *even, const void *odd, int bf16, int64_t k)
{
	__m512i a = avx512_paired(even, odd, bf16, 16, k);
	__m512i b = avx512_paired(compact_number(even, bf16, 16), compact_number(odd, bf16, 16), bf16, 16, k);
	__m512i c = avx512_paired(compact_number(even, bf16, 32), compact_number(odd, bf16, 32), bf16, 16, k);
	const __mmask16 group = (1 << COMPACT_MR) - 1;

	_mm512_mask_storeu_epi32(dst, group, a);
	_mm512_mask_storeu_epi32(dst + step, group, _mm512_alignr_epi32(b, a, 12));
	_mm512_mask_storeu_epi32(dst + 2 * step, group, _mm512_alignr_epi32(c, b, 8));
	_mm512_mask_storeu_epi32(dst + 3 * step, group, _mm512_alignr_epi32(c, c, 4));
}

TARGET __attribute__((always_inline)) static inline void across(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k)
{
	int64_t step = avx512_row((k + 1) / 2) * COMPACT_MR;

	for (int64_t at = 0; at < k; at += 2) {
		char *to = (char *)dst + avx512_row(at / 2 * COMPACT_MR);
		const void *even = compact_number(a, bf16, at * lda), *odd = compact_number(even, bf16, lda);
		int64_t i = 0;

		for (; i + WIDE <= n; i += WIDE, to += 4 * step) {
			for (int64_t v = i; v < i + WIDE; v += 16) {
				__builtin_prefetch(compact_number(even, bf16, SOON_ROWS * lda + v));
				__builtin_prefetch(compact_number(odd, bf16, SOON_ROWS * lda + v));
			}
			store_groups(to, step, compact_number(even, bf16, i), compact_number(odd, bf16, i), bf16, k - at);
		}
		for (; i < n; i += COMPACT_MR, to += step) {
			int64_t rows = n - i < COMPACT_MR ? n - i : COMPACT_MR;

			_mm512_mask_storeu_epi32(to, (__mmask16)((1u << rows) - 1),
			                         avx512_paired(compact_number(even, bf16, i), compact_number(odd, bf16, i), bf16, rows, k - at));
		}
	}
}

TARGET static void avx512_across(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k)
{
	if (bf16)
		across(dst, a, 1, lda, n, k);
	else
		across(dst, a, 0, lda, n, k);
}

TARGET __attribute__((always_inline)) static inline void columns(uint32_t *dst, const void *b, int bf16, int64_t ldb, int64_t n, int64_t k)
{
	for (int64_t at = 0; at < k; at += 32)
		for (int64_t j = 0; j < COMPACT_NR; j += 16) {
			int64_t rows = (k - at + 1) / 2;
			__m512i r[16];

			for (int i = 0; i < 16; i++) {
				const void *x = compact_number(b, bf16, (j + i) * ldb + at);

				__builtin_prefetch(compact_number(x, bf16, SOON_COLUMNS));
				__builtin_prefetch(compact_number(x, bf16, SOON_COLUMNS + 16));
				r[i] = avx512_rounded(x, bf16, j + i < n ? k - at : 0);
			}
			avx512_transpose(r);
			for (int i = 0; i < 16 && i < rows; i++)
				_mm512_storeu_si512(dst + (at / 2 + i) * COMPACT_NR + j, r[i]);
		}
}

TARGET void compact_avx512_columns(uint32_t *dst, const void *b, int bf16, int64_t ldb, int64_t n, int64_t k)
{
	if (bf16)
		columns(dst, b, 1, ldb, n, k);
	else
		columns(dst, b, 0, ldb, n, k);
}

const struct compact_kernel compact_avx512 = {.mr = COMPACT_MR,
                                              .round = avx512_round,
                                              .row = avx512_row,
                                              .widen = compact_avx512_widen,
                                              .tile = avx512_tile,
                                              .tile_into = avx512_tile_into,
                                              .across = avx512_across,
                                              .tile_across = avx512_tile_across,
                                              .weave = compact_avx512_weave,
                                              .columns = compact_avx512_columns};

#endif
