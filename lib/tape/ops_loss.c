/* Losses, and random ops: noise, noisy samples, dropout. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

struct tensor *op_xent(struct tape *t, struct tensor *logits, struct tensor *label)
{
	struct tensor *in[2] = {tensor_rows(t, logits), label};

	assert(logits->rank == 2 && label->rank == 1 && label->dtype == DT_I32);
	return node_one(t, OP_XENT, 2, in, tensor_new(t, t->real, 1, logits->shape, logits->batched), NULL);
}

static void xent_vjp(struct vjp *v)
{
	struct tensor *in[3] = {tensor_dense(v->t, v->dy[0]), v->n->in[0], v->n->in[1]};

	v->dx[0] = node_one(v->t, OP_XENT_GRAD, 3, in, tensor_like(v->t, v->n->in[0]), NULL);
}

struct tensor *op_xent_soft(struct tape *t, struct tensor *logits, struct tensor *target)
{
	struct tensor *in[2] = {tensor_rows(t, logits), tensor_rows(t, target)};

	assert(logits->rank == 2 && target->rank == 2 && logits->shape[1] == target->shape[1]);
	return node_one(t, OP_XENT_SOFT, 2, in, tensor_new(t, t->real, 1, logits->shape, logits->batched), NULL);
}

static void xent_soft_vjp(struct vjp *v)
{
	struct tensor *in[3] = {tensor_dense(v->t, v->dy[0]), v->n->in[0], v->n->in[1]};

	assert(!v->need[1]);
	v->dx[0] = node_one(v->t, OP_XENT_SOFT_GRAD, 3, in, tensor_like(v->t, v->n->in[0]), NULL);
}

struct tensor *op_mse(struct tape *t, struct tensor *a, struct tensor *b, struct tensor *weight)
{
	struct tensor *in[3] = {tensor_dense(t, a), tensor_dense(t, b), weight};

	assert(tensor_count(a) == tensor_count(b) && (!weight || weight->rank == 1));
	return node_one(t, OP_MSE, 3, in, tensor_new(t, t->real, 1, a->shape, a->batched), NULL);
}

static void mse_vjp(struct vjp *v)
{
	struct tensor *in[4] = {tensor_dense(v->t, v->dy[0]), v->n->in[0], v->n->in[1], v->n->in[2]}, *g;

	assert(!v->need[2]);
	g = node_one(v->t, OP_MSE_GRAD, 4, in, tensor_like(v->t, v->n->in[0]), NULL);
	if (v->need[0])
		v->dx[0] = g;
	if (v->need[1])
		v->dx[1] = op_reshape(v->t, op_scale(v->t, g, -1), v->n->in[1]->rank, v->n->in[1]->shape);
}

struct tensor *op_qsample(struct tape *t, struct tensor *x0, struct tensor *eps, struct tensor *alpha, struct tensor *sigma)
{
	struct tensor *in[4] = {tensor_dense(t, x0), tensor_dense(t, eps), alpha, sigma};

	return node_one(t, OP_QSAMPLE, 4, in, tensor_like(t, x0), NULL);
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

struct tensor *op_noise(struct tape *t, int rank, const int64_t *shape)
{
	return node_one(t, OP_NOISE, 0, NULL, tensor_new(t, t->real, rank, shape, 1), NULL);
}

struct tensor *op_dropout(struct tape *t, struct tensor *x, double p)
{
	struct op_attr attr = {.dropout = {t->dropouts++ << 24, p}};

	x = tensor_dense(t, x);
	return node_one(t, OP_DROPOUT, 1, &x, tensor_like(t, x), &attr);
}

static void dropout_vjp(struct vjp *v)
{
	struct tensor *dy = tensor_dense(v->t, v->dy[0]);

	v->dx[0] = node_one(v->t, OP_DROPOUT, 1, &dy, tensor_like(v->t, dy), &v->n->attr);
}

const struct op_def op_def_xent = {.vjp = xent_vjp, .exact = 1};
const struct op_def op_def_xent_grad = {0};
const struct op_def op_def_xent_soft = {.vjp = xent_soft_vjp, .exact = 1};
const struct op_def op_def_xent_soft_grad = {0};
const struct op_def op_def_mse = {.vjp = mse_vjp, .exact = 1};
const struct op_def op_def_mse_grad = {0};
const struct op_def op_def_qsample = {.vjp = qsample_vjp, .exact = 1};
const struct op_def op_def_noise = {.exact = 1};
const struct op_def op_def_dropout = {.vjp = dropout_vjp};
