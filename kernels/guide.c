/* Guidance on the CPU: GUIDE. A row is one task; its sums are added in index order. */
#include "kernels/device.h"

#include <math.h>

#include "kernels/walk.h"

/* One row of each array; NULL if absent. */
struct row {
	const struct op_call *call;
	const real *x, *c, *u, *m;
	real *y, *next;
	int64_t n;
};

static real *row_of(const struct array *a, int64_t i)
{
	return a->data ? (real *)a->data + i * a->stride[0] : NULL;
}

/* P(z) at element i. */
static double point(const struct row *r, const real *z, int64_t i)
{
	double v = r->call->attr.guide.b * (double)z[i];

	return r->x ? r->call->attr.guide.a * (double)r->x[i] + v : v;
}

static void put(const struct row *r, int64_t i, double result)
{
	r->y[i] = (real)((double)r->c[i] + (result - point(r, r->c, i)) / r->call->attr.guide.b);
}

/* P(fit u) + scale (P(c) - P(fit u)), where P(fit u) is fit P(u). */
static void linear(const struct row *r, double fit)
{
	double scale = r->call->attr.guide.scale;

	for (int64_t i = 0; i < r->n; i++) {
		double u = fit * point(r, r->u, i);

		put(r, i, u + scale * (point(r, r->c, i) - u));
	}
}

static void fitted(const struct row *r)
{
	double dot = 0, square = 0;

	for (int64_t i = 0; i < r->n; i++) {
		double u = point(r, r->u, i);

		dot += point(r, r->c, i) * u;
		square += u * u;
	}
	linear(r, dot / (square + 1e-8));
}

/* m' at element i, once it was stored. */
static double difference(const struct row *r, int64_t i)
{
	return r->next ? (double)r->next[i] : point(r, r->c, i) - point(r, r->u, i);
}

static void projected(const struct row *r)
{
	double limit = r->call->attr.guide.limit, square = 0, along = 0, length = 0, shrink = 1, step = r->call->attr.guide.scale - 1;

	for (int64_t i = 0; i < r->n; i++) {
		double c = point(r, r->c, i), m;

		if (r->next)
			r->next[i] = (real)(c - point(r, r->u, i) + (r->m ? r->call->attr.guide.momentum * (double)r->m[i] : 0));
		m = difference(r, i);
		square += m * m;
		along += m * c;
		length += c * c;
	}
	if (limit > 0 && square > limit * limit)
		shrink = limit / sqrt(square);
	along = length > 0 ? (1 - r->call->attr.guide.parallel) * along / length : 0;
	for (int64_t i = 0; i < r->n; i++) {
		double c = point(r, r->c, i);

		put(r, i, c + step * shrink * (difference(r, i) - along * c));
	}
}

static void rescaled(const struct row *r)
{
	double blend = r->call->attr.guide.blend, mean_c = 0, mean_u = 0, var_c = 0, var_u = 0, factor;

	for (int64_t i = 0; i < r->n; i++) {
		mean_c += point(r, r->c, i);
		mean_u += point(r, r->u, i);
	}
	mean_c /= (double)r->n;
	mean_u /= (double)r->n;
	for (int64_t i = 0; i < r->n; i++) {
		double c = point(r, r->c, i) - mean_c, u = point(r, r->u, i) - mean_u;

		var_c += c * c;
		var_u += u * u;
	}
	factor = var_u > 0 ? blend * sqrt(var_c / var_u) + 1 - blend : 1;
	for (int64_t i = 0; i < r->n; i++)
		put(r, i, factor * point(r, r->u, i));
}

static void guide_task(void *arg, int64_t task, int worker)
{
	const struct op_call *call = arg;
	const struct row r = {call,
	                      call->attr.guide.a != 0 ? row_of(&call->in[0], task) : NULL,
	                      row_of(&call->in[1], task),
	                      row_of(&call->in[2], task),
	                      row_of(&call->in[3], task),
	                      row_of(&call->out[0], task),
	                      row_of(&call->out[1], task),
	                      call->in[1].shape[1]};

	(void)worker;
	switch (call->attr.guide.rule) {
	case GUIDE_LINEAR:
		linear(&r, 1);
		break;
	case GUIDE_FIT:
		fitted(&r);
		break;
	case GUIDE_PROJECT:
		projected(&r);
		break;
	case GUIDE_STD:
		rescaled(&r);
		break;
	case GUIDE_STILL:
		for (int64_t i = 0; i < r.n; i++)
			put(&r, i, 0);
	}
}

static void guide_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->in[1]), c->in[1].shape[0], guide_task, (void *)(uintptr_t)c);
}

const struct kernel REAL_NAME(kernel_guide) = {guide_run, NULL};
