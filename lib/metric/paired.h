/* Comparing two arms over the same seeds. */
#ifndef DDM_METRIC_PAIRED_H
#define DDM_METRIC_PAIRED_H

#include "core/err.h"

struct paired {
	double mean;      /* of a[i] - b[i] */
	double sd;        /* standard deviation of the differences */
	double low, high; /* t-interval of the mean */
	double t, p;      /* Student's t and its two-sided p value; identical differences: t is infinite (or 0), p 0 (or 1) */
};

/* Differences of a (n) and b (n), with the interval at `level` (0.95); n >= 2 and 0 < level < 1, else ERR_USAGE. */
int paired_compare(struct paired *out, const double *a, const double *b, int n, double level, struct err *e);

/* p (n): two-sided p values of n tests of one experiment -> corrected so that the chance of any false one among all that lie below a
 * bound is at most the bound, whatever ties the tests to each other (Holm, "A simple sequentially rejective multiple test procedure",
 * 1979). Never above 1. */
void holm_adjust(double *p, int n);

double student_cdf(double t, double df);      /* P(T <= t); df > 0 */
double student_quantile(double p, double df); /* the inverse, 0 < p < 1 */

#endif
