/* Sums of outer products in double, for covariances and inner products: a block of them is held in registers. */
#ifndef DDM_METRIC_OUTERIMPL_H
#define DDM_METRIC_OUTERIMPL_H

#include <string.h>

#if defined(__AVX512F__)
#define OUTER_BYTES 64
#elif defined(__AVX__)
#define OUTER_BYTES 32
#else
#define OUTER_BYTES 16
#endif

/* A block is OUTER_ROWS x OUTER_COLS. gcc keeps no vector in registers that is wider than the machine's. */
enum { OUTER_LANES = OUTER_BYTES / sizeof(double), OUTER_ROWS = 4, OUTER_COLS = 2 * OUTER_LANES };

typedef double outer_vec __attribute__((vector_size(OUTER_BYTES), aligned(sizeof(double))));

/* The block at out, whose rows are `stride` apart, += the sum over r < n of a_r b_r': a_r (OUTER_ROWS) at a + r a_step, b_r (OUTER_COLS) at
 * b + r b_step. */
static inline void outer_add(double *out, int stride, const double *a, int a_step, const double *b, int b_step, int n)
{
	outer_vec acc[OUTER_ROWS][2];

	for (int i = 0; i < OUTER_ROWS; i++)
		memcpy(acc[i], out + i * stride, sizeof acc[i]);
	for (int r = 0; r < n; r++, a += a_step, b += b_step) {
		outer_vec b0 = *(const outer_vec *)b, b1 = *(const outer_vec *)(b + OUTER_LANES);

		for (int i = 0; i < OUTER_ROWS; i++) {
			acc[i][0] += a[i] * b0;
			acc[i][1] += a[i] * b1;
		}
	}
	for (int i = 0; i < OUTER_ROWS; i++)
		memcpy(out + i * stride, acc[i], sizeof acc[i]);
}

#endif
