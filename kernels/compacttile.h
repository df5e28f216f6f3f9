/* The inner kernels of the product with compact weights (kernels/compact.c), one table per instruction set. */
#ifndef DDM_KERNELS_COMPACTTILE_H
#define DDM_KERNELS_COMPACTTILE_H

#include <stdint.h>

#include "kernels/compact.h"

enum { COMPACT_MR = 12, COMPACT_PAIRS = GEMM_KC / 2 };

struct compact_kernel {
	/* Round k floats of x to bf16 in the tile's layout; an odd k is followed by zero. row(pairs) is the size of such a row in bytes, at most
	 * GEMM_KC * 4. */
	void (*round)(void *dst, const float *x, int64_t k);
	int64_t (*row)(int64_t pairs);
	/* Convert a panel of int8 to bf16. */
	void (*widen)(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs);
	/* sum [m][COMPACT_NR] = the rows at `a` times the panel b [pairs][COMPACT_NR], m in 1..COMPACT_MR */
	void (*tile)(float *sum, const void *a, const uint32_t *b, int64_t pairs, int64_t m);
	/* For op(A) whose A is stored transposed: `across` rounds n <= COMPACT_MR numbers of two rows of A to pairs, which take row(COMPACT_MR) bytes;
	 * `tile_across` is `tile` for rows that are stored so, pair by pair. */
	void (*across)(void *dst, const float *even, const float *odd, int64_t n);
	void (*tile_across)(float *sum, const void *a, const uint32_t *b, int64_t pairs, int64_t m);
	/* Round n <= COMPACT_NR numbers of two rows of B, the first of which has the even k, to pairs of a panel. */
	void (*weave)(uint32_t *dst, const float *even, const float *odd, int64_t n);
};

extern const struct compact_kernel compact_portable;
#if defined(__x86_64__)
extern const struct compact_kernel compact_avx512; /* only where the CPU has AVX512-BF16 and AVX512-BW */
#endif

#endif
