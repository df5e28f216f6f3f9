/* POOL and its gradient on the CPU. Forward, a task is a row of the output; in the gradient, up to CHANNELS channels of a sample. */
#include "kernels/walk.h"
#include "kernels/simd.h"

enum { CHANNELS = 64, WIDE = 4 /* vectors at a time */ };

struct windows {
	const struct op_call *c;
	const real *x, *dy;
	real *out; /* y, or dx */
	int64_t kind, k, step, pad, h, w, ho, wo, ch, cuts;
};

static void windows_init(struct windows *p, const struct op_call *c, const struct array *x, const struct array *y)
{
	const struct op_attr *a = &c->attr;

	*p = (struct windows){.c = c,
	                      .x = x->data,
	                      .out = c->out[0].data,
	                      .kind = a->pool.kind,
	                      .k = a->pool.k,
	                      .step = a->pool.stride,
	                      .pad = a->pool.pad,
	                      .h = x->shape[1],
	                      .w = x->shape[2],
	                      .ch = x->shape[3],
	                      .ho = y->shape[1],
	                      .wo = y->shape[2]};
	p->cuts = (p->ch + CHANNELS - 1) / CHANNELS;
}

/* The part of a window inside the image. */
struct window {
	int64_t y0, y1, x0, x1;
	real share; /* the factor of an average: 1 / number of pixels */
};

static struct window window_at(const struct windows *p, int64_t oy, int64_t ox)
{
	int64_t y = oy * p->step - p->pad, x = ox * p->step - p->pad;
	struct window v = {y < 0 ? 0 : y, y + p->k < p->h ? y + p->k : p->h, x < 0 ? 0 : x, x + p->k < p->w ? x + p->k : p->w, 0};

	v.share = 1 / (real)(p->kind == POOL_AVERAGE_ALL ? p->k * p->k : (v.y1 - v.y0) * (v.x1 - v.x0));
	return v;
}

static inline __attribute__((always_inline)) vreal lanes_load(const real *x, int lanes)
{
	return lanes == VLEN ? v_load(x) : v_load_part(x, lanes);
}

/* Reduce a window with corner x, `wide` vectors of channels, the last of `lanes`. A maximum starts from the first value, a sum from -0, which
 * does not change it. NaN propagates. */
static inline __attribute__((always_inline)) void window_reduce(real *y, const real *x, const struct windows *p, const struct window *v, int most,
                                                                int wide, int lanes)
{
	vreal z[WIDE];

#pragma GCC unroll 8
	for (int k = 0; k < wide; k++)
		z[k] = most ? lanes_load(x + k * VLEN, k + 1 < wide ? VLEN : lanes) : v_splat((real)-0.);
	for (int64_t i = 0; i < v->y1 - v->y0; i++)
		for (int64_t j = 0; j < v->x1 - v->x0; j++) {
			const real *from = x + (i * p->w + j) * p->ch;

#pragma GCC unroll 8
			for (int k = 0; k < wide; k++) {
				vreal a = lanes_load(from + k * VLEN, k + 1 < wide ? VLEN : lanes);

				if (most)
					z[k] = v_pick((a > z[k]) | (a != a), a, z[k]);
				else
					z[k] += a;
			}
		}
#pragma GCC unroll 8
	for (int k = 0; k < wide; k++) {
		if (!most)
			z[k] *= v_splat(v->share);
		if (k + 1 < wide || lanes == VLEN)
			v_store(y + k * VLEN, z[k]);
		else
			v_store_part(y + k * VLEN, z[k], lanes);
	}
}

static inline __attribute__((always_inline)) void pixel_reduce(real *y, const real *x, const struct windows *p, const struct window *v, int most)
{
	int64_t c = 0;

	for (; c + WIDE * VLEN <= p->ch; c += WIDE * VLEN)
		window_reduce(y + c, x + c, p, v, most, WIDE, VLEN);
	for (; c < p->ch; c += VLEN)
		window_reduce(y + c, x + c, p, v, most, 1, p->ch - c < VLEN ? (int)(p->ch - c) : VLEN);
}

static void pool_task(void *arg, int64_t task, int worker)
{
	const struct windows *p = arg;
	int64_t b = task / p->ho, oy = task % p->ho;

	(void)worker;
	for (int64_t ox = 0; ox < p->wo; ox++) {
		struct window v = window_at(p, oy, ox);
		const real *x = p->x + ((b * p->h + v.y0) * p->w + v.x0) * p->ch;
		real *y = p->out + (task * p->wo + ox) * p->ch;

		if (p->kind == POOL_MAX)
			pixel_reduce(y, x, p, &v, 1);
		else
			pixel_reduce(y, x, p, &v, 0);
	}
}

static void pool_run_op(const struct op_call *c)
{
	struct windows p;

	windows_init(&p, c, &c->in[0], &c->out[0]);
	walk_run(c, array_count(&c->in[0]), c->in[0].shape[0] * p.ho, pool_task, &p);
}

const struct kernel REAL_NAME(kernel_pool) = {pool_run_op, NULL};

/* Add the gradient of one channel of a window to its first maximum. */
static void give_largest(const struct windows *p, const struct window *v, int64_t b, int64_t c, real dy)
{
	int64_t best = -1;

	for (int64_t i = v->y0; i < v->y1; i++)
		for (int64_t j = v->x0; j < v->x1; j++) {
			int64_t at = ((b * p->h + i) * p->w + j) * p->ch + c;

			if (best < 0 || p->x[at] > p->x[best])
				best = at;
		}
	p->out[best] += dy;
}

static void give_average(const struct windows *p, const struct window *v, int64_t b, int64_t c, real dy)
{
	for (int64_t i = v->y0; i < v->y1; i++)
		for (int64_t j = v->x0; j < v->x1; j++)
			p->out[((b * p->h + i) * p->w + j) * p->ch + c] += dy * v->share;
}

static void grad_task(void *arg, int64_t task, int worker)
{
	const struct windows *p = arg;
	int64_t b = task / p->cuts, first = task % p->cuts * CHANNELS, last = first + CHANNELS < p->ch ? first + CHANNELS : p->ch;

	(void)worker;
	for (int64_t i = 0; i < p->h * p->w; i++)
		memset(p->out + (b * p->h * p->w + i) * p->ch + first, 0, (size_t)(last - first) * sizeof *p->out);
	for (int64_t o = 0; o < p->ho * p->wo; o++) {
		struct window v = window_at(p, o / p->wo, o % p->wo);

		for (int64_t c = first; c < last; c++)
			(p->kind == POOL_MAX ? give_largest : give_average)(p, &v, b, c, p->dy[(b * p->ho * p->wo + o) * p->ch + c]);
	}
}

static void pool_grad_run(const struct op_call *c)
{
	struct windows p;

	windows_init(&p, c, &c->in[1], &c->in[0]);
	p.dy = c->in[0].data;
	walk_run(c, array_count(&c->in[1]), c->in[1].shape[0] * p.cuts, grad_task, &p);
}

const struct kernel REAL_NAME(kernel_pool_grad) = {pool_grad_run, NULL};
