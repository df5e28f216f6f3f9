/* Computes Student's t over pairs, and Holm's correction for many comparisons. */
#include "metric/paired.h"

#include <float.h>
#include <math.h>

#include "core/mem.h"

/* The continued fraction of the regularised incomplete beta function I_x(a, b) (DLMF 8.17.22), by Lentz's method. It converges fast for x < (a + 1) /
 * (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;

	for (int m = 1; m <= 10000; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

		d = 1 / (1 + even * d);
		c = 1 + even / c;
		h *= d * c;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < DBL_EPSILON)
			break;
	}
	return h;
}

/* I_x(a, b). The caller gives y = 1 - x too, so that no digits are lost near either end. */
static double beta_regular(double a, double b, double x, double y)
{
	double front;

	if (x <= 0 || y <= 0)
		return x <= 0 ? 0 : 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, y) / b;
}

/* P(T > |t|) */
static double upper_tail(double t, double df)
{
	double s = df + t * t;

	return isinf(t) ? 0 : beta_regular(df / 2, .5, df / s, t * t / s) / 2;
}

double student_quantile(double p, double df)
{
	double tail = p < .5 ? p : 1 - p, lo = 0, hi = 1;

	while (upper_tail(hi, df) > tail && hi < 1e300)
		hi *= 2;
	for (int i = 0; i < 200 && hi - lo > DBL_EPSILON * hi; i++) {
		double mid = lo + (hi - lo) / 2;

		if (upper_tail(mid, df) > tail)
			lo = mid;
		else
			hi = mid;
	}
	return p < .5 ? -hi : p > .5 ? hi : 0;
}

int paired_compare(struct paired *out, const double *a, const double *b, int n, double level, struct err *e)
{
	double mean = 0, var = 0, se, half;

	if (n < 2 || !(level > 0 && level < 1))
		return err_set(e, ERR_USAGE, "a paired interval needs at least 2 pairs and a level between 0 and 1, not %d and %g", n, level);
	for (int i = 0; i < n; i++)
		mean += (a[i] - b[i]) / n;
	for (int i = 0; i < n; i++)
		var += (a[i] - b[i] - mean) * (a[i] - b[i] - mean);
	if (!isfinite(mean) || !isfinite(var))
		return err_set(e, ERR_DATA, "a value to compare is not finite");
	se = sqrt(var / (n - 1) / n);
	half = se * student_quantile((1 + level) / 2, n - 1);
	*out = (struct paired){.mean = mean, .sd = sqrt(var / (n - 1)), .low = mean - half, .high = mean + half};
	out->t = se > 0 ? mean / se : mean == 0 ? 0 : copysign(INFINITY, mean);
	out->p = out->t == 0 ? 1 : 2 * upper_tail(out->t, n - 1);
	return 0;
}

/* Multiply the r-th smallest of n p values (from 0) by n - r, and keep the results monotone in p. */
void holm_adjust(double *p, int n)
{
	double *raw = mem_alloc((size_t)n * sizeof *raw + 1), worst = 0;
	char *done = mem_zalloc((size_t)n + 1, 1);

	for (int i = 0; i < n; i++)
		raw[i] = p[i];
	for (int r = 0; r < n; r++) {
		int least = -1;

		for (int i = 0; i < n; i++)
			if (!done[i] && (least < 0 || raw[i] < raw[least]))
				least = i;
		done[least] = 1;
		worst = fmax(worst, fmin((n - r) * raw[least], 1));
		p[least] = worst;
	}
	mem_free(raw);
	mem_free(done);
}
