/* Matrix products: linear layers and products of activations. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

static struct tensor *linear(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, int act)
{
	struct op_attr attr = {.linear = {act}};
	struct tensor *in[3] = {tensor_matrix(t, x), tensor_dense(t, w), bias ? tensor_dense(t, bias) : NULL}, *out[2] = {0};
	int64_t shape[ARRAY_RANK];

	assert(w->rank == 2 && x->shape[x->rank - 1] == w->shape[1] && (!bias || tensor_count(bias) == w->shape[0]));
	memcpy(shape, x->shape, sizeof shape);
	shape[x->rank - 1] = w->shape[0];
	out[0] = tensor_new(t, t->real, x->rank, shape, x->batched);
	if (act)
		out[1] = tensor_new(t, t->real, x->rank, shape, x->batched);
	node_add(t, OP_LINEAR, 3, in, 2, out, &attr);
	return out[0];
}

struct tensor *op_linear(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias)
{
	return linear(t, x, w, bias, 0);
}

struct tensor *op_linear_act(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, enum unary act)
{
	return linear(t, x, w, bias, (int)act + 1);
}

static void linear_vjp(struct vjp *v)
{
	struct tensor *x = v->n->in[0], *w = v->n->in[1], *dy = tensor_matrix(v->t, v->dy[0]), *in[2], *out[2] = {0};

	if (v->n->attr.linear.act)
		dy = grad_unary(v->t, dy, v->n->out[1], (enum unary)(v->n->attr.linear.act - 1));
	if (v->need[0]) {
		in[0] = dy;
		in[1] = w;
		v->dx[0] = node_one(v->t, OP_LINEAR_DX, 2, in, tensor_like(v->t, x), NULL);
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

/* The activation of the values before it, which its gradient needs anyway. */
static struct tensor *linear_again(struct tape *t, const struct node *n)
{
	int act = n->attr.linear.act;

	return act && t->recompute == RECOMPUTE_ACTS ? op_unary(t, n->out[1], (enum unary)(act - 1)) : NULL;
}

/* The number of tensors whose gradient, as far as it is known, is g. A sum passes one gradient to both of its operands. */
static int gradients_that_are(const struct tape *t, const struct tensor *g)
{
	int n = 0;

	for (int i = 0; i < t->grads; i++)
		n += t->grad[i] == g;
	return n;
}

int linear_dx_takes(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn)
{
	struct array rows;
	int64_t step;
	int i = node_producing(t, dy);

	if (i < t->forward_end || t->node[i].op != OP_LINEAR_DX || t->node[i].nin > 2 || !tensor_unread(t, dy, i) || gradients_that_are(t, dy) != 1)
		return 0;
	tensor_array(x, &rows);
	/* a recomputed block may write x later */
	if (x->rank != dy->rank || x->dtype != dy->dtype || !array_row_stride(&rows, &step) || memory_used(t, i, t->nnodes, x, 1))
		return 0;
	assert(!memcmp(x->shape, dy->shape, (size_t)x->rank * sizeof *x->shape));
	t->node[i].in[2] = x;
	t->node[i].nin = 3;
	t->node[i].attr.linear.act = (int)fn + 1;
	return 1;
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

struct tensor *op_matmul(struct tape *t, struct tensor *a, int ta, struct tensor *b, int tb, double alpha)
{
	struct op_attr attr = {.matmul = {ta, tb, alpha}};
	struct tensor *in[2] = {tensor_rows(t, a), tensor_rows(t, b)};
	int64_t shape[ARRAY_RANK];
	int r = a->rank, batched;

	assert(b->rank == r && r >= 2 && a->shape[ta ? r - 2 : r - 1] == b->shape[tb ? r - 1 : r - 2]);
	memcpy(shape, a->shape, sizeof shape);
	shape[r - 2] = a->shape[ta ? r - 1 : r - 2];
	shape[r - 1] = b->shape[tb ? r - 2 : r - 1];
	batched = r > 2 || !ta ? a->batched : 0; /* a transposed matrix (B, ..) is summed over its batch */
	return node_one(t, OP_MATMUL, 2, in, tensor_new(t, t->real, r, shape, batched), &attr);
}

static void matmul_vjp(struct vjp *v)
{
	struct tensor *a = v->n->in[0], *b = v->n->in[1], *dc = v->dy[0];
	int ta = v->n->attr.matmul.ta, tb = v->n->attr.matmul.tb;
	double f = v->n->attr.matmul.alpha;

	if (v->need[0])
		v->dx[0] = ta ? op_matmul(v->t, b, tb, dc, 1, f) : op_matmul(v->t, dc, 0, b, !tb, f);
	if (v->need[1])
		v->dx[1] = tb ? op_matmul(v->t, dc, 1, a, ta, f) : op_matmul(v->t, a, !ta, dc, 0, f);
}

static double matmul_flops(const struct op_call *c)
{
	const struct array *a = &c->in[0];

	return 2. * (double)array_count(&c->out[0]) * (double)a->shape[a->rank - (c->attr.matmul.ta ? 2 : 1)];
}

/* SiLU and GELU are applied before the product is stored. Other activations take a pass of their own, over floats (kernels/linear.c). */
static int linear_narrows(const struct node *n)
{
	int act = n->attr.linear.act;

	return !act || act == UNARY_SILU + 1 || act == UNARY_GELU_TANH + 1;
}

/* The product multiplies by GELU's derivative before it is stored. Other derivatives take a pass of their own, over floats. */
static int linear_dx_narrows(const struct node *n)
{
	return n->nin < 3 || !n->in[2] || n->attr.linear.act == UNARY_GELU_TANH + 1;
}

const struct op_def op_def_linear = {.vjp = linear_vjp,
                                     .again = linear_again,
                                     .flops = linear_flops,
                                     .optional = 1 << 1,
                                     .strided = STRIDED_ROWS,
                                     .narrow = 1 << 0,
                                     .narrows = linear_narrows,
                                     .rounds = 1 << 0,
                                     .weight = 1 << 1,
                                     .compact = 1 << 1,
                                     .bias = 1 << 2};
const struct op_def op_def_linear_dx = {
    .flops = linear_dx_flops, .strided = STRIDED_ROWS, .narrow = 1 << 0, .narrows = linear_dx_narrows, .rounds = 1 << 0, .weight = 1 << 1};
const struct op_def op_def_linear_dw = {.flops = linear_dw_flops, .exact = 3, .rounds = 1 << 0 | 1 << 1};
const struct op_def op_def_matmul = {.vjp = matmul_vjp, .flops = matmul_flops};
