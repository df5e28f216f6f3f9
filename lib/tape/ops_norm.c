/* Layer, RMS and group normalization, and the gates of adaptive layer norm. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

/* The scale or shift of a norm, broadcast to x's shape. Kernels read whole rows, so a last dimension of size 1 is expanded by a copy. */
static struct tensor *modulation(struct tape *t, struct tensor *m, const struct tensor *x)
{
	int64_t shape[ARRAY_RANK], columns = x->shape[x->rank - 1];

	if (!m)
		return NULL;
	if (m->shape[m->rank - 1] == columns)
		return tensor_stretch(t, tensor_rows(t, m), x);
	memcpy(shape, m->shape, sizeof shape);
	shape[m->rank - 1] = columns;
	return tensor_stretch(t, op_copy(t, op_expand(t, m, shape)), x);
}

struct tensor *op_norm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, enum norm_kind kind, double eps, int one_plus)
{
	struct op_attr attr = {.norm = {kind, one_plus, eps}};
	struct tensor *in[3], *out[2];
	int64_t shape[ARRAY_RANK];

	in[0] = tensor_rows(t, x);
	in[1] = modulation(t, scale, x);
	in[2] = modulation(t, shift, x);
	memcpy(shape, x->shape, sizeof shape);
	shape[x->rank - 1] = 2;
	out[0] = tensor_like(t, x);
	out[1] = tensor_new(t, t->real, x->rank, shape, x->batched);
	node_add(t, OP_NORM, 3, in, 2, out, &attr);
	return out[0];
}

/* Repeat a norm, whose statistics are kept and therefore dropped here. */
static struct tensor *norm_again(struct tape *t, const struct node *n)
{
	struct tensor *out[2] = {tensor_like(t, n->out[0]), tensor_like(t, n->out[1])};

	node_add(t, n->op, n->nin, n->in, 2, out, &n->attr);
	return out[0];
}

static void norm_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *in[5] = {tensor_rows(v->t, v->dy[0]), n->in[0], n->out[1], n->in[1], NULL}, *out[3];

	out[0] = tensor_like(v->t, n->in[0]);
	out[1] = n->in[1] && v->need[1] ? grad_narrow(v->t, n->in[1]) : NULL;
	out[2] = n->in[2] && v->need[2] ? grad_narrow(v->t, n->in[2]) : NULL;
	if (v->need[0] && v->acc[0]) {
		in[4] = tensor_rows(v->t, v->acc[0]);
		v->acc[0] = NULL;
	}
	node_add(v->t, OP_NORM_GRAD, 5, in, 3, out, &n->attr);
	v->dx[0] = out[0];
	if (out[1])
		v->dx[1] = grad_to_root(v->t, out[1], n->in[1]);
	if (out[2])
		v->dx[2] = grad_to_root(v->t, out[2], n->in[2]);
}

/* A norm of x + gate h takes in the GATE, if nothing needs that sum before the norm, and what the GATE reads is not overwritten before it. */
static void norm_fuse(struct tape *t, int i)
{
	struct node *n = &t->node[i], *gate;
	struct tensor *s = n->in[0];
	int j = i - 1;

	if (!t->device->gated_norms || s->st->keep)
		return;
	while (j >= 0 && !(t->node[j].live && t->node[j].out[0] == s))
		j--;
	gate = j >= 0 ? &t->node[j] : NULL;
	if (!gate || gate->op != OP_GATE || gate->then || gate->stream != n->stream || memory_used(t, j, i, s, 0))
		return;
	for (int k = 0; k < gate->nin; k++)
		if (memory_used(t, j, i, gate->in[k], 1))
			return;
	gate->live = 0;
	n->in[0] = gate->in[0];
	n->in[3] = gate->in[1];
	n->in[4] = gate->in[2];
	n->out[2] = s;
	n->nin = 5;
	n->nout = 3;
}

/* The gradient of a norm takes in the GATE_GRAD of its result, if what that needs is known already and the memory it writes is not used between. */
static void norm_grad_fuse(struct tape *t, int i)
{
	struct node *n = &t->node[i], *gate = NULL;
	int j = i + 1;

	if (!t->device->gated_norms)
		return;
	while (j < t->nnodes && !(t->node[j].live && t->node[j].op == OP_GATE_GRAD && t->node[j].in[0] == n->out[0]))
		j++;
	gate = j < t->nnodes ? &t->node[j] : NULL;
	if (!gate || gate->then || gate->stream != n->stream)
		return;
	for (int k = 1; k < 3; k++)
		if (memory_used(t, i, j, gate->in[k], 1))
			return;
	for (int k = 0; k < gate->nout; k++)
		if (memory_used(t, i, j, gate->out[k], 0))
			return;
	gate->live = 0;
	n->in[5] = gate->in[1];
	n->in[6] = gate->in[2];
	n->out[3] = gate->out[0];
	n->out[4] = gate->nout > 1 ? gate->out[1] : NULL;
	n->nin = 7;
	n->nout = 5;
}

struct tensor *op_gate(struct tape *t, struct tensor *x, struct tensor *g, struct tensor *h)
{
	struct tensor *in[3];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, g, x);
	in[2] = tensor_rows(t, h);
	return node_one(t, OP_GATE, 3, in, tensor_like(t, x), NULL);
}

static void gate_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tensor *in[3] = {tensor_rows(v->t, v->dy[0]), n->in[1], n->in[2]}, *out[2];

	v->dx[0] = v->dy[0];
	if (!v->need[1] && !v->need[2])
		return;
	out[0] = v->dx[2] = tensor_like(v->t, n->in[2]);
	out[1] = v->need[1] ? grad_narrow(v->t, n->in[1]) : NULL;
	node_add(v->t, OP_GATE_GRAD, 3, in, 2, out, NULL);
	if (out[1])
		v->dx[1] = grad_to_root(v->t, out[1], n->in[1]);
}

struct tensor *op_groupnorm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, int64_t groups, double eps, int act)
{
	struct op_attr attr = {.groupnorm = {groups, act, eps}};
	struct tensor *in[3] = {tensor_dense(t, x), scale ? tensor_dense(t, scale) : NULL, shift ? tensor_dense(t, shift) : NULL}, *out[2];
	int64_t shape[3] = {x->shape[0], groups, 2}, channels = x->shape[x->rank - 1];

	assert(x->rank >= 2 && channels % groups == 0);
	assert((!scale || tensor_count(scale) == channels) && (!shift || tensor_count(shift) == channels));
	out[0] = tensor_like(t, x);
	out[1] = tensor_new(t, t->real, 3, shape, x->batched);
	node_add(t, OP_GROUPNORM, 3, in, 2, out, &attr);
	return out[0];
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

const struct op_def op_def_norm = {.vjp = norm_vjp, .again = norm_again, .fuse = norm_fuse, .exact = 2, .narrow = 1 << 0};
const struct op_def op_def_norm_grad = {.fuse = norm_grad_fuse, .in_place = 5, .exact = 1 << 1 | 1 << 2 | 1 << 4, .strided = STRIDED_YES};
const struct op_def op_def_gate = {.vjp = gate_vjp, .in_place = 1};
const struct op_def op_def_gate_grad = {.exact = 2, .strided = STRIDED_YES, .narrow = 1 << 0};
const struct op_def op_def_groupnorm = {.vjp = groupnorm_vjp, .again = norm_again, .in_place = 1, .exact = 2};
const struct op_def op_def_groupnorm_grad = {.in_place = 1, .exact = 6};
