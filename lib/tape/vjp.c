/* The op table: gradient rules made of ops, product FLOPs, what may run in place or write with strides. */
#include <assert.h>
#include <string.h>

#include "tape/ops.h"
#include "tape/record.h"

void view_vjp(struct vjp *v);

/* The gradient of an operand that was stretched: summed over what it was stretched along. */
static struct tensor *unstretch(struct tape *t, struct tensor *g, const struct tensor *x)
{
	const struct tensor *r = x->root;
	int64_t shape[ARRAY_RANK];
	int lead = x->rank - r->rank;

	if (r == x)
		return g;
	for (int d = 0; d < x->rank; d++)
		shape[d] = d < lead ? 1 : r->shape[d - lead];
	return op_reshape(t, op_sum(t, g, shape, 1), r->rank, r->shape);
}

static struct tensor *one(struct tape *t, enum op op, int nin, struct tensor *const *in, struct tensor *out,
                          const struct op_attr *attr)
{
	node_add(t, op, nin, in, 1, &out, attr);
	return out;
}

static struct tensor *scaled(struct tape *t, struct tensor *g, double a)
{
	return a == 1 ? g : op_scale(t, g, a);
}

static void copy_vjp(struct vjp *v)
{
	v->dx[0] = v->dy[0];
}

static void add_vjp(struct vjp *v)
{
	if (v->need[0])
		v->dx[0] = scaled(v->t, v->dy[0], v->n->attr.f[0]);
	if (v->need[1])
		v->dx[1] = unstretch(v->t, scaled(v->t, v->dy[0], v->n->attr.f[1]), v->n->in[1]);
}

static struct tensor *plain(const struct tensor *x)
{
	return x->root;
}

static void mul_vjp(struct vjp *v)
{
	if (v->need[0])
		v->dx[0] = op_mul(v->t, v->dy[0], plain(v->n->in[1]));
	if (v->need[1])
		v->dx[1] = unstretch(v->t, op_mul(v->t, v->dy[0], v->n->in[0]), v->n->in[1]);
}

static void sum_vjp(struct vjp *v)
{
	struct tensor *x = v->n->in[0], *wide = tensor_stretch(v->t, v->dy[0]->root, x), *g = tensor_like(v->t, x);

	v->dx[0] = scaled(v->t, one(v->t, OP_COPY, 1, &wide, g, NULL), v->n->attr.f[0]);
}

static struct tensor *unary_grad(struct tape *t, struct tensor *dy, struct tensor *x, int64_t u)
{
	struct op_attr attr = {.i = {u}};
	struct tensor *in[2] = {tensor_rows(t, dy), x};

	return one(t, OP_UNARY_GRAD, 2, in, tensor_like(t, x), &attr);
}

static void unary_vjp(struct vjp *v)
{
	v->dx[0] = unary_grad(v->t, v->dy[0], v->n->in[0], v->n->attr.i[0]);
}

static void linear_vjp(struct vjp *v)
{
	struct tensor *x = v->n->in[0], *w = v->n->in[1], *dy = tensor_matrix(v->t, v->dy[0]), *in[2], *out[2] = {0};

	if (v->n->attr.i[0])
		dy = unary_grad(v->t, dy, v->n->out[1], v->n->attr.i[0] - 1);
	if (v->need[0]) {
		in[0] = dy;
		in[1] = w;
		v->dx[0] = one(v->t, OP_LINEAR_DX, 2, in, tensor_like(v->t, x), NULL);
	}
	if (!v->need[1] && !v->need[2])
		return;
	in[0] = dy;
	in[1] = x;
	out[0] = v->dx[1] = tensor_like(v->t, w);
	if (v->need[2])
		out[1] = v->dx[2] = tensor_like(v->t, v->n->in[2]);
	node_add(v->t, OP_LINEAR_DW, 2, in, 2, out, NULL);
}

