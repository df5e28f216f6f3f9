/* What the kernels in AVX-512 have in common. Their files define TARGET, the instructions that a function may use; tests define it, and the
 * instructions, as plain C. */
#ifndef DDM_KERNELS_AVX512_H
#define DDM_KERNELS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

/* Transpose the 16 x 16 numbers of 32 bits in r[16]. */
TARGET static inline void avx512_transpose(__m512i *r)
{
	__m512i t[16];

#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4) {
		r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
		t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
		t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
		t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) {
		r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
		r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
	}
}

/* The first k <= 32 numbers at x, floats or with `bf16` bf16, as bf16 and in order; zeros follow, and no memory after the numbers is read. */
TARGET __attribute__((always_inline)) static inline __m512i avx512_rounded(const void *x, int bf16, int64_t k)
{
	const float *f = x;
	uint32_t mask;

	if (k >= 32)
		return bf16 ? _mm512_loadu_si512(x) : (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(f + 16), _mm512_loadu_ps(f));
	mask = (1u << k) - 1;
	if (bf16)
		return _mm512_maskz_loadu_epi16(mask, x);
	return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps((__mmask16)(mask >> 16), f + 16), _mm512_maskz_loadu_ps((__mmask16)mask, f));
}

/* The first n <= 16 numbers of two rows, floats or with `bf16` bf16, as bf16 in pairs: even[0], odd[0], even[1], ... The rows after the first k <= 2
 * count as zeros. */
TARGET __attribute__((always_inline)) static inline __m512i avx512_paired(const void *even, const void *odd, int bf16, int64_t n, int64_t k)
{
	static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
	                                   8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
	static const uint16_t order_of_two[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
	                                          8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
	__mmask16 mask = (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff), with_even = k > 0 ? mask : 0, with_odd = k > 1 ? mask : 0;

	if (bf16)
		return _mm512_permutex2var_epi16(_mm512_maskz_loadu_epi16(with_even, even), _mm512_loadu_si512(order_of_two),
		                                 _mm512_maskz_loadu_epi16(with_odd, odd));
	return _mm512_permutexvar_epi16(_mm512_loadu_si512(order),
	                                (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(with_odd, odd), _mm512_maskz_loadu_ps(with_even, even)));
}

#endif
