/* Matrix products on the CPU: C = act(op(A) op(B) [+ C] + bias), row-major, op(A) (M, K), op(B) (K, N), C (M, N).
 *
 * An element's bits depend only on its row of op(A), its column of op(B) and K: within each chunk of GEMM_KC the products are
 * summed in order from zero with fused multiply-adds, and the chunks' sums are added in order. M, N, the element's position,
 * strides, transposes, the number of threads and the division of work do not change them. So a sampled image does not depend on
 * its batch.
 *
 * _f32 and _f64 are the same source; kernels compiled twice use REAL_NAME(gemm_run) and struct REAL_NAME(gemm_epilogue). */
#ifndef DDM_KERNELS_GEMM_H
#define DDM_KERNELS_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "core/pool.h"

enum { GEMM_KC = 384 };

enum gemm_trans { GEMM_N, GEMM_T, GEMM_PACKED /* only for B, with ta == GEMM_N: packed by gemm_pack; ldb is ignored */ };

/* The operands. Strides are in elements, of rows as stored: with ta == GEMM_N, A is (M, K) and lda >= K; with GEMM_T,
 * A is stored (K, M) and lda >= M; B likewise (K, N) or (N, K). K may be 0, M and N too. */
struct gemm {
	enum gemm_trans ta, tb;
	int64_t m, n, k;
	int64_t lda, ldb, ldc;
	int accumulate; /* add the old C to the product */
	int own;        /* do not use a library: same bits as with a packed B */
	double alpha;   /* multiplies each chunk's sum; 0 means 1 */
	/* Compute rows when they are needed, for the patches of a convolution: the rows of A with ta == GEMM_N, or the rows of B (K, N) with
	 * ta == GEMM_T and tb == GEMM_N. make(from, row, at, n, out) writes elements [at, at + n) of a row. NULL: the matrix is in memory. */
	void (*make)(const void *from, int64_t row, int64_t at, int64_t n, void *out);
	const void *from;
};

enum gemm_act {
	GEMM_LINEAR,
	GEMM_SILU, /* z sigmoid(z) */
	GEMM_GELU, /* z / 2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))), the approximation that DiT uses */
	GEMM_RELU
};

/* Pack op(B) (K, N) once for many products. packed: gemm_packed reals, aligned to 64, columns padded with zeros. g gives tb, n, k and ldb;
 * its other fields are ignored. gemm_unpack restores b. The product's bits are those with the plain B (by gemm.c's own tiles, even in a
 * build with a library). */
int64_t gemm_packed_f32(const struct gemm *g);
int64_t gemm_packed_f64(const struct gemm *g);
void gemm_pack_f32(const struct gemm *g, float *packed, const float *b);
void gemm_pack_f64(const struct gemm *g, double *packed, const double *b);
void gemm_unpack_f32(const struct gemm *g, float *b, const float *packed);
void gemm_unpack_f64(const struct gemm *g, double *b, const double *packed);

/* Applied to a tile while it is in cache: z = op(A) op(B) [+ C] + bias; aux = z; C = act(z). */
struct gemm_epilogue_f32 {
	const float *start; /* (M, N) with row stride ldstart, or NULL: initial value of the sum; only with `make`; may be C */
	int64_t ldstart;
	const float *bias; /* (N), or NULL */
	enum gemm_act act;
	float *aux; /* (M, N) with row stride ldaux, or NULL; may not overlap C */
	int64_t ldaux;
	const float *pre; /* (M, N) with row stride ldpre, or NULL: C = z gelu'(pre), gradient of GEMM_GELU; only of products of bf16 numbers */
	int64_t ldpre;
	float *row_sums; /* (M), or NULL: sums of the rows of op(A) over K, in the same chunks; only with ta == GEMM_T */
};

struct gemm_epilogue_f64 {
	const double *start;
	int64_t ldstart;
	const double *bias;
	enum gemm_act act;
	double *aux;
	int64_t ldaux;
	const double *pre;
	int64_t ldpre;
	double *row_sums;
};

/* Bytes of scratch gemm_run needs with a pool of `workers` threads, and gemm_serial with workers 1. It does not
 * shrink when K grows, nor, with ta == GEMM_N, when M does: a plan for the largest batch serves every smaller one. */
size_t gemm_scratch_f32(const struct gemm *g, int workers);
size_t gemm_scratch_f64(const struct gemm *g, int workers);

/* The product over the pool (NULL: serially). ep may be NULL. scratch: aligned to 64, gemm_scratch bytes, contents irrelevant
 * before and after. C overlaps neither A nor B. */
void gemm_run_f32(struct pool *p, const struct gemm *g, float *c, const float *a, const float *b, const struct gemm_epilogue_f32 *ep, void *scratch);
void gemm_run_f64(struct pool *p, const struct gemm *g, double *c, const double *a, const double *b, const struct gemm_epilogue_f64 *ep,
                  void *scratch);

/* The same on the calling thread, for use inside a task: many small products, one per task (attention heads). */
void gemm_serial_f32(const struct gemm *g, float *c, const float *a, const float *b, const struct gemm_epilogue_f32 *ep, void *scratch);
void gemm_serial_f64(const struct gemm *g, double *c, const double *a, const double *b, const struct gemm_epilogue_f64 *ep, void *scratch);

/* For kernels that store B^T packed themselves, in panels [k][width]. gemm_width: a panel's width. */
int gemm_width_f32(void);
int gemm_width_f64(void);
/* Pack n <= width rows of b (n, k), row stride ld, as the columns of a panel; columns from n on are zero. */
void gemm_panel_f32(float *panel, const float *b, int64_t ld, int64_t n, int64_t k);
void gemm_panel_f64(double *panel, const double *b, int64_t ld, int64_t n, int64_t k);
/* c (m, n) = a (m, k) times the panels, summed in chunks of `chunk` k's that are added in order. k > 0. On the calling thread. */
void gemm_panels_f32(float *c, int64_t ldc, const float *a, int64_t lda, const float *panels, int64_t m, int64_t n, int64_t k, int64_t chunk);
void gemm_panels_f64(double *c, int64_t ldc, const double *a, int64_t lda, const double *panels, int64_t m, int64_t n, int64_t k, int64_t chunk);

#endif
