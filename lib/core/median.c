/* The median of numbers, by sorting them. */
#include "core/median.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *v, int64_t n)
{
	if (!n)
		return NAN;
	qsort(v, (size_t)n, sizeof *v, by_value);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}