static void matmul_vjp(struct vjp *v)
{
	struct tensor *a = v->n->in[0], *b = v->n->in[1], *dc = v->dy[0];
	int ta = (int)v->n->attr.i[0], tb = (int)v->n->attr.i[1];
	double f = v->n->attr.f[0];

	if (v->need[0])
		v->dx[0] = ta ? op_matmul(v->t, b, tb, dc, 1, f) : op_matmul(v->t, dc, 0, b, !tb, f);
	if (v->need[1])
		v->dx[1] = tb ? op_matmul(v->t, dc, 1, a, ta, f) : op_matmul(v->t, a, !ta, dc, 0, f);
}

/* A gradient tensor for a stretched operand as the kernels write it: of x's rank, size 1 where it was stretched. */
static struct tensor *narrow(struct tape *t, const struct tensor *operand)
{
	const struct tensor *r = operand->root;
	int64_t shape[ARRAY_RANK];
	int lead = operand->rank - r->rank;

	for (int d = 0; d < operand->rank; d++)
		shape[d] = d < lead ? 1 : r->shape[d - lead];
	return tensor_new(t, t->real, operand->rank, shape, r->batched && !lead);
}

static struct tensor *to_root(struct tape *t, struct tensor *g, const struct tensor *operand)
{
	return op_reshape(t, g, operand->root->rank, operand->root->shape);
}

static void norm_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *in[5] = {tensor_rows(v->t, v->dy[0]), n->in[0], n->out[1], n->in[1], NULL}, *out[3];

	out[0] = tensor_like(v->t, n->in[0]);
	out[1] = n->in[1] && v->need[1] ? narrow(v->t, n->in[1]) : NULL;
	out[2] = n->in[2] && v->need[2] ? narrow(v->t, n->in[2]) : NULL;
	if (v->need[0] && v->acc[0]) {
		in[4] = tensor_rows(v->t, v->acc[0]);
		v->acc[0] = NULL;
	}
	node_add(v->t, OP_NORM_GRAD, 5, in, 3, out, &n->attr);
	v->dx[0] = out[0];
	if (out[1])
		v->dx[1] = to_root(v->t, out[1], n->in[1]);
	if (out[2])
		v->dx[2] = to_root(v->t, out[2], n->in[2]);
}

static void gate_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *in[3] = {tensor_rows(v->t, v->dy[0]), n->in[1], n->in[2]}, *out[2];

	v->dx[0] = v->dy[0];
	if (!v->need[1] && !v->need[2])
		return;
	out[0] = v->dx[2] = tensor_like(v->t, n->in[2]);
	out[1] = v->need[1] ? narrow(v->t, n->in[1]) : NULL;
	node_add(v->t, OP_GATE_GRAD, 3, in, 2, out, NULL);
	if (out[1])
		v->dx[1] = to_root(v->t, out[1], n->in[1]);
}

static void attention_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	int biased = n->nin > 3;
	struct tensor *in[7] = {tensor_rows(v->t, v->dy[0]), n->in[0], n->in[1], n->in[2], n->out[0], n->out[1]};

	assert(!biased || !v->need[3]);
	if (biased)
		in[6] = n->in[3];
	for (int j = 0; j < 3; j++)
		v->dx[j] = tensor_like(v->t, n->in[j]);
	node_add(v->t, OP_ATTENTION_GRAD, 6 + biased, in, 3, v->dx, &n->attr);
}

static void embed_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_rows(v->t, v->dy[0]), v->n->in[1]};

	v->dx[0] = one(v->t, OP_EMBED_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), NULL);
}

static void softmax_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_rows(v->t, v->dy[0]), v->n->out[0]};

	v->dx[0] = one(v->t, OP_SOFTMAX_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), NULL);
}

static void xent_vjp(struct vjp *v)
{
	struct tensor *in[3] = {tensor_dense(v->t, v->dy[0]), v->n->in[0], v->n->in[1]};

	v->dx[0] = one(v->t, OP_XENT_GRAD, 3, in, tensor_like(v->t, v->n->in[0]), NULL);
}

static void mse_vjp(struct vjp *v)
{
	struct tensor *in[4] = {tensor_dense(v->t, v->dy[0]), v->n->in[0], v->n->in[1], v->n->in[2]}, *g;

	assert(!v->need[2]);
	g = one(v->t, OP_MSE_GRAD, 4, in, tensor_like(v->t, v->n->in[0]), NULL);
	if (v->need[0])
		v->dx[0] = g;
	if (v->need[1])
		v->dx[1] = op_reshape(v->t, op_scale(v->t, g, -1), v->n->in[1]->rank, v->n->in[1]->shape);
}

