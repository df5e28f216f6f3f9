/* LINEAR and its two gradients on the CPU, by the matrix product of kernels/gemm.h. */
#include <assert.h>

#include "kernels/compact.h"
#include "kernels/device.h"
#include "kernels/gemm.h"
#include "kernels/gemm_bf16.h"
#include "kernels/real.h"

#define epilogue REAL_NAME(gemm_epilogue)

extern const struct kernel REAL_NAME(kernel_unary), REAL_NAME(kernel_unary_grad);

static int64_t row_stride(const struct array *a)
{
	int64_t stride = 0;
	int walks = array_row_stride(a, &stride);

	assert(walks);
	(void)walks;
	return stride;
}

static int64_t last(const struct array *a)
{
	return a->shape[a->rank - 1];
}

static int present(const struct array *a, int n, int i)
{
	return i < n && a[i].data;
}

/* y = x w^T: ins x, w. */
static struct gemm forward(const struct op_call *c)
{
	const struct array *x = &c->in[0];

	return (struct gemm){.ta = GEMM_N,
	                     .tb = GEMM_T,
	                     .m = array_rows(x),
	                     .n = last(&c->out[0]),
	                     .k = last(x),
	                     .lda = row_stride(x),
	                     .ldb = last(x),
	                     .ldc = row_stride(&c->out[0])};
}

static int is_bf16(const struct array *a)
{
	return a->dtype == DT_BF16;
}

/* Which matrices of a product of bf16 numbers are stored in bf16: A is in[0], B in[1], C out[0]. */
static unsigned stored(const struct op_call *c)
{
	return (is_bf16(&c->in[0]) ? GEMM_BF16_A : 0u) | (is_bf16(&c->in[1]) ? GEMM_BF16_B : 0u) | (is_bf16(&c->out[0]) ? GEMM_BF16_C : 0u);
}

/* The product in float, or of inputs rounded to bf16 if the device is set so. */
static size_t product_scratch(const struct op_call *c, const struct gemm *g, int workers)
{
	return device_has_bf16_products(c->device) ? gemm_bf16_scratch(g, stored(c), workers) : REAL_NAME(gemm_scratch)(g, workers);
}

static void product_run(const struct op_call *c, const struct gemm *g, const struct epilogue *ep)
{
	if (device_has_bf16_products(c->device))
		gemm_bf16_run(c->pool, (enum compact_isa)c->device->bf16_isa, g, stored(c), c->out[0].data, c->in[0].data, c->in[1].data,
		              (const void *)ep, c->scratch);
	else
		REAL_NAME(gemm_run)(c->pool, g, c->out[0].data, c->in[0].data, c->in[1].data, ep, c->scratch);
}

static int is_compact(const struct op_call *c)
{
	return c->in[1].dtype == DT_COMPACT;
}

static size_t linear_scratch(const struct op_call *c, int workers)
{
	struct gemm g = forward(c);

	if (is_compact(c))
		return compact_scratch(c->in[1].data, workers);
	return product_scratch(c, &g, workers);
}

static void run_compact(const struct op_call *c, const struct gemm *g, enum gemm_act act)
{
	struct gemm_epilogue_f32 ep = {.bias = present(c->in, c->nin, 2) ? c->in[2].data : NULL, .act = act};
	const struct compact *w = c->in[1].data;

	assert(sizeof(real) == sizeof(float) && w->n == g->n && w->k == g->k && !present(c->out, c->nout, 1));
	compact_run(c->pool, compact_isa(), w, g->m, c->out[0].data, g->ldc, c->in[0].data, g->lda, &ep, c->scratch);
}

static void run_dense(const struct op_call *c, const struct gemm *g, enum gemm_act act)
{
	struct epilogue ep = {.bias = present(c->in, c->nin, 2) ? c->in[2].data : NULL, .act = act};

	if (present(c->out, c->nout, 1)) {
		ep.aux = c->out[1].data;
		ep.ldaux = row_stride(&c->out[1]);
	}
	product_run(c, g, &ep);
}

