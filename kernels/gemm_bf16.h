/* Matrix products of bf16 numbers on the CPU: C = act(op(A) op(B) [+ C] + bias), for training with bf16 products. Each matrix is stored in float or
 * in bf16.
 *
 * Float operands are rounded to bf16, to nearest even; products of two such numbers are exact in float. An element of C depends only on its row of
 * op(A), its column of op(B) and K: within a chunk of GEMM_KC ks the products are added by fused multiply-adds from zero in the order k = 1, 0, 3,
 * 2, .. (that of the instruction VDPBF16PS), with a zero after an odd K, and the chunks' sums are added in order. M, N, strides, transposes and
 * the number of threads do not change the bits; nor does the instruction set, but for the exceptions in kernels/compact.h (AMX). */
#ifndef DDM_KERNELS_GEMM_BF16_H
#define DDM_KERNELS_GEMM_BF16_H

#include "kernels/compact.h"
#include "kernels/gemm.h"

/* Which matrices are stored in bf16 instead of float. C is then rounded once, from the float that would be stored. Inputs in bf16 give the bits of
 * the floats that were rounded to them. */
enum { GEMM_BF16_A = 1, GEMM_BF16_B = 2, GEMM_BF16_C = 4 };

/* Bytes of scratch with a pool of `workers` threads: op(B) in bf16 and each thread's own. It does not shrink when M, N or K grow. */
size_t gemm_bf16_scratch(const struct gemm *g, unsigned stored, int workers);

/* As gemm_run_f32 (kernels/gemm.h), without g's alpha, own and make, and without GEMM_PACKED; ep's start is NULL, and its
 * row_sums are those of the rounded op(A). stored: GEMM_BF16_A and so on of the matrices in bf16; GEMM_BF16_C only with GEMM_N for A and without
 * g->accumulate. scratch is aligned to 64. */
void gemm_bf16_run(struct pool *p, enum compact_isa isa, const struct gemm *g, unsigned stored, void *c, const void *a, const void *b,
                   const struct gemm_epilogue_f32 *ep, void *scratch);

#endif
