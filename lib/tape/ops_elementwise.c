/* Elementwise ops, and sums over dimensions. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

struct tensor *op_copy(struct tape *t, struct tensor *x)
{
	return node_one(t, OP_COPY, 1, &x, tensor_like(t, x), NULL);
}

static void copy_vjp(struct vjp *v)
{
	v->dx[0] = v->dy[0];
}

struct tensor *op_axpby(struct tape *t, double a, struct tensor *x, double b, struct tensor *y)
{
	struct op_attr attr = {.add = {a, b}};
	struct tensor *in[2];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, tensor_rows(t, y), x);
	return node_one(t, OP_ADD, 2, in, tensor_like(t, x), &attr);
}

struct tensor *op_add(struct tape *t, struct tensor *x, struct tensor *y)
{
	return op_axpby(t, 1, x, 1, y);
}

struct tensor *op_scale(struct tape *t, struct tensor *x, double a)
{
	return op_axpby(t, a, x, 0, x);
}

static struct tensor *scaled(struct tape *t, struct tensor *g, double a)
{
	return a == 1 ? g : op_scale(t, g, a);
}

static void add_vjp(struct vjp *v)
{
	if (v->need[0])
		v->dx[0] = scaled(v->t, v->dy[0], v->n->attr.add.a);
	if (v->need[1])
		v->dx[1] = grad_unstretch(v->t, scaled(v->t, v->dy[0], v->n->attr.add.b), v->n->in[1]);
}

struct tensor *op_mul(struct tape *t, struct tensor *x, struct tensor *y)
{
	struct tensor *in[2];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, tensor_rows(t, y), x);
	return node_one(t, OP_MUL, 2, in, tensor_like(t, x), NULL);
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
		v->dx[1] = grad_unstretch(v->t, op_mul(v->t, v->dy[0], v->n->in[0]), v->n->in[1]);
}

struct tensor *op_sum(struct tape *t, struct tensor *x, const int64_t *shape, double scale)
{
	struct op_attr attr = {.sum = {scale}};
	int same = 1;

	for (int d = 0; d < x->rank; d++) {
		assert(shape[d] == x->shape[d] || shape[d] == 1);
		same = same && shape[d] == x->shape[d];
	}
	if (same && scale == 1)
		return x;
	return node_one(t, OP_SUM, 1, &x, tensor_new(t, x->dtype, x->rank, shape, x->batched && shape[0] == x->shape[0]), &attr);
}

static void sum_vjp(struct vjp *v)
{
	struct tensor *x = v->n->in[0], *wide = tensor_stretch(v->t, v->dy[0]->root, x), *g = tensor_like(v->t, x);

	v->dx[0] = scaled(v->t, node_one(v->t, OP_COPY, 1, &wide, g, NULL), v->n->attr.sum.factor);
}

struct tensor *op_unary(struct tape *t, struct tensor *x, enum unary u)
{
	struct op_attr attr = {.unary = {u}};

	x = tensor_rows(t, x);
	return node_one(t, OP_UNARY, 1, &x, tensor_like(t, x), &attr);
}

struct tensor *grad_unary(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn)
{
	struct op_attr attr = {.unary = {fn}};
	struct tensor *in[2] = {tensor_rows(t, dy), x};

	if (linear_dx_takes(t, dy, x, fn))
		return dy;
	return node_one(t, OP_UNARY_GRAD, 2, in, tensor_like(t, x), &attr);
}

static struct tensor *unary_again(struct tape *t, const struct node *n)
{
	return op_unary(t, n->in[0], n->attr.unary.fn);
}

static void unary_vjp(struct vjp *v)
{
	v->dx[0] = grad_unary(v->t, v->dy[0], v->n->in[0], v->n->attr.unary.fn);
}

const struct op_def op_def_copy = {.vjp = copy_vjp, .strided = STRIDED_YES};
const struct op_def op_def_fill = {.strided = STRIDED_YES};
const struct op_def op_def_add = {.vjp = add_vjp, .in_place = 1, .strided = STRIDED_YES};
const struct op_def op_def_mul = {.vjp = mul_vjp, .in_place = 1, .strided = STRIDED_YES};
const struct op_def op_def_sum = {.vjp = sum_vjp, .strided = STRIDED_NO};
const struct op_def op_def_unary = {.vjp = unary_vjp, .again = unary_again, .in_place = 1, .strided = STRIDED_YES};
const struct op_def op_def_unary_grad = {.in_place = 1, .strided = STRIDED_YES};
