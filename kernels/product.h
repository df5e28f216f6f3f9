/* Matrix products on the GPU: C = act(alpha op(A) op(B) + bias), row-major, op(A) (M, K), op(B) (K, N), C (M, N), in float sums
 * whatever the storage.
 *
 * product_run prefers cuBLASLt (kernels/cublaslt.h) and leaves to kernels of our own what that does not do: unusual strides, K of 0,
 * activations other than GELU. product_tiles is the whole of it in one kernel of our own.
 *
 * cuBLASLt chooses by all of a shape, and the algorithm for 64 rows rounds otherwise than that for 65. On a device that is `invariant`
 * nothing is left to it: a kernel that adds in one order whatever the tile keeps a row's bits in any company, by construction rather
 * than by trial, for every number of rows and in a graph's capture too. The price is the library's speed. */
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
	int ta, tb; /* A is stored (K, M), B (N, K) */
	int64_t m, n, k, count; /* count: matrices */
	float alpha; /* 0: A and B are not read */
	struct product_matrix a, b, c;
	struct product_vector bias;  /* (N) */
	int act;                     /* enum unary + 1; 0: none */
	struct product_matrix aux;   /* p NULL: none; (M, N) before act */
	struct product_vector sums;  /* (M): sums over K of the rows of op(A); only with ta and a count of 1 */
};

/* Bytes of scratch that product_run needs, from sizes and types alone; no less with a larger M or K. */
size_t product_scratch(const struct product *p);

/* Submit it to the call's stream. C, aux and sums overlap nothing. */
void product_run(const struct op_call *c, const struct product *p);

/* The same where rows of A are samples' or their tokens': not ta, but tb; count and alpha of 1. On an `invariant` device an element's
 * bits depend on its row of A, its row of B and its bias alone. */
void product_rows(const struct op_call *c, const struct product *p);

/* That on tensor cores, by the tiles of convolutions (kernels/conv.cu); K > 0. Types as the call's arrays have them. Needs no scratch. */
void product_pixels(const struct op_call *c, const struct product *p);

/* The sums alone. */
void product_sums(const struct op_call *c, const struct product *p, void *scratch);
size_t product_sums_scratch(const struct product *p);

/* An element's bits are those of kernels/gemm.h: chunks of K in order, and the chunks' sums in order. Needs no scratch. */
void product_tiles(const struct op_call *c, const struct product *p);

#endif
