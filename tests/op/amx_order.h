/* The order in which AMX tiles add products of bf16 numbers (kernels/compact_amx.c), in plain C. */
#ifndef DDM_TESTS_AMX_ORDER_H
#define DDM_TESTS_AMX_ORDER_H

#include <math.h>
#include <stdint.h>

/* The sum `start` plus the products of k numbers of x and w, which bf16 holds exactly. */
static inline float amx_sum(float start, const float *x, const float *w, int64_t k)
{
	for (int64_t at = 0; at < k; at += 32) {
		float even = 0, odd = 0;

		for (int64_t i = at; i < at + 32 && i < k; i += 2) {
			even = fmaf(x[i], w[i], even);
			odd = i + 1 < k ? fmaf(x[i + 1], w[i + 1], odd) : odd;
		}
		start += even + odd;
	}
	return start;
}

/* c (m, n), row stride ldc: x (m, k) times the transpose of w (n, k), added to what c holds if `accumulate`. */
static inline void amx_product(float *c, int64_t ldc, const float *x, const float *w, int64_t m, int64_t n, int64_t k, int accumulate)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++)
			c[i * ldc + j] = amx_sum(accumulate ? c[i * ldc + j] : 0, x + i * k, w + j * k, k);
}

#endif
