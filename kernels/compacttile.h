/* Between the product with compact weights and its instruction sets. */
#ifndef DDM_KERNELS_COMPACTTILE_H
#define DDM_KERNELS_COMPACTTILE_H

#include <stdint.h>

#include "kernels/compact.h"

enum { COMPACT_MR = 12, COMPACT_PAIRS = GEMM_KC / 2 };

struct compact_kernel {
	/* k floats of x rounded to bf16, an odd k followed by zero, as the tile reads them. From one row to the next: GEMM_KC * 4
	 * bytes at most, `row(pairs)` exactly. */
	void (*round)(void *dst, const float *x, int64_t k);
	int64_t (*row)(int64_t pairs);
	/* A panel of int8 as one of bf16. */
	void (*widen)(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs);
	/* sum [m][COMPACT_NR] = the rows at `a` times the panel b [pairs][COMPACT_NR], m in 1..COMPACT_MR */
	void (*tile)(float *sum, const void *a, const uint32_t *b, int64_t pairs, int64_t m);
};

extern const struct compact_kernel compact_portable;
#if defined(__x86_64__)
extern const struct compact_kernel compact_avx512; /* only where the CPU has AVX512-BF16 and AVX512-BW */
#endif

#endif
