/* The product with an operand B that is stored in panels of bf16 or int8: the part that kernels/compact.c, whose B is a weight matrix packed once,
 * and kernels/gemm_bf16.c, which packs B for every product, have in common. Private to them. */
#ifndef DDM_KERNELS_COMPACTRUN_H
#define DDM_KERNELS_COMPACTRUN_H

#include "kernels/compact.h"
#include "kernels/compacttile.h"
#include "kernels/gemm_bf16.h"

/* The panels of op(B) (K, N): [chunk of GEMM_KC ks][panel][pair of ks][COMPACT_NR], two numbers to an element of `type`. */
struct compact_panels {
	enum compact_type type; /* COMPACT_BF16 or COMPACT_INT8 */
	int64_t n, k;
	const void *data;
	const float *scale; /* of each column, or NULL */
};

/* The number of ks in a chunk, of pairs of ks in a chunk, of panels; and the address of a panel. */
int64_t compact_chunk_len(const struct compact_panels *b, int64_t chunk);
int64_t compact_chunk_pairs(const struct compact_panels *b, int64_t chunk);
int64_t compact_panel_count(const struct compact_panels *b);
void *compact_panel_at(const struct compact_panels *b, int64_t chunk, int64_t panel);

/* Pack n columns of B, floats or with `bf16` bf16, stored row by row with row stride ldb, into panels of k numbers, `pitch` elements apart. Columns
 * of the last panel from n on are zero. Many panels at a time would displace each other in the first-level cache. */
void compact_pack_rows(const struct compact_kernel *q, uint32_t *restrict dst, int64_t pitch, const void *b, int bf16, int64_t ldb, int64_t n,
                       int64_t k);

/* C = act(op(A) op(B) [* scale] [+ C] + bias), as gemm_run_f32 with g's ta, m, lda, ldc and accumulate, and ep's bias, act, aux, pre and row_sums.
 * op(A) is rounded to bf16, also for the sums of its rows. stored: GEMM_BF16_A and GEMM_BF16_C as in gemm_bf16_run. own: compact_own_bytes() of
 * memory for each thread of the pool, aligned to 64. shared: memory that the threads share for rounded rows of a transposed A, compact_shared_bytes()
 * of it, aligned to 64; NULL if that is 0. compact_own_bytes() reads n and k of g, which may be NULL if C is float. */
size_t compact_own_bytes(const struct gemm *g, unsigned stored);
size_t compact_shared_bytes(const struct gemm *g, int workers);
void compact_multiply(struct pool *p, const struct compact_kernel *kernel, const struct gemm *g, unsigned stored, const struct compact_panels *b,
                      void *c, const void *a, const struct gemm_epilogue_f32 *ep, void *own, void *shared);

const struct compact_kernel *compact_kernel_of(enum compact_isa isa);

#endif
