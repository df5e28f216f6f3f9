#include "kernels/device.h"

#include "kernels/walk.h"

enum { CHANNELS = 16 /* of a task of COL2IM */ };

/* A picture (C, H, W) and its patches (Ho Wo, C k k): patch (oy, ox) has its corner at (oy step - pad, ox step - pad). */
struct patches {
	const struct op_call *c;
	real *x, *y;
	int64_t channels, h, w, k, step, pad, ho, wo, cuts;
};

static void patches_init(struct patches *p, const struct op_call *c, const struct array *x, const struct array *y)
{
	*p = (struct patches){
	    .c = c, .x = x->data, .y = y->data, .channels = x->shape[1], .h = x->shape[2], .w = x->shape[3],
	    .k = c->attr.i[0], .step = c->attr.i[1], .pad = c->attr.i[2],
	};
	p->ho = (p->h + 2 * p->pad - p->k) / p->step + 1;
	p->wo = (p->w + 2 * p->pad - p->k) / p->step + 1;
	p->cuts = (p->channels + CHANNELS - 1) / CHANNELS;
}

/* The part of a patch's row that lies inside the picture: kx in [*from, *to). */
static void inside(const struct patches *p, int64_t left, int64_t *from, int64_t *to)
{
	*from = left < 0 ? -left : 0;
	*to = p->w - left < p->k ? p->w - left : p->k;
	*from = *from < p->k ? *from : p->k;
	*to = *to > *from ? *to : *from;
}

static void gather_row(real *restrict y, const real *restrict x, int64_t n, int64_t from, int64_t to)
{
	for (int64_t i = 0; i < from; i++)
		y[i] = 0;
	for (int64_t i = from; i < to; i++)
		y[i] = x[i];
	for (int64_t i = to; i < n; i++)
		y[i] = 0;
}

/* One row of patches of one picture. */
static void im2col_task(void *arg, int64_t task, int worker)
{
	const struct patches *p = arg;
	int64_t b = task / p->ho, oy = task % p->ho, top = oy * p->step - p->pad;
	real *y = p->y + task * p->wo * p->channels * p->k * p->k;

	(void)worker;
	for (int64_t ox = 0; ox < p->wo; ox++) {
		int64_t left = ox * p->step - p->pad, from, to;

		inside(p, left, &from, &to);
		for (int64_t c = 0; c < p->channels; c++)
			for (int64_t ky = 0; ky < p->k; ky++, y += p->k) {
				int64_t row = top + ky;

				if (row < 0 || row >= p->h)
					memset(y, 0, (size_t)p->k * sizeof *y);
				else
					gather_row(y, p->x + ((b * p->channels + c) * p->h + row) * p->w + left, p->k, from, to);
			}
	}
}

static void im2col_run(const struct op_call *c)
{
	struct patches p;

	patches_init(&p, c, &c->in[0], &c->out[0]);
	walk_run(c, array_count(&c->out[0]), c->in[0].shape[0] * p.ho, im2col_task, &p);
}

/* Some channels of one picture: patches are added in the order of (oy, ox, ky, kx). */
static void col2im_task(void *arg, int64_t task, int worker)
{
	const struct patches *p = arg;
	int64_t b = task / p->cuts, first = task % p->cuts * CHANNELS;
	int64_t last = first + CHANNELS < p->channels ? first + CHANNELS : p->channels, area = p->k * p->k;
	real *x = p->x + b * p->channels * p->h * p->w;

	(void)worker;
	memset(x + first * p->h * p->w, 0, (size_t)((last - first) * p->h * p->w) * sizeof *x);
	for (int64_t o = 0; o < p->ho * p->wo; o++) {
		int64_t top = o / p->wo * p->step - p->pad, left = o % p->wo * p->step - p->pad, from, to;
		const real *y = p->y + (b * p->ho * p->wo + o) * p->channels * area;

		inside(p, left, &from, &to);
		for (int64_t c = first; c < last; c++)
			for (int64_t ky = 0; ky < p->k; ky++) {
				int64_t row = top + ky;

				if (row < 0 || row >= p->h)
					continue;
				for (int64_t kx = from; kx < to; kx++)
					x[(c * p->h + row) * p->w + left + kx] += y[c * area + ky * p->k + kx];
			}
	}
}

static void col2im_run(const struct op_call *c)
{
	struct patches p;

	patches_init(&p, c, &c->out[0], &c->in[0]);
	walk_run(c, array_count(&c->in[0]), c->out[0].shape[0] * p.cuts, col2im_task, &p);
}

const struct kernel REAL_NAME(kernel_im2col) = {im2col_run, NULL};
const struct kernel REAL_NAME(kernel_col2im) = {col2im_run, NULL};
