/* The steps of samplers on the CPU: MIX, CONVERT, COMBINE, ADVANCE. */
#include "kernels/device.h"

#include <math.h>

#include "kernels/walk.h"

static real *row(const struct array *a, int64_t i)
{
	return (real *)a->data + i * a->stride[0];
}

static void mix_row(const struct op_call *c, int64_t b)
{
	const struct array *v = &c->in[0], *null = &c->in[1];
	int64_t n = v->shape[1];
	real *restrict y = row(&c->out[0], ((const int32_t *)c->in[2].data)[b]);
	const real *restrict a = row(v, b), *restrict z = null->data ? row(null, b) : a;
	real w = ((const real *)c->in[4].data)[b], s = (real)c->attr.mix.guidance;
	int begun = ((const int32_t *)c->in[3].data)[b];

	if (!null->data && begun)
		for (int64_t i = 0; i < n; i++)
			y[i] += w * a[i];
	else if (!null->data)
		for (int64_t i = 0; i < n; i++)
			y[i] = w * a[i];
	else if (begun)
		for (int64_t i = 0; i < n; i++)
			y[i] += w * (z[i] + s * (a[i] - z[i]));
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = w * (z[i] + s * (a[i] - z[i]));
}

static void mix_task(void *arg, int64_t task, int worker)
{
	(void)worker;
	mix_row(arg, task);
}

static void mix_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->in[0]), c->in[0].shape[0], mix_task, (void *)(uintptr_t)c);
}

static void convert_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *mean = &c->in[2];
	const real *x = row(&c->in[0], task), *out = row(&c->in[1], task), *m = mean->data;
	real *v = row(&c->out[0], task);
	double limit = (double)c->attr.convert.limit, a = c->attr.convert.a, b = c->attr.convert.b, t = c->attr.convert.t,
	       blend = c->attr.convert.blend;
	int identity = c->attr.convert.identity, minus_x0 = c->attr.convert.minus_x0;

	(void)worker;
	for (int64_t i = 0; i < c->out[0].shape[1]; i++) {
		double x0 = a * (double)x[i] + b * (double)out[i];

		if (identity) {
			v[i] = out[i];
			continue;
		}
		if (limit > 0)
			x0 = fmin(fmax(x0, -limit), limit);
		if (m)
			x0 += blend * ((double)m[i] - x0);
		v[i] = (real)(minus_x0 ? (double)out[i] - x0 : ((double)x[i] - x0) / t);
	}
}

static void convert_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->out[0]), c->out[0].shape[0], convert_task, (void *)(uintptr_t)c);
}

static void combine_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const double *f = c->attr.combine.f, limit = c->attr.combine.limit;
	real *y = row(&c->out[0], task);
	const real *x[OP_COMBINED];

	(void)worker;
	for (int k = 0; k < OP_COMBINED; k++)
		x[k] = k < c->nin && c->in[k].data ? row(&c->in[k], task) : NULL;
	for (int64_t i = 0; i < c->out[0].shape[1]; i++) {
		double u = 0;

		for (int k = 0; k < OP_COMBINED; k++)
			u += x[k] ? f[k] * (double)x[k][i] : 0;
		y[i] = (real)(limit > 0 ? fmin(fmax(u, -limit), limit) : u);
	}
}

static void combine_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->out[0]), c->out[0].shape[0], combine_task, (void *)(uintptr_t)c);
}

static void advance_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	int64_t at = task * WALK_GRAIN, count = array_count(&c->out[0]), n = count - at < WALK_GRAIN ? count - at : WALK_GRAIN;
	const real *x = c->in[0].data, *v = (const real *)c->in[1].data + at, *v2 = c->in[2].data;
	real *y = (real *)c->out[0].data + at;
	double h = c->attr.advance.h;

	(void)worker;
	x = x ? x + at : NULL;
	v2 = v2 ? v2 + at : NULL;
	for (int64_t i = 0; i < n; i++) {
		double u = h * (v2 ? (double)v[i] + (double)v2[i] : (double)v[i]);

		y[i] = (real)(x ? (double)x[i] + u : u);
	}
}

static void advance_run(const struct op_call *c)
{
	int64_t n = array_count(&c->out[0]);

	walk_run(c, n, (n + WALK_GRAIN - 1) / WALK_GRAIN, advance_task, (void *)(uintptr_t)c);
}

const struct kernel REAL_NAME(kernel_mix) = {mix_run, NULL};
const struct kernel REAL_NAME(kernel_convert) = {convert_run, NULL};
const struct kernel REAL_NAME(kernel_combine) = {combine_run, NULL};
const struct kernel REAL_NAME(kernel_advance) = {advance_run, NULL};
