/* Submits the arithmetic of sampling to a device as ops. */
#include "diffusion/ondevice.h"

#include <assert.h>

static struct array vector(const float *p, int64_t n)
{
	return array_vector(DT_F32, (void *)(uintptr_t)p, n);
}

static struct array matrix(const float *p, int64_t rows, int64_t cols, int64_t step)
{
	return (struct array){.data = (void *)(uintptr_t)p, .dtype = DT_F32, .rank = 2, .shape = {rows, cols}, .stride = {step, 1}};
}

static struct array integers(const int32_t *p, int64_t n)
{
	return array_vector(DT_I32, (void *)(uintptr_t)p, n);
}

void ondevice_advance(struct device *d, float *y, const float *x, double h, const float *v, const float *v2, int64_t n)
{
	struct op_call c = {.nin = 3, .nout = 1, .in = {vector(x, n), vector(v, n), vector(v2, n)}, .out = {vector(y, n)}, .attr = {.advance = {h}}};

	device_run(d, OP_ADVANCE, &c, NULL);
}

void ondevice_combine(struct device *d, float *y, int64_t y_step, const struct term *t, int terms, double limit, int64_t n, int64_t cols)
{
	struct op_call c = {.nin = OP_COMBINED, .nout = 1, .out = {matrix(y, n, cols, y_step)}, .attr = {.combine.limit = limit}};
	int k = 0;

	for (int i = 0; i < terms; i++) {
		if (t[i].f == 0)
			continue;
		assert(k < OP_COMBINED);
		c.in[k] = matrix(t[i].x, n, cols, t[i].step);
		c.attr.combine.f[k++] = t[i].f;
	}
	device_run(d, OP_COMBINE, &c, NULL);
}

void ondevice_exp(struct device *d, float *x, int64_t n)
{
	struct op_call c = {.nin = 1, .nout = 1, .in = {vector(x, n)}, .out = {vector(x, n)}, .attr = {.unary = {UNARY_EXP}}};

	device_run(d, OP_UNARY, &c, NULL);
}

void ondevice_multiply(struct device *d, float *y, const float *a, const float *b, int64_t n)
{
	struct op_call c = {.nin = 2, .nout = 1, .in = {vector(a, n), vector(b, n)}, .out = {vector(y, n)}};

	device_run(d, OP_MUL, &c, NULL);
}

void ondevice_gather(struct device *d, float *y, const float *x, const int32_t *index, int64_t n, int64_t rows, int64_t cols)
{
	struct op_call c = {.nin = 2, .nout = 1, .in = {matrix(x, rows, cols, cols), integers(index, n)}, .out = {matrix(y, n, cols, cols)}};

	device_run(d, OP_EMBED, &c, NULL);
}

void ondevice_mix(struct device *d, float *y, int64_t rows, const float *v, const float *null, double cfg, const struct group_rows *g, int64_t n,
                  int64_t cols, int64_t step)
{
	struct op_call c = {
	    .nin = 5,
	    .nout = 1,
	    .in = {matrix(v, n, cols, step), matrix(null, n, cols, step), integers(g->index, n), integers(g->begun, n), vector(g->w, n)},
	    .out = {matrix(y, rows, cols, step)},
	    .attr = {.mix = {cfg}}};

	device_run(d, OP_MIX, &c, NULL);
}

void ondevice_guide(struct device *d, const struct op_attr *rule, float *y, const float *x, const float *c, const float *u, const float *m,
                    float *next, int64_t n, int64_t cols, int64_t step, int64_t x_step)
{
	struct op_call call = {.nin = 4,
	                       .nout = 2,
	                       .in = {matrix(x, n, cols, x_step), matrix(c, n, cols, step), matrix(u, n, cols, step), matrix(m, n, cols, x_step)},
	                       .out = {matrix(y, n, cols, step), matrix(next, n, cols, x_step)},
	                       .attr = *rule};

	device_run(d, OP_GUIDE, &call, NULL);
}

void ondevice_convert(struct device *d, const struct convert *k, float *v, const float *x, const float *out, const float *mean, int64_t n,
                      int64_t cols, int64_t out_cols)
{
	struct op_call c = {.nin = 3,
	                    .nout = 1,
	                    .in = {matrix(x, n, cols, cols), matrix(out, n, cols, out_cols), vector(mean, cols)},
	                    .out = {matrix(v, n, cols, cols)},
	                    .attr = {.convert = {.identity = k->identity,
	                                         .minus_x0 = k->eps_minus,
	                                         .limit = k->clamp ? CONVERT_X0_LIMIT : 0,
	                                         .a = k->a,
	                                         .b = k->b,
	                                         .t = k->t,
	                                         .blend = k->blend}}};

	device_run(d, OP_CONVERT, &c, NULL);
}
