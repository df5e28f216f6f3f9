/* CONV and its gradients on the CPU, as matrix products with patches, rows of (ky, kx, channel). The product copies a few patches at a time
 * when it needs them; they stay in the first-level cache while all columns of the weights are applied. */
#include <assert.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/gemm.h"
#include "kernels/gemm_library.h"
#include "kernels/real.h"
#include "kernels/winograd.h"

#define epilogue REAL_NAME(gemm_epilogue)

extern const struct kernel REAL_NAME(kernel_unary);

/* The patches of an image x (B, H, W, C): one of kh x kw for every (oy, ox) of (Ho, Wo), with its corner at (oy step - top, ox step - left). */
struct patches {
	const real *x;
	int64_t stride[3]; /* of B, H, W */
	int64_t h, w, c, ho, wo, kh, kw, step, top, left;
};

static void patches_of(struct patches *p, const struct op_call *call, const struct array *x, const struct array *y, const struct array *w)
{
	*p = (struct patches){
	    .x = x->data,
	    .h = x->shape[1],
	    .w = x->shape[2],
	    .c = x->shape[3],
	    .ho = y->shape[1],
	    .wo = y->shape[2],
	    .kh = w->shape[1],
	    .kw = w->shape[2],
	    .step = call->attr.conv.stride,
	    .top = call->attr.conv.top,
	    .left = call->attr.conv.left,
	};
	memcpy(p->stride, x->stride, sizeof p->stride);
}

/* Copy n elements from `at` of a patch's row of kw pixels that begins at column `left`; line: the image's row, NULL if outside. Returns
 * the end of what it wrote. */
static real *patch_line(const struct patches *p, const real *line, int64_t left, int64_t at, int64_t n, real *out)
{
	int64_t from = left < 0 ? -left * p->c : 0, to = (p->w - left < p->kw ? p->w - left : p->kw) * p->c, end = at + n;

	if (!line || from >= to)
		from = to = end;
	from = from < at ? at : from > end ? end : from;
	to = to < from ? from : to > end ? end : to;
	memset(out, 0, (size_t)(from - at) * sizeof *out);
	out += from - at;
	if (p->stride[2] == p->c && from < to) {
		memcpy(out, line + left * p->c + from, (size_t)(to - from) * sizeof *out);
		out += to - from;
	} else
		for (int64_t i = from; i < to;) {
			int64_t in = i % p->c, run = p->c - in < to - i ? p->c - in : to - i;

			memcpy(out, line + (left + i / p->c) * p->stride[2] + in, (size_t)run * sizeof *out);
			out += run;
			i += run;
		}
	memset(out, 0, (size_t)(end - to) * sizeof *out);
	return out + (end - to);
}

/* Write elements [at, at + n) of patch `row`. */
static void patch_make(const void *from, int64_t row, int64_t at, int64_t n, void *to)
{
	const struct patches *p = from;
	int64_t b = row / (p->ho * p->wo), o = row % (p->ho * p->wo), top = o / p->wo * p->step - p->top;
	int64_t left = o % p->wo * p->step - p->left, width = p->kw * p->c, y = top + at / width, begin = at % width;
	real *out = to;

	while (n > 0) {
		int64_t run = width - begin < n ? width - begin : n;
		const real *line = y >= 0 && y < p->h ? p->x + b * p->stride[0] + y * p->stride[1] : NULL;

		out = patch_line(p, line, left, begin, run, out);
		n -= run;
		begin = 0;
		y++;
	}
}

static int64_t row_stride(const struct array *a)
{
	int64_t stride = 0;
	int walks = array_row_stride(a, &stride);

	assert(walks);
	(void)walks;
	return stride;
}

static int present(const struct array *a, int n, int i)
{
	return i < n && a[i].data;
}

/* ---- forward ---- */

