/* Divides the times by a quantity that was measured at some of them. ddm-diagnose times uses it. */
#include "diffusion/timeknots.h"

#include <math.h>

#include "core/mem.h"

static int check(const double *t, const double *m, int64_t n, struct err *e)
{
	for (int64_t i = 0; i < n; i++) {
		if (!(t[i] >= 0 && t[i] <= 1) || (i && t[i] <= t[i - 1]))
			return err_set(e, ERR_DATA, "the times must increase from 0 to 1, and %g does not", t[i]);
		if (!(m[i] >= 0) || !isfinite(m[i]))
			return err_set(e, ERR_DATA, "%g at t = %g: the quantity must not be negative", m[i], t[i]);
	}
	return n ? 0 : err_set(e, ERR_DATA, "no times");
}

/* Where the integral from 0 of a + b s is `area`, within a segment that holds at least so much. The form without a difference of close numbers. */
static double within(double a, double b, double area)
{
	double root = sqrt(fmax(0, a * a + 2 * b * area));

	return area > 0 ? 2 * area / (a + root) : 0;
}

int time_knots(double *knot, int parts, const double *t, const double *m, int64_t n, struct err *e)
{
	double *at, *value, *sum, whole;
	int64_t points = n + 2, j = 0;

	if (check(t, m, n, e))
		return -1;
	at = mem_alloc((size_t)points * sizeof *at);
	value = mem_alloc((size_t)points * sizeof *value);
	sum = mem_alloc((size_t)points * sizeof *sum);
	for (int64_t i = 0; i < points; i++) {
		int64_t k = i < 1 ? 0 : i > n ? n - 1 : i - 1;

		at[i] = i < 1 ? 0 : i > n ? 1 : t[k];
		value[i] = m[k];
		sum[i] = i ? sum[i - 1] + (at[i] - at[i - 1]) * (value[i - 1] + value[i]) / 2 : 0;
	}
	whole = sum[points - 1];
	for (int p = 0; p <= parts && whole > 0; p++) {
		double area = whole * p / parts, width;

		while (j + 2 < points && sum[j + 1] < area)
			j++;
		width = at[j + 1] - at[j];
		knot[p] = p == 0       ? 0
		          : p == parts ? 1
		                       : at[j] + fmin(width, within(value[j], width > 0 ? (value[j + 1] - value[j]) / width : 0, area - sum[j]));
	}
	mem_free(at);
	mem_free(value);
	mem_free(sum);
	return whole > 0 ? 0 : err_set(e, ERR_DATA, "the quantity is 0 at all times");
}
