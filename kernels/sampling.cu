/* The steps of samplers on the GPU: MIX, CONVERT, COMBINE, ADVANCE. Compiled with -fmad=false, so that each operation is rounded as on the CPU. */
#include "kernels/launch.h"

struct row_major {
	struct reals a;
	int64_t step;
};

static struct row_major rows_of(const struct array *a)
{
	struct row_major r = {reals_of(a), a->data ? a->stride[0] : 0};

	return r;
}

static __device__ inline float at(struct row_major r, int64_t b, int64_t i)
{
	return reals_get(r.a, b * r.step + i);
}

static __global__ void mix_any(int64_t rows, int64_t cols, struct row_major y, struct row_major v, struct row_major null, const int32_t *index,
                               const int32_t *begun, struct reals w, float s)
{
	for (int64_t k = thread_index(); k < rows * cols; k += thread_count()) {
		int64_t b = k / cols, i = k % cols, to = index[b] * y.step + i;
		float u = at(v, b, i), z;

		if (null.a.p) {
			z = at(null, b, i);
			u = z + s * (u - z);
		}
		u = reals_get(w, b) * u;
		reals_set(y.a, to, begun[b] ? reals_get(y.a, to) + u : u);
	}
}

static void mix_run(const struct op_call *c)
{
	const struct array *v = &c->in[0];

	if (array_count(v))
		LAUNCH(c, mix_any, blocks_for(array_count(v)), BLOCK, v->shape[0], v->shape[1], rows_of(&c->out[0]), rows_of(v), rows_of(&c->in[1]),
		       (const int32_t *)c->in[2].data, (const int32_t *)c->in[3].data, reals_of(&c->in[4]), (float)c->attr.mix.guidance);
}

struct conversion {
	int identity, minus, limit;
	double a, b, t, blend;
};

static __global__ void convert_any(int64_t rows, int64_t cols, struct conversion k, struct row_major v, struct row_major x, struct row_major out,
                                   struct reals mean)
{
	for (int64_t j = thread_index(); j < rows * cols; j += thread_count()) {
		int64_t b = j / cols, i = j % cols;
		float o = at(out, b, i), in = at(x, b, i);
		double x0 = k.a * (double)in + k.b * (double)o;

		if (k.limit)
			x0 = fmin(fmax(x0, -(double)k.limit), (double)k.limit);
		if (mean.p)
			x0 += k.blend * ((double)reals_get(mean, i) - x0);
		reals_set(v.a, b * v.step + i, k.identity ? o : (float)(k.minus ? (double)o - x0 : ((double)in - x0) / k.t));
	}
}

static void convert_run(const struct op_call *c)
{
	const struct array *v = &c->out[0];
	struct conversion k = {c->attr.convert.identity, c->attr.convert.minus_x0, (int)c->attr.convert.limit, c->attr.convert.a,
	                       c->attr.convert.b,        c->attr.convert.t,        c->attr.convert.blend};

	if (array_count(v))
		LAUNCH(c, convert_any, blocks_for(array_count(v)), BLOCK, v->shape[0], v->shape[1], k, rows_of(v), rows_of(&c->in[0]),
		       rows_of(&c->in[1]), reals_of(&c->in[2]));
}

struct combination {
	struct row_major x[OP_COMBINED];
	double f[OP_COMBINED], limit;
};

static __global__ void combine_any(int64_t rows, int64_t cols, struct row_major y, struct combination c)
{
	for (int64_t j = thread_index(); j < rows * cols; j += thread_count()) {
		int64_t b = j / cols, i = j % cols;
		double u = 0;

		for (int k = 0; k < OP_COMBINED; k++)
			u += c.x[k].a.p ? c.f[k] * (double)at(c.x[k], b, i) : 0;
		reals_set(y.a, b * y.step + i, (float)(c.limit > 0 ? fmin(fmax(u, -c.limit), c.limit) : u));
	}
}

static void combine_run(const struct op_call *c)
{
	const struct array *y = &c->out[0], none = {};
	struct combination k;

	for (int i = 0; i < OP_COMBINED; i++) {
		k.x[i] = rows_of(i < c->nin ? &c->in[i] : &none);
		k.f[i] = c->attr.combine.f[i];
	}
	k.limit = c->attr.combine.limit;
	if (array_count(y))
		LAUNCH(c, combine_any, blocks_for(array_count(y)), BLOCK, y->shape[0], y->shape[1], rows_of(y), k);
}

static __global__ void advance_any(int64_t n, struct reals y, struct reals x, struct reals v, struct reals v2, double h)
{
	for (int64_t i = thread_index(); i < n; i += thread_count()) {
		double u = (double)reals_get(v, i);

		if (v2.p)
			u += (double)reals_get(v2, i);
		u *= h;
		reals_set(y, i, (float)(x.p ? (double)reals_get(x, i) + u : u));
	}
}

static void advance_run(const struct op_call *c)
{
	int64_t n = array_count(&c->out[0]);

	if (n)
		LAUNCH(c, advance_any, blocks_for(n), BLOCK, n, reals_of(&c->out[0]), reals_of(&c->in[0]), reals_of(&c->in[1]), reals_of(&c->in[2]),
		       c->attr.advance.h);
}

extern "C" {
extern const struct kernel kernel_mix_cuda = {mix_run, NULL};
extern const struct kernel kernel_convert_cuda = {convert_run, NULL};
extern const struct kernel kernel_combine_cuda = {combine_run, NULL};
extern const struct kernel kernel_advance_cuda = {advance_run, NULL};
}
