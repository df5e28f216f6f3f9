/* Arrays of pseudorandom vectors, and a comparison of numbers, for tests of metrics. */
#ifndef DDM_TESTS_ROWS_H
#define DDM_TESTS_ROWS_H

#include <math.h>
#include <stdint.h>

#include "core/mem.h"
#include "core/rng.h"

static inline void near(double got, double want, double relative)
{
	if (!(fabs(got - want) <= relative * fmax(fabs(want), 1e-300)))
		fail_msg("%.17g, not %.17g within %g relative", got, want, relative);
}

/* Normal values (n, d). Caller frees with mem_free, also below. */
static inline float *normals(int64_t n, int d, uint64_t stream)
{
	float *x = mem_alloc((size_t)n * (size_t)d * sizeof *x);

	rng_normal(x, (size_t)n * (size_t)d, 5, RNG_TEST, 0, stream);
	return x;
}

/* The same numbers (n, d) as vectors() in tests/golden/metric_values.py. */
static inline float *vectors(int n, int d, int seed)
{
	float *x = mem_alloc((size_t)n * (size_t)d * sizeof *x);

	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < d; j++)
			x[i * d + j] = (float)((double)((i * 7919 + j * 104729 + i * j * 31 + seed * 15485863LL) % 1009) / 504.5 - 1 +
			                       .25 * seed * (double)(j % 3));
	return x;
}

#endif
