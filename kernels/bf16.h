/* Rounding floats to bf16 as products of bf16 numbers round them (the instruction VCVTNEPS2BF16): to nearest even, NaN stays NaN, subnormal values
 * become zero. core/shortfloat.h has the rounding of files, which keeps subnormal values. */
#ifndef DDM_KERNELS_BF16_H
#define DDM_KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

/* The bits of a float, rounded, as those of a float. */
static inline uint32_t bf16_round(uint32_t u)
{
	uint32_t r = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000, mag = u & 0x7fffffff;

	r = mag > 0x7f800000 ? (u | 0x400000) & 0xffff0000 : r;
	return mag < 0x800000 ? u & 0x80000000 : r;
}

/* Number i of x, a float or with `bf16` a bf16, rounded: its bits as those of a float, and its value. */
static inline uint32_t bf16_bits(const void *x, int bf16, int64_t i)
{
	uint32_t u;

	if (bf16)
		return (uint32_t)((const uint16_t *)x)[i] << 16;
	memcpy(&u, (const float *)x + i, sizeof u);
	return bf16_round(u);
}

static inline float bf16_value(const void *x, int bf16, int64_t i)
{
	uint32_t u = bf16_bits(x, bf16, i);
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/* Round n floats to n bf16 numbers. Inlined for a constant n. */
static inline __attribute__((always_inline)) void bf16_store(uint16_t *restrict dst, const float *restrict x, int64_t n)
{
	int64_t i = 0;

#ifdef __AVX512BF16__
	for (; i + 32 <= n; i += 32)
		_mm512_storeu_si512(dst + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i)));
#endif
	for (; i < n; i++) {
		uint32_t u;

		memcpy(&u, x + i, sizeof u);
		dst[i] = (uint16_t)(bf16_round(u) >> 16);
	}
}

#endif
