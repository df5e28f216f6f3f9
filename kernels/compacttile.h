/* The inner kernels of the product with compact weights (kernels/compact.c), one table per instruction set. */
#ifndef DDM_KERNELS_COMPACTTILE_H
#define DDM_KERNELS_COMPACTTILE_H

#include <stdint.h>

#include "kernels/compact.h"

enum {
	COMPACT_MR = 12,     /* rows of a tile of the AVX-512 and the portable kernel */
	COMPACT_MR_AMX = 32, /* of AMX's */
	COMPACT_DEEP = 16,   /* pairs of ks in a tile of AMX */
	COMPACT_PAIRS = GEMM_KC / 2
};

struct compact_kernel {
	int mr;     /* rows of a tile */
	int panels; /* of a task, at most; 0: any number. Each task rounds its rows of op(A), so few panels would be slow. */
	/* Called by a thread before and after it uses `tile`; NULL: nothing to do. */
	void (*begin)(void);
	void (*end)(void);
	int floats; /* rows from `round` hold floats that are rounded, not bf16 */
	/* Round k numbers of x to bf16 as `tile` reads them: in order; an odd k is followed by zero. row(pairs) is the size of such a row in bytes,
	 * at most GEMM_KC * 4 for a chunk. x, here, and A and B, below, hold floats, or with `bf16` numbers that are rounded already. */
	void (*round)(void *dst, const void *x, int bf16, int64_t k);
	int64_t (*row)(int64_t pairs);
	/* Convert a panel of int8 to bf16. */
	void (*widen)(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs);
	/* sum (m, COMPACT_NR), row stride ld, = the rows at `a` times the panel b [pairs][COMPACT_NR], m in 1..mr. `a` and `sum` have memory for mr
	 * rows; what `sum` holds in rows from m on is undefined. */
	void (*tile)(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m);
	/* As `tile`, for rows from `round` and from `across`; with `add`, the product is added to what `sum` holds. Calls beside(arg) after each
	 * COMPACT_DEEP pairs, and after the rest of fewer: other work, which the CPU does while its tiles multiply. NULL: use `tile` and
	 * `tile_across`. */
	void (*tile_add)(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m, int add, void (*beside)(void *arg),
	                 void *arg);
	/* The product of `tile`, or of `tile_across` with `across`, finished in registers: c (m, COMPACT_NR) = product [+ c, with `add`] [+ bias],
	 * added in that order; bias has COMPACT_NR numbers or is NULL. NULL: use `tile` and `tile_across`. */
	void (*tile_into)(float *c, int64_t ldc, const void *a, const uint32_t *b, int64_t pairs, int64_t m, int across, int add, const float *bias);
	/* `tile` for op(A) whose A is stored transposed: `across` rounds n rows of op(A), which are columns of `a` (k, lda), as `tile_across` reads
	 * them. Groups of mr rows lie mr * row(pairs) bytes apart. */
	void (*across)(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k);
	void (*tile_across)(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m);
	/* Round n numbers of two rows of B, the first of which has the even k, to a row of pairs of each panel; odd is NULL after the last of an
	 * odd number of rows. The panels are `pitch` elements apart, and columns of the last one from n on are zero. */
	void (*weave)(uint32_t *dst, int64_t pitch, const void *even, const void *odd, int bf16, int64_t n);
	/* Round n <= COMPACT_NR columns of B, each stored contiguously, ldb numbers after the one before, to the columns of a panel. Writes whole rows
	 * of pairs; the columns from n on are zero, and so is the last number of an odd k. */
	void (*columns)(uint32_t *dst, const void *b, int bf16, int64_t ldb, int64_t n, int64_t k);
};

/* The address of number i of x. */
static inline const void *compact_number(const void *x, int bf16, int64_t i)
{
	return (const char *)x + i * (bf16 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}

#if defined(__x86_64__)
extern const struct compact_kernel compact_avx512; /* only where the CPU has AVX512-BF16 and AVX512-BW */
extern const struct compact_kernel compact_amx;    /* only where compact_isa() says so: AMX needs the system's permission */

/* Asks the system for the permission to use AMX tiles in this process. True if the CPU has AMX-BF16 and the system agrees. */
int compact_amx_permitted(void);

/* Parts of compact_avx512 that compact_amx uses too. */
void compact_avx512_widen(uint32_t *restrict dst, const int8_t *restrict src, int64_t pairs);
void compact_avx512_weave(uint32_t *dst, int64_t pitch, const void *even, const void *odd, int bf16, int64_t n);
void compact_avx512_columns(uint32_t *dst, const void *b, int bf16, int64_t ldb, int64_t n, int64_t k);
#endif

#endif