/* SiLU and GELU (tanh) are fused into the product; other activations take a separate pass. */
static void linear_run(const struct op_call *c)
{
	struct gemm g = forward(c);
	int act = c->attr.linear.act - 1;
	enum gemm_act fused = act == UNARY_SILU ? GEMM_SILU : act == UNARY_GELU_TANH ? GEMM_GELU : GEMM_LINEAR;

	(is_compact(c) ? run_compact : run_dense)(c, &g, fused);
	assert(fused != GEMM_LINEAR || act < 0 || !is_bf16(&c->out[0]));
	if (act >= 0 && fused == GEMM_LINEAR) {
		struct op_call u = {
		    .nin = 1, .nout = 1, .in = {c->out[0]}, .out = {c->out[0]}, .attr = {.unary = {(enum unary)act}}, .pool = c->pool};

		REAL_NAME(kernel_unary).run(&u);
	}
}

const struct kernel REAL_NAME(kernel_linear) = {linear_run, linear_scratch};

/* dx = dy w: ins dy, w, and pre, which the product does not read. */
static struct gemm input_gradient(const struct op_call *c)
{
	const struct array *dy = &c->in[0];

	return (struct gemm){.ta = GEMM_N,
	                     .tb = GEMM_N,
	                     .m = array_rows(dy),
	                     .n = last(&c->out[0]),
	                     .k = last(dy),
	                     .lda = row_stride(dy),
	                     .ldb = last(&c->out[0]),
	                     .ldc = row_stride(&c->out[0])};
}

static size_t linear_dx_scratch(const struct op_call *c, int workers)
{
	struct gemm g = input_gradient(c);

	return product_scratch(c, &g, workers);
}

/* in[2], if present, holds the values before an activation, whose derivative multiplies dx. After a float product that is a pass of its own: its
 * exponential takes the time, not its memory traffic, so the product's epilogue would not be faster. A product of bf16 numbers does it in the
 * epilogue for GELU, because the exponential costs nothing while AMX tiles multiply. */
static void linear_dx_run(const struct op_call *c)
{
	struct gemm g = input_gradient(c);
	int act = c->attr.linear.act - 1, has_pre = present(c->in, c->nin, 2),
	    fused = has_pre && act == UNARY_GELU_TANH && device_has_bf16_products(c->device);
	struct epilogue ep = {.pre = fused ? c->in[2].data : NULL, .ldpre = fused ? row_stride(&c->in[2]) : 0};
	struct op_call u = {
	    .nin = 2, .nout = 1, .in = {c->out[0], c->in[2]}, .out = {c->out[0]}, .attr = {.unary = {(enum unary)act}}, .pool = c->pool};

	product_run(c, &g, fused ? &ep : NULL);
	if (has_pre && !fused)
		REAL_NAME(kernel_unary_grad).run(&u);
}

const struct kernel REAL_NAME(kernel_linear_dx) = {linear_dx_run, linear_dx_scratch};

/* dw = dy^T x: ins dy, x. The product also computes the bias gradient, the sums of dy's columns, while dy is in cache. */
static struct gemm weight_gradient(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *x = &c->in[1];

	return (struct gemm){.ta = GEMM_T,
	                     .tb = GEMM_N,
	                     .m = last(dy),
	                     .n = last(x),
	                     .k = array_rows(dy),
	                     .lda = row_stride(dy),
	                     .ldb = row_stride(x),
	                     .ldc = last(x)};
}

static size_t linear_dw_scratch(const struct op_call *c, int workers)
{
	struct gemm g = weight_gradient(c);

	return product_scratch(c, &g, workers);
}

static void linear_dw_run(const struct op_call *c)
{
	struct gemm g = weight_gradient(c);
	struct epilogue ep = {.row_sums = present(c->out, c->nout, 1) ? c->out[1].data : NULL};

	product_run(c, &g, &ep);
}

const struct kernel REAL_NAME(kernel_linear_dw) = {linear_dw_run, linear_dw_scratch};
