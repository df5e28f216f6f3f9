/* The order in which AMX tiles add products of bf16 numbers (kernels/compact_amx.c), in plain C. */
#ifndef DDM_TESTS_AMX_ORDER_H
#define DDM_TESTS_AMX_ORDER_H

#include <math.h>
#include <stdint.h>

#include "kernels/gemm.h"

/* The sum of products of k <= GEMM_KC numbers of x and w, which bf16 holds exactly. */
static inline float amx_chunk(const float *x, const float *w, int64_t k)
{
	float sum = 0;

	for (int64_t at = 0; at < k; at += 32) {
		float even = 0, odd = 0;

		for (int64_t i = at; i < at + 32 && i < k; i += 2) {
			even = fmaf(x[i], w[i], even);
			odd = i + 1 < k ? fmaf(x[i + 1], w[i + 1], odd) : odd;
		}
		sum += even + odd;
	}
	return sum;
}

/* c (m, n), row stride ldc: x (m, k) times the transpose of w (n, k), added to what c holds if `accumulate`; by chunks. */
static inline void amx_product(float *c, int64_t ldc, const float *x, const float *w, int64_t m, int64_t n, int64_t k, int accumulate)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			float z = accumulate ? c[i * ldc + j] : 0;

			for (int64_t at = 0; at < k; at += GEMM_KC) {
				float sum = amx_chunk(x + i * k + at, w + j * k + at, k - at < GEMM_KC ? k - at : GEMM_KC);

				z = at || accumulate ? sum + z : sum;
			}
			c[i * ldc + j] = z;
		}
}

#endif
