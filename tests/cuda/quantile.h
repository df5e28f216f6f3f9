/* Quantiles of measured times. */
#ifndef DDM_TESTS_QUANTILE_H
#define DDM_TESTS_QUANTILE_H

#include <math.h>

/* For qsort. */
static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The least of n > 0 sorted values that q of them do not exceed. */
static inline double quantile(double *sorted, int n, double q)
{
	int i = (int)ceil(q * n) - 1;

	return sorted[i < 0 ? 0 : i >= n ? n - 1 : i];
}

#endif
