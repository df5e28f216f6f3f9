/* Weight matrices of linear layers in the formats that sampling uses on the CPU, and y = act(x W^T + bias) with them. The formats are bf16,
 * int8 with one float scale per row of W, float packed in the order in which the product reads it, and a view of a plain float matrix.
 *
 * The packed floats give the same bits as the product with the plain matrix (kernels/gemm.h) and save packing at every product. A view gives the
 * same bits too, is packed at every product, and takes no memory.
 *
 * For bf16 and int8, W [N, K] is rounded to nearest even: to bf16, or to q s with q in -127..127 and s the row's largest magnitude / 127. The
 * product rounds x to bf16, to nearest even; products of two such numbers are exact in float, and q is exact in bf16. An element of y depends
 * only on its row of x, its row of W and K. Within a chunk of GEMM_KC k's the products are added by fused multiply-adds from zero in the order
 * k = 1, 0, 3, 2, .. (that of the instruction VDPBF16PS), with a zero after an odd K. The chunks' sums are added in order, then multiplied by
 * s, then the bias is added. Inputs and sums below 2^-126 count as zero. M, N, the number of threads and the division of work do not change the
 * bits. The instruction set changes them in two cases. A build without fused multiply-add, on a CPU without VDPBF16PS, also takes single products
 * below 2^-126 as zero. AMX adds the products of a chunk in another order, which kernels/compact_amx.c describes. */
#ifndef DDM_KERNELS_COMPACT_H
#define DDM_KERNELS_COMPACT_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "kernels/gemm.h"

enum compact_type { COMPACT_NONE, COMPACT_BF16, COMPACT_INT8, COMPACT_F32, COMPACT_VIEW };

/* The values of the option --weight-dtype: "f32" (COMPACT_NONE), "bf16", "int8". NULL-terminated. */
extern const char *const encoder_weights[];

/* The type chosen by the options --weight-dtype and --map: `type`, except that --map turns "f32" into COMPACT_VIEW. */
enum compact_type compact_mapped(enum compact_type type, int map);

/* "bf16", "int8", or "" for types that are not rounded. */
const char *compact_rounding(enum compact_type t);

enum { COMPACT_NR = 32 }; /* rows of W in a panel */

struct compact {
	enum compact_type type;
	int64_t n, k;
	void *data;   /* [chunk][panel][pair of k][COMPACT_NR]: two bf16 in 32 bits, the even k low; or the even ks' bytes, then the odd;
	               * floats in the layout of gemm_pack; for a view, borrowed floats (N, K) */
	float *scale; /* (n rounded up to COMPACT_NR), int8 only */
};

/* Sizes of w from its type, n and k; data and scale are allocated (ERR_NOMEM). Release after failure too. */
int compact_init(struct compact *w, enum compact_type type, int64_t n, int64_t k, struct err *e);
/* Make a view of `values` (N, K), borrowed until compact_release; the product packs them into scratch every time. */
void compact_view(struct compact *w, const float *values, int64_t n, int64_t k);
void compact_release(struct compact *w);
int64_t compact_bytes(const struct compact *w); /* 0 for a view */

/* Round and store values (N, K). A row with a value that is not finite becomes NaN in int8. */
void compact_pack(struct compact *w, const float *values);
/* The stored values as floats (N, K). */
void compact_unpack(const struct compact *w, float *values);

/* Implementations of the product: portable, by AVX512-BF16, or by AMX tiles. compact_isa() returns the best one for this CPU; the first call asks
 * the system for the permission to use AMX. compact_isa_pairwise() returns the best of the first two, which give the same bits. */
enum compact_isa { COMPACT_PORTABLE, COMPACT_AVX512_BF16, COMPACT_AMX };
enum compact_isa compact_isa(void);
enum compact_isa compact_isa_pairwise(void);

/* Bytes of scratch for a pool of `workers`, from w's type and sizes; with w NULL, enough for any matrix but a view. */
size_t compact_scratch(const struct compact *w, int workers);

/* c (M, N) = act(a (M, K) W^T + bias), row strides ldc and lda. ep may be NULL; only its bias and act are used. scratch is aligned to 64. */
void compact_run(struct pool *p, enum compact_isa isa, const struct compact *w, int64_t m, float *c, int64_t ldc, const float *a, int64_t lda,
                 const struct gemm_epilogue_f32 *ep, void *scratch);

#endif