static void im2col_vjp(struct vjp *v)
{
	struct tensor *dy = tensor_dense(v->t, v->dy[0]);

	v->dx[0] = one(v->t, OP_COL2IM, 1, &dy, tensor_like(v->t, v->n->in[0]), &v->n->attr);
}

static void col2im_vjp(struct vjp *v)
{
	struct tensor *dy = tensor_dense(v->t, v->dy[0]);

	v->dx[0] = one(v->t, OP_IM2COL, 1, &dy, tensor_like(v->t, v->n->in[0]), &v->n->attr);
}

static void conv_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *x = n->in[0], *w = n->in[1], *dy = tensor_matrix(v->t, v->dy[0]), *in[2], *out[2] = {0};
	struct op_attr attr = n->attr;

	if (attr.i[0])
		dy = unary_grad(v->t, dy, n->out[1], attr.i[0] - 1);
	attr.i[0] = 0;
	if (v->need[3])
		v->dx[3] = dy;
	in[0] = dy;
	in[1] = w;
	if (v->need[0])
		v->dx[0] = one(v->t, OP_CONV_DX, 2, in, tensor_like(v->t, x), &attr);
	if (!v->need[1] && !v->need[2])
		return;
	in[1] = x;
	out[0] = v->dx[1] = tensor_like(v->t, w);
	if (v->need[2])
		out[1] = v->dx[2] = tensor_like(v->t, n->in[2]);
	node_add(v->t, OP_CONV_DW, 2, in, 2, out, &attr);
}

static void groupnorm_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *in[5] = {tensor_dense(v->t, v->dy[0]), n->in[0], n->out[1], n->in[1], n->in[2]}, *out[3] = {0};

	out[0] = v->dx[0] = tensor_like(v->t, n->in[0]);
	for (int j = 1; j < 3; j++)
		if (v->need[j])
			out[j] = v->dx[j] = tensor_like(v->t, n->in[j]);
	node_add(v->t, OP_GROUPNORM_GRAD, 5, in, 3, out, &n->attr);
}

static void pool_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_dense(v->t, v->dy[0]), v->n->in[0]};

	v->dx[0] = one(v->t, OP_POOL_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), &v->n->attr);
}

static void dropout_vjp(struct vjp *v)
{
	struct tensor *dy = tensor_dense(v->t, v->dy[0]);

	v->dx[0] = one(v->t, OP_DROPOUT, 1, &dy, tensor_like(v->t, dy), &v->n->attr);
}

/* A per-sample factor [B] as [B, 1, ..] of x's rank. */
static struct tensor *per_sample(struct tape *t, struct tensor *f, const struct tensor *x)
{
	int64_t shape[ARRAY_RANK];

	for (int d = 0; d < x->rank; d++)
		shape[d] = d ? 1 : x->shape[0];
	return op_reshape(t, f, x->rank, shape);
}

static void qsample_vjp(struct vjp *v)
{
	for (int j = 0; j < 2; j++) {
		struct tensor *x = v->n->in[j], *f = v->n->in[2 + j];
		int64_t shape[ARRAY_RANK];

		for (int d = 0; d < x->rank; d++)
			shape[d] = d ? 1 : x->shape[0];
		if (v->need[j])
			v->dx[j] = op_mul(v->t, v->dy[0], per_sample(v->t, f, x));
		if (v->need[2 + j])
			v->dx[2 + j] = op_reshape(v->t, op_sum(v->t, op_mul(v->t, v->dy[0], x), shape, 1), 1, x->shape);
	}
}

static double linear_flops(const struct op_call *c)
{
	return 2. * (double)array_count(&c->in[0]) * (double)c->in[1].shape[0];
}

static double linear_dx_flops(const struct op_call *c)
{
	return 2. * (double)array_count(&c->out[0]) * (double)c->in[1].shape[0];
}