/* Whether each patch is one pixel and the pixels are rows at one stride, so that x itself is the matrix of patches. */
static int is_plain(const struct op_call *c, int64_t *stride)
{
	const struct array *x = &c->in[0], *w = &c->in[1];

	return w->shape[1] * w->shape[2] == 1 && c->attr.conv.stride == 1 && !c->attr.conv.top && !c->attr.conv.left &&
	       c->out[0].shape[1] == x->shape[1] && c->out[0].shape[2] == x->shape[2] && c->in[3].rank == 0 && !REAL_NAME(gemm_library)() &&
	       array_row_stride(x, stride);
}

static struct gemm forward(const struct op_call *c)
{
	const struct array *y = &c->out[0], *w = &c->in[1];
	int64_t k = w->shape[1] * w->shape[2] * w->shape[3];

	return (struct gemm){
	    .ta = GEMM_N, .tb = GEMM_T, .m = array_rows(y), .n = w->shape[0], .k = k, .lda = k, .ldb = k, .ldc = row_stride(y), .make = patch_make};
}

static size_t conv_scratch(const struct op_call *c, int workers)
{
	struct gemm g = forward(c);

	return REAL_NAME(winograd_takes)(c) ? REAL_NAME(winograd_scratch)(c, workers) : REAL_NAME(gemm_scratch)(&g, workers);
}

/* Run the product. Returns whether it applied the activation too. */
static int run_patches(const struct op_call *c)
{
	struct gemm g = forward(c);
	struct epilogue ep = {.bias = present(c->in, c->nin, 2) ? c->in[2].data : NULL};
	int act = c->attr.conv.act - 1;
	struct patches p;

	ep.act = act == UNARY_SILU ? GEMM_SILU : act == UNARY_GELU_TANH ? GEMM_GELU : act == UNARY_RELU ? GEMM_RELU : GEMM_LINEAR;
	if (present(c->in, c->nin, 3)) {
		ep.start = c->in[3].data;
		ep.ldstart = row_stride(&c->in[3]);
	}
	if (present(c->out, c->nout, 1)) {
		ep.aux = c->out[1].data;
		ep.ldaux = row_stride(&c->out[1]);
	}
	patches_of(&p, c, &c->in[0], &c->out[0], &c->in[1]);
	g.from = &p;
	if (is_plain(c, &g.lda))
		g.make = NULL;
	REAL_NAME(gemm_run)(c->pool, &g, c->out[0].data, c->in[0].data, c->in[1].data, &ep, c->scratch);
	return act < 0 || ep.act != GEMM_LINEAR;
}

static int run_winograd(const struct op_call *c)
{
	int act = c->attr.conv.act - 1;

	REAL_NAME(winograd_run)(c);
	return act < 0 || act == UNARY_SILU || act == UNARY_GELU_TANH || act == UNARY_RELU;
}

static void conv_run(const struct op_call *c)
{
	int act = c->attr.conv.act - 1;

	if (!(REAL_NAME(winograd_takes)(c) ? run_winograd : run_patches)(c)) {
		struct op_call u = {
		    .nin = 1, .nout = 1, .in = {c->out[0]}, .out = {c->out[0]}, .attr = {.unary = {(enum unary)act}}, .pool = c->pool};

		REAL_NAME(kernel_unary).run(&u);
	}
}

const struct kernel REAL_NAME(kernel_conv) = {conv_run, conv_scratch};

/* ---- gradient of the weights: dy^T times the patches ---- */

static struct gemm weight_gradient(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *dw = &c->out[0];
	int64_t k = dw->shape[1] * dw->shape[2] * dw->shape[3];

	return (struct gemm){.ta = GEMM_T,
	                     .tb = GEMM_N,
	                     .m = dw->shape[0],
	                     .n = k,
	                     .k = array_rows(dy),
	                     .lda = row_stride(dy),
	                     .ldb = k,
	                     .ldc = k,
	                     .make = patch_make};
}

static size_t conv_dw_scratch(const struct op_call *c, int workers)
{
	struct gemm g = weight_gradient(c);

	return REAL_NAME(gemm_scratch)(&g, workers);
}

