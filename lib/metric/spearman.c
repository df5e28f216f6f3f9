/* Spearman's rank correlation, with its distribution over all orders for few pairs. */
#include "metric/spearman.h"

#include <math.h>

#include "core/mem.h"
#include "metric/paired.h"

#define LEVEL .05
/* Sums of products of ranks that are equal may differ by rounding. */
#define SAME 1e-9

/* rank (n) = the ranks of v minus their mean; equal values share a rank. */
static void find_ranks(double *rank, const double *v, int n)
{
	for (int i = 0; i < n; i++) {
		int below = 0, same = 0;

		for (int j = 0; j < n; j++) {
			below += v[j] < v[i];
			same += v[j] == v[i];
		}
		rank[i] = below + .5 * (same + 1) - .5 * (n + 1);
	}
}

static double product(const double *a, const double *b, int n)
{
	double s = 0;

	for (int i = 0; i < n; i++)
		s += a[i] * b[i];
	return s;
}

/* Call visit(arg, product of a and b) for every order of b (n), by Heap's algorithm. Permutes b. */
static void each_order(const double *a, double *b, int n, void (*visit)(void *arg, double xy), void *arg)
{
	int at[SPEARMAN_EXACT] = {0};

	visit(arg, product(a, b, n));
	for (int i = 1; i < n;) {
		int k = i % 2 ? at[i] : 0;
		double swap = b[k];

		if (at[i] == i) {
			at[i++] = 0;
			continue;
		}
		b[k] = b[i];
		b[i] = swap;
		visit(arg, product(a, b, n));
		at[i]++;
		i = 1;
	}
}

/* Orders whose product is at least as far from 0. */
struct tail {
	double least, found, all;
};

static void count_tail(void *arg, double xy)
{
	struct tail *t = arg;

	t->found += fabs(xy) >= t->least - SAME;
	t->all++;
}

/* Orders by |product|, which is an even or odd multiple of 1/4 for ranks about their mean. */
struct histogram {
	double n[SPEARMAN_EXACT * SPEARMAN_EXACT * SPEARMAN_EXACT], all;
};

static void count_product(void *arg, double xy)
{
	struct histogram *h = arg;

	h->n[lrint(4 * fabs(xy))]++;
	h->all++;
}

/* Two-sided, with n - 2 degrees of freedom: by bisection on the quantile, which paired.h offers. */
static double student_p(double rho, int n)
{
	double t = fabs(rho) * sqrt((n - 2) / (1 - rho * rho)), lo = .5, hi = 1;

	if (!(fabs(rho) < 1))
		return 0;
	for (int i = 0; i < 60; i++) {
		double mid = .5 * (lo + hi);

		*(mid < 1 && student_quantile(mid, n - 2) < t ? &lo : &hi) = mid;
	}
	return 2 * (1 - .5 * (lo + hi));
}

/* Of n pairs without ties: adds up the orders from the largest |rho| down, as long as they are at most LEVEL. */
static double critical_of(int n)
{
	double rank[SPEARMAN_EXACT], other[SPEARMAN_EXACT], norm = ((double)n * n * n - n) / 12, t, sum = 0, last = NAN;
	struct histogram h = {{0}, 0};

	if (n < 5)
		return NAN;
	if (n > SPEARMAN_EXACT) {
		t = student_quantile(1 - LEVEL / 2, n - 2);
		return t / sqrt(n - 2 + t * t);
	}
	for (int i = 0; i < n; i++)
		rank[i] = other[i] = i - .5 * (n - 1);
	each_order(rank, other, n, count_product, &h);
	for (long c = lrint(4 * norm); c > 0; c--) {
		sum += h.n[c];
		if (sum > LEVEL * h.all)
			break;
		last = h.n[c] > 0 ? (double)c / (4 * norm) : last;
	}
	return last;
}

struct spearman spearman(const double *a, const double *b, int n)
{
	double *x = mem_alloc((size_t)(2 * n + 1) * sizeof *x), *y = x + n, xx, yy;
	struct spearman s = {NAN, NAN, critical_of(n)};
	struct tail t = {0};

	find_ranks(x, a, n);
	find_ranks(y, b, n);
	xx = product(x, x, n);
	yy = product(y, y, n);
	if (n >= 3 && xx > 0 && yy > 0) {
		double xy = product(x, y, n);

		s.rho = xy / sqrt(xx * yy);
		if (n <= SPEARMAN_EXACT) {
			t.least = fabs(xy);
			each_order(x, y, n, count_tail, &t);
		}
		s.p = n <= SPEARMAN_EXACT ? t.found / t.all : student_p(s.rho, n);
	}
	mem_free(x);
	return s;
}
