/* Computes the area under the receiver operating characteristic from ranks. */
#include "metric/auroc.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

struct scored {
	double score;
	int first; /* it is of the first set */
};

static int by_score(const void *a, const void *b)
{
	double x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;

	return (x > y) - (x < y);
}

/* The ranks of the first set, from 1, summed; equal scores share their mean rank. */
static double sum_ranks(const struct scored *v, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0, end; i < n; i = end) {
		int64_t first = 0;

		for (end = i; end < n && v[end].score == v[i].score; end++)
			first += v[end].first;
		sum += (double)first * (double)(i + 1 + end) / 2;
	}
	return sum;
}

double auroc(const double *first, int64_t n, const double *second, int64_t m)
{
	struct scored *v = mem_alloc((size_t)(n + m + 1) * sizeof *v);
	int number = 1;
	double sum;

	for (int64_t i = 0; i < n + m; i++) {
		v[i] = (struct scored){i < n ? first[i] : second[i - n], i < n};
		number &= !isnan(v[i].score);
	}
	qsort(v, number ? (size_t)(n + m) : 0, sizeof *v, by_score);
	sum = number ? sum_ranks(v, n + m) : NAN;
	mem_free(v);
	return n > 0 && m > 0 ? (sum - (double)n * (double)(n + 1) / 2) / ((double)n * (double)m) : NAN;
}
