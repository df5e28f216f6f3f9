/* Time grids of flow solvers: shifts, and spacings even in a function of t. */
#include "diffusion/flowgrid.h"

#include <math.h>

#include "core/mem.h"

static const double LEAST = .001; /* the least of a thousand training times */

int flow_grid_given(const struct flow_grid *g)
{
	return (g->shift > 0 && g->shift != 1) || g->dynamic || g->terminal > 0 || g->sigmas;
}

static double shifted(double shift, double t)
{
	return shift > 0 ? shift * t / (1 + (shift - 1) * t) : t;
}

/* B(a, a) I_x(a, a) for x <= 1/2 by its continued fraction (DLMF 8.17.22), evaluated backwards; 60 terms are more than double precision needs. */
static double incomplete(double x, double a)
{
	double f = 0;

	for (int k = 60; k > 0; k--) {
		int m = k / 2;
		double b = a + 2 * m, d = k % 2 ? -(a + m) * (2 * a + m) * x / (b * (b + 1)) : m * (a - m) * x / ((b - 1) * b);

		f = d / (1 + f);
	}
	return exp(a * (log(x) + log1p(-x))) / (a * (1 + f));
}

double beta_quantile(double p, double a)
{
	double whole = exp(2 * lgamma(a) - lgamma(2 * a)), lo = 0, hi = .5;

	if (p > .5)
		return 1 - beta_quantile(1 - p, a);
	if (p <= 0)
		return 0;
	for (double x = .25; x > lo && x < hi; x = .5 * (lo + hi))
		*(incomplete(x, a) < p * whole ? &lo : &hi) = x;
	return .5 * (lo + hi);
}

/* Half the log-SNR. */
static double log_ratio(double t)
{
	return log1p(-t) - log(t);
}

static double placed(enum flow_sigmas how, double first, double last, double u)
{
	switch (how) {
	case FLOW_KARRAS:
		return pow(pow(first, 1 / 7.) + u * (pow(last, 1 / 7.) - pow(first, 1 / 7.)), 7);
	case FLOW_EXPONENTIALS:
		return exp(log(first) + u * (log(last) - log(first)));
	case FLOW_QUADRATIC:
		return pow(sqrt(first) + u * (sqrt(last) - sqrt(first)), 2);
	case FLOW_LOGSNR:
		return u > 0 ? 1 / (1 + exp((1 - u) * log_ratio(fmin(first, 1 - LEAST)) + u * log_ratio(fmin(last, 1 - LEAST)))) : first;
	default:
		return last + beta_quantile(1 - u, .6) * (first - last);
	}
}

/* In the scheduler's order. The scheduler shifts its last time once in advance and then again with all times; mu moves it only once. */
void flow_grid_times(const struct flow_grid *g, int64_t steps, int last, double *t)
{
	double n = (double)steps, least = g->dynamic ? LEAST : shifted(g->shift, LEAST);
	double m = g->law == FLOW_LINEAR ? g->mu : exp(g->mu), first, end;

	for (int64_t i = 0; i < steps; i++) {
		t[i] = !last ? 1 - (double)i / n : steps > 1 ? 1 + (least - 1) * (double)i / (n - 1) : 1;
		t[i] = g->dynamic ? m / (m + (1 / t[i] - 1)) : shifted(g->shift, t[i]);
	}
	t[steps] = 0;
	end = t[steps - 1];
	for (int64_t i = 0; i < steps && g->terminal > 0 && end < 1; i++)
		t[i] = 1 - (1 - t[i]) * (1 - g->terminal) / (1 - end);
	first = t[0];
	end = t[steps - 1];
	for (int64_t i = 0; i < steps && g->sigmas; i++)
		t[i] = placed(g->sigmas, first, end, steps > 1 ? (double)i / (n - 1) : 0);
	for (int64_t i = 0; i < steps; i++)
		t[i] = fmin(t[i], 1); /* rounding */
}

double *flow_grid_new(const struct flow_grid *g, int64_t steps, int last)
{
	double *t;

	if (!flow_grid_given(g))
		return NULL;
	t = mem_alloc(((size_t)steps + 1) * sizeof *t);
	flow_grid_times(g, steps, last, t);
	return t;
}

double flow_line_mu(const struct flow_line *l, int64_t tokens)
{
	double slope = (l->max_shift - l->base_shift) / (double)(l->max_tokens - l->base_tokens);

	return (double)tokens * slope + (l->base_shift - slope * (double)l->base_tokens);
}