static double linear_dw_flops(const struct op_call *c)
{
	return 2. * (double)array_count(&c->in[1]) * (double)c->out[0].shape[0];
}

/* Of y, dx or dw: a tap costs a multiplication and an addition for each pixel of the output and each pair of channels. */
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

static double matmul_flops(const struct op_call *c)
{
	const struct array *a = &c->in[0];

	return 2. * (double)array_count(&c->out[0]) * (double)a->shape[a->rank - (c->attr.i[0] ? 2 : 1)];
}

/* Two products forward, four backward (the recomputed scores are not the network's own). */
static double attention_flops(const struct op_call *c)
{
	const struct array *q = &c->in[0], *k = &c->in[1];

	return 4. * (double)array_count(q) * (double)k->shape[1];
}

static double attention_grad_flops(const struct op_call *c)
{
	return 8. * (double)array_count(&c->in[1]) * (double)c->in[2].shape[1];
}

const struct op_def op_defs[OP_COUNT] = {
    [OP_VIEW] = {.vjp = view_vjp},
    [OP_COPY] = {.vjp = copy_vjp, .strided = STRIDED_YES},
    [OP_FILL] = {.strided = STRIDED_YES},
    [OP_ADD] = {.vjp = add_vjp, .in_place = 1, .strided = STRIDED_YES},
    [OP_MUL] = {.vjp = mul_vjp, .in_place = 1, .strided = STRIDED_YES},
    [OP_SUM] = {.vjp = sum_vjp, .strided = STRIDED_NO},
    [OP_UNARY] = {.vjp = unary_vjp, .in_place = 1, .strided = STRIDED_YES},
    [OP_UNARY_GRAD] = {.in_place = 1, .strided = STRIDED_YES},
    [OP_LINEAR] = {.vjp = linear_vjp, .flops = linear_flops, .optional = 1 << 1, .strided = STRIDED_ROWS},
    [OP_LINEAR_DX] = {.flops = linear_dx_flops, .strided = STRIDED_ROWS},
    [OP_LINEAR_DW] = {.flops = linear_dw_flops, .exact = 3},
    [OP_MATMUL] = {.vjp = matmul_vjp, .flops = matmul_flops},
    [OP_NORM] = {.vjp = norm_vjp, .exact = 2},
    [OP_NORM_GRAD] = {.in_place = 5, .exact = 6, .strided = STRIDED_YES},
    [OP_GATE] = {.vjp = gate_vjp, .in_place = 1},
    [OP_GATE_GRAD] = {.exact = 2, .strided = STRIDED_YES},
    [OP_ATTENTION] = {.vjp = attention_vjp, .flops = attention_flops, .exact = 2},
    [OP_ATTENTION_GRAD] = {.flops = attention_grad_flops, .strided = STRIDED_YES},
    [OP_EMBED] = {.vjp = embed_vjp},
    [OP_EMBED_GRAD] = {.exact = 1},
    [OP_TIMESTEP] = {0},
    [OP_SOFTMAX] = {.vjp = softmax_vjp},
    [OP_XENT] = {.vjp = xent_vjp, .exact = 1},
    [OP_MSE] = {.vjp = mse_vjp, .exact = 1},
    [OP_IM2COL] = {.vjp = im2col_vjp},
    [OP_COL2IM] = {.vjp = col2im_vjp},
    [OP_CONV] = {.vjp = conv_vjp, .flops = conv_flops, .optional = 1 << 1, .in_place = 4, .strided = STRIDED_ROWS},
    [OP_CONV_DX] = {.flops = conv_dx_flops, .strided = STRIDED_ROWS},
    [OP_CONV_DW] = {.flops = conv_dw_flops, .exact = 3},
    [OP_GROUPNORM] = {.vjp = groupnorm_vjp, .in_place = 1, .exact = 2},
    [OP_GROUPNORM_GRAD] = {.in_place = 1, .exact = 6},
    [OP_POOL] = {.vjp = pool_vjp},
    [OP_DROPOUT] = {.vjp = dropout_vjp},
    [OP_QSAMPLE] = {.vjp = qsample_vjp, .exact = 1},
    [OP_NOISE] = {.exact = 1},
};
