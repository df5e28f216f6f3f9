/* Ops on images (B, H, W, C): convolution, pooling, upsampling. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

static struct tensor *conv(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                           struct padding pad, int act, int many)
{
	struct op_attr attr = {.conv = {.act = act, .many = many, .stride = stride, .top = pad.top, .left = pad.left}};
	struct tensor *in[4] = {tensor_rows(t, x), tensor_dense(t, w), bias ? tensor_dense(t, bias) : NULL, add ? tensor_matrix(t, add) : NULL};
	struct tensor *out[2] = {0};
	int64_t shape[4] = {x->shape[0], (x->shape[1] + pad.top + pad.bottom - w->shape[1]) / stride + 1,
	                    (x->shape[2] + pad.left + pad.right - w->shape[2]) / stride + 1, w->shape[0]};

	assert(x->rank == 4 && w->rank == 4 && x->shape[3] == w->shape[3] && (!bias || tensor_count(bias) == w->shape[0]));
	assert(x->shape[1] + pad.top + pad.bottom >= w->shape[1] && x->shape[2] + pad.left + pad.right >= w->shape[2]);
	assert(!add || (add->rank == 4 && !memcmp(add->shape, shape, sizeof shape)));
	out[0] = tensor_new(t, t->real, 4, shape, x->batched);
	if (act)
		out[1] = tensor_new(t, t->real, 4, shape, x->batched);
	node_add(t, OP_CONV, 4, in, 2, out, &attr);
	return out[0];
}

struct tensor *op_conv(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                       struct padding pad, int act)
{
	return conv(t, x, w, bias, add, stride, pad, act, 0);
}

struct tensor *op_conv_many(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                            struct padding pad, int act)
{
	return conv(t, x, w, bias, add, stride, pad, act, 1);
}

static void conv_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *x = n->in[0], *w = n->in[1], *dy = tensor_matrix(v->t, v->dy[0]), *in[2], *out[2] = {0};
	struct op_attr attr = n->attr;

	if (attr.conv.act)
		dy = grad_unary(v->t, dy, n->out[1], (enum unary)(attr.conv.act - 1));
	attr.conv.act = 0;
	if (v->need[3])
		v->dx[3] = dy;
	in[0] = dy;
	in[1] = w;
	if (v->need[0])
		v->dx[0] = node_one(v->t, OP_CONV_DX, 2, in, tensor_like(v->t, x), &attr);
	if (!v->need[1] && !v->need[2])
		return;
	in[1] = x;
	out[0] = v->dx[1] = tensor_like(v->t, w);
	if (v->need[2])
		out[1] = v->dx[2] = tensor_like(v->t, n->in[2]);
	node_add(v->t, OP_CONV_DW, 2, in, 2, out, &attr);
}

/* FLOPs of CONV or one of its gradients: two for each tap, output pixel and pair of channels. */
static double conv_products(const struct array *y, const struct array *w)
{
	return 2. * (double)array_count(y) * (double)(w->shape[1] * w->shape[2] * w->shape[3]);
}

static double conv_flops(const struct op_call *c)
{
	return conv_products(&c->out[0], &c->in[1]);
}

static double conv_dx_flops(const struct op_call *c)
{
	return conv_products(&c->in[0], &c->in[1]);
}

static double conv_dw_flops(const struct op_call *c)
{
	return conv_products(&c->in[0], &c->out[0]);
}

static int64_t windows(int64_t n, int64_t k, int64_t stride, int64_t pad, int ceil)
{
	int64_t room = n + 2 * pad - k, count = (room + (ceil ? stride - 1 : 0)) / stride + 1;

	assert(room >= 0);
	return (count - 1) * stride >= n + pad ? count - 1 : count;
}

struct tensor *op_pool(struct tape *t, struct tensor *x, enum pool_kind kind, int64_t k, int64_t stride, int64_t pad, int ceil)
{
	struct op_attr attr = {.pool = {kind, k, stride, pad}};
	int64_t shape[4];

	assert(x->rank == 4 && 2 * pad <= k);
	x = tensor_dense(t, x);
	memcpy(shape, x->shape, sizeof shape);
	for (int d = 1; d < 3; d++)
		shape[d] = windows(x->shape[d], k, stride, pad, ceil);
	return node_one(t, OP_POOL, 1, &x, tensor_new(t, t->real, 4, shape, x->batched), &attr);
}

static void pool_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_dense(v->t, v->dy[0]), v->n->in[0]};

	v->dx[0] = node_one(v->t, OP_POOL_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), &v->n->attr);
}

struct tensor *op_upsample_nearest(struct tape *t, struct tensor *x)
{
	int64_t b = x->shape[0], h = x->shape[1], w = x->shape[2], c = x->shape[3];
	int64_t one[6] = {b, h, 1, w, 1, c}, two[6] = {b, h, 2, w, 2, c}, out[4] = {b, 2 * h, 2 * w, c};

	return op_reshape(t, op_expand(t, op_reshape(t, x, 6, one), two), 4, out);
}

const struct op_def op_def_conv = {
    .vjp = conv_vjp, .flops = conv_flops, .optional = 1 << 1, .in_place = 4, .strided = STRIDED_ROWS, .weight = 1 << 1};
const struct op_def op_def_conv_dx = {.flops = conv_dx_flops, .strided = STRIDED_ROWS, .weight = 1 << 1};
const struct op_def op_def_conv_dw = {.flops = conv_dw_flops, .exact = 3};
const struct op_def op_def_pool = {.vjp = pool_vjp};
const struct op_def op_def_pool_grad = {0};