static void conv_dw_run(const struct op_call *c)
{
	struct gemm g = weight_gradient(c);
	struct epilogue ep = {.row_sums = present(c->out, c->nout, 1) ? c->out[1].data : NULL};
	struct patches p;

	patches_of(&p, c, &c->in[1], &c->in[0], &c->out[0]);
	g.from = &p;
	REAL_NAME(gemm_run)(c->pool, &g, c->out[0].data, c->in[0].data, c->in[1].data, &ep, c->scratch);
}

const struct kernel REAL_NAME(kernel_conv_dw) = {conv_dw_run, conv_dw_scratch};

/* ---- gradient of the input: row (ky, kx, output channel) of a pixel holds dy of the outputs that read the pixel ---- */

/* Write elements [at, at + n) of such a row. p.x is dy and p.c its channels; (p.h, p.w) is the size of dy, (p.ho, p.wo) that of dx. */
static void share_make(const void *from, int64_t row, int64_t at, int64_t n, void *to)
{
	const struct patches *p = from;
	int64_t b = row / (p->ho * p->wo), i = row % (p->ho * p->wo), y = i / p->wo + p->top, x = i % p->wo + p->left;
	int64_t tap = at / p->c, begin = at % p->c;
	real *out = to;

	for (; n > 0; tap++, begin = 0) {
		int64_t run = p->c - begin < n ? p->c - begin : n, oy = y - tap / p->kw, ox = x - tap % p->kw;
		int inside = oy >= 0 && ox >= 0 && oy % p->step == 0 && ox % p->step == 0 && oy / p->step < p->h && ox / p->step < p->w;

		if (inside)
			memcpy(out, p->x + b * p->stride[0] + oy / p->step * p->stride[1] + ox / p->step * p->stride[2] + begin,
			       (size_t)run * sizeof *out);
		else
			memset(out, 0, (size_t)run * sizeof *out);
		out += run;
		n -= run;
	}
}

static struct gemm input_gradient(const struct op_call *c)
{
	const struct array *w = &c->in[1], *dx = &c->out[0];
	int64_t k = w->shape[0] * w->shape[1] * w->shape[2];

	return (struct gemm){.ta = GEMM_N,
	                     .tb = GEMM_N,
	                     .m = array_rows(dx),
	                     .n = w->shape[3],
	                     .k = k,
	                     .lda = k,
	                     .ldb = w->shape[3],
	                     .ldc = row_stride(dx),
	                     .make = share_make};
}

static size_t transposed_bytes(const struct op_call *c)
{
	return ((size_t)array_count(&c->in[1]) * sizeof(real) + 63) / 64 * 64;
}

static size_t conv_dx_scratch(const struct op_call *c, int workers)
{
	struct gemm g = input_gradient(c);

	return transposed_bytes(c) + REAL_NAME(gemm_scratch)(&g, workers);
}

/* Transpose w [O, taps, C] to [taps, O, C]. */
static void turn_task(void *arg, int64_t tap, int worker)
{
	const struct op_call *c = arg;
	const struct array *w = &c->in[1];
	int64_t taps = w->shape[1] * w->shape[2], o = w->shape[0], ch = w->shape[3];

	(void)worker;
	for (int64_t i = 0; i < o; i++)
		memcpy((real *)c->scratch + (tap * o + i) * ch, (const real *)w->data + (i * taps + tap) * ch, (size_t)ch * sizeof(real));
}

static void conv_dx_run(const struct op_call *c)
{
	struct gemm g = input_gradient(c);
	struct patches p;

	patches_of(&p, c, &c->in[0], &c->out[0], &c->in[1]);
	g.from = &p;
	pool_spread(c->pool, c->in[1].shape[1] * c->in[1].shape[2], turn_task, (void *)c);
	REAL_NAME(gemm_run)(c->pool, &g, c->out[0].data, c->in[0].data, c->scratch, NULL, (char *)c->scratch + transposed_bytes(c));
}

const struct kernel REAL_NAME(kernel_conv_dx) = {conv_dx_run, conv_dx_scratch};
