/* Paired comparison of two arms over the same seeds, by Student's t. */
#ifndef DDM_METRIC_PAIRED_H
#define DDM_METRIC_PAIRED_H

#include "core/err.h"

struct paired {
	double mean;      /* of a[i] - b[i] */
	double sd;        /* standard deviation of the differences */
	double low, high; /* t-interval of the mean */
	double t, p;      /* Student's t and its two-sided p value; if all differences are equal, t is infinite or 0, and p 0 or 1 */
};

/* Compare a (n) and b (n) by their differences, with a confidence interval at `level` (0.95). n >= 2 and 0 < level < 1, else ERR_USAGE; ERR_DATA if a
 * value is not finite. */
int paired_compare(struct paired *out, const double *a, const double *b, int n, double level, struct err *e);

/* Correct the p values p (n) of n tests in place: the probability of any false rejection at a level is then at most that level, whatever the
 * dependence between the tests (Holm, "A simple sequentially rejective multiple test procedure", 1979). Results are at most 1. */
void holm_adjust(double *p, int n);

/* The t with P(T <= t) = p for Student's distribution with df > 0 degrees of freedom; 0 < p < 1. */
double student_quantile(double p, double df);

#endif
