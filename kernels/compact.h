/* Matrices of linear layers as sampling holds them, in the place of plain ones, and y = act(x W^T + bias) with them: in few bytes, as
 * bf16 or as int8 with a float per row of W, or as the floats that they are in the order in which the product reads them. CPU, float.
 *
 * Floats give the bits of the product with the plain matrix (kernels/gemm.h), without packing it at every product; so does a view, which
 * is packed every time and takes no memory.
 *
 * In few bytes W [N, K] is rounded to nearest even, to bf16 or to q s with q in -127..127 and s the row's largest magnitude / 127. The product
 * rounds x to bf16, to nearest even; products of two such numbers are exact in float, and q is exact in bf16. An element of y is
 * a function of its row of x, its row of W and K alone: within a chunk of GEMM_KC k's the products are added by fused
 * multiply-adds from zero in the order k = 1, 0, 3, 2, .. (that of the instruction VDPBF16PS), an odd K as if a zero followed; the
 * chunks' sums are added in order, then multiplied by s, then bias is added. Inputs and sums below 2^-126 count as zero. M, N,
 * threads, how the work is cut and the instruction set change nothing; but single products below 2^-126 count as zero too in a
 * build for CPUs without fused multiply-add, where the CPU has no VDPBF16PS. */
#ifndef DDM_KERNELS_COMPACT_H
#define DDM_KERNELS_COMPACT_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "kernels/gemm.h"

enum compact_type { COMPACT_NONE, COMPACT_BF16, COMPACT_INT8, COMPACT_F32, COMPACT_VIEW };

/* How options say that the matrices of an encoder are held: "f32" (COMPACT_NONE), "bf16", "int8". NULL-terminated. */
extern const char *const encoder_weights[];

/* What the options --weight-dtype (into encoder_weights) and --map ask for: `type`, or COMPACT_VIEW in the place of "f32" where `map`. */
enum compact_type compact_mapped(enum compact_type type, int map);

/* "bf16", "int8", or "" where nothing is rounded. */
const char *compact_rounding(enum compact_type t);

enum { COMPACT_NR = 32 }; /* rows of W in a panel */

struct compact {
	enum compact_type type;
	int64_t n, k;
	void *data;   /* [chunk][panel][pair of k][COMPACT_NR]: two bf16 in 32 bits, the even k low; or the even ks' bytes, then the odd;
	               * floats as gemm_pack leaves them; of a view, another's floats (N, K) */
	float *scale; /* (n rounded up to COMPACT_NR), int8 only */
};

/* Sizes of w from its type, n and k; data and scale are allocated (ERR_NOMEM). Release after failure too. */
int compact_init(struct compact *w, enum compact_type type, int64_t n, int64_t k, struct err *e);
/* Floats that stay where they are, borrowed until compact_release; the product packs them every time, into scratch. */
void compact_view(struct compact *w, const float *values, int64_t n, int64_t k);
void compact_release(struct compact *w);
int64_t compact_bytes(const struct compact *w); /* of a view: none */

/* Round and store values (N, K). A row with a value that is not finite becomes NaN in int8. */
void compact_pack(struct compact *w, const float *values);
/* What is stored, as floats (N, K). */
void compact_unpack(const struct compact *w, float *values);

/* How to multiply: the best this CPU has, or the one that every CPU has. The bits are the same. */
enum compact_isa { COMPACT_PORTABLE, COMPACT_AVX512_BF16 };
enum compact_isa compact_isa(void);

/* Bytes of scratch for a pool of `workers`. w tells its type and sizes; NULL: what is enough for all but views. */
size_t compact_scratch(const struct compact *w, int workers);

/* c (M, N), rows ldc apart = act(a (M, K), rows lda apart, times W^T + bias). Of ep (may be NULL) bias and act apply. scratch:
 * aligned to 64. */
void compact_run(struct pool *p, enum compact_isa isa, const struct compact *w, int64_t m, float *c, int64_t ldc, const float *a,
                 int64_t lda, const struct gemm_epilogue_f32 *ep, void *scratch);

#endif
