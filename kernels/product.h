/* Matrix products on the GPU: C = act(alpha op(A) op(B) + bias) or C = alpha op(A) op(B) act'(pre), row-major, op(A) (M, K), op(B) (K, N),
 * C (M, N), in float sums whatever the storage.
 *
 * product_run uses cuBLASLt (kernels/cublaslt.h) where possible, and its own kernels for the rest: unusual strides, K of 0,
 * activations other than GELU. product_tiles does the whole product in one kernel of this project.
 *
 * cuBLASLt chooses its algorithm by the whole shape, so a row's bits can change with the number of rows. A device that is `invariant`
 * therefore does not use it, but a slower kernel with one order of summation for every tile size: a row's bits are the same in any batch,
 * also during a graph's capture. */
#ifndef DDM_KERNELS_PRODUCT_H
#define DDM_KERNELS_PRODUCT_H

#include "kernels/device.h"

struct product_matrix {
	void *p;
	enum dtype dtype; /* DT_F32 or DT_BF16 */
	int64_t ld;       /* elements between rows as stored; 0: every row is the same */
	int64_t batch;    /* elements between matrices; 0: every matrix is the same */
};

struct product_vector {
	void *p; /* NULL: none */
	enum dtype dtype;
};

struct product {
	int ta, tb;             /* A is stored (K, M), B (N, K) */
	int64_t m, n, k, count; /* count: number of products in the batch */
	float alpha;            /* 0: A and B are not read */
	struct product_matrix a, b, c;
	struct product_vector bias; /* (N) */
	int act;                    /* enum unary + 1; 0: none */
	struct product_matrix aux;  /* p NULL: none; (M, N) before act */
	struct product_matrix pre;  /* p NULL: none; (M, N), read: C is multiplied by act'(pre). Without bias, aux and sums; count is 1 */
	struct product_vector sums; /* (M): sums over K of the rows of op(A); only with ta and a count of 1 */
};

/* Bytes of scratch that product_run needs; depends on sizes and types alone, and does not decrease with M or K. */
size_t product_scratch(const struct product *p);

/* Submit the product to the call's stream. C, aux and sums must not overlap other arrays. */
void product_run(const struct op_call *c, const struct product *p);

/* The same for rows of A that belong to samples or tokens; ta = 0, tb = 1, count and alpha are 1. On an `invariant` device an element's
 * bits depend only on its row of A, its row of B and its bias. */
void product_rows(const struct op_call *c, const struct product *p);

/* product_rows on tensor cores, by the convolution kernel (kernels/conv.cu); K > 0. The types are those of the call's arrays. No scratch. */
void product_pixels(const struct op_call *c, const struct product *p);

/* Compute only p->sums. */
void product_sums(const struct op_call *c, const struct product *p, void *scratch);
size_t product_sums_scratch(const struct product *p);

/* Sums in the order of kernels/gemm.h: chunks of K in order, then the chunks' sums in order. No scratch. */
void product_tiles(const struct op_call *c, const struct product *p);

#endif
