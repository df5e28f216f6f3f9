/* Reverse-mode differentiation: walks the forward nodes backwards, calls each op's rule for the gradients of its inputs, and adds up the
 * gradients of each tensor. */
#include <assert.h>
#include <string.h>

#include "tape/opdef.h"
#include "tape/ops.h"

/* The counterpart of x in a recomputed block: the same view of its storage's clone. A tensor from outside the block is returned
 * unchanged. */
static struct tensor *again(struct tape *t, struct tensor *x, struct tensor **map)
{
	struct tensor *r;

	if (!x)
		return NULL;
	if (x->root != x) {
		r = again(t, x->root, map);
		return r == x->root ? x : tensor_stretch(t, r, x);
	}
	return map[x->id] ? map[x->id] : x;
}

static struct storage *storage_clone(struct tape *t, struct storage *s)
{
	int64_t n = s->elements;
	struct tensor *fresh;

	if (!s->clone) {
		fresh = tensor_new(t, s->dtype, 1, &n, 0);
		fresh->st->tensors = 0;
		fresh->st->exact = s->exact;
		s->clone = fresh->st;
	}
	return s->clone;
}

static void block_again(struct tape *t, int first, int last, struct tensor **map)
{
	t->again = 1;
	for (int i = first; i <= last; i++) {
		struct node n = t->node[i];

		if (op_def_of(n.op)->view && n.attr.view.kind != VIEW_JOIN && again(t, n.in[0], map) == n.in[0])
			continue;
		for (int k = 0; k < n.nout; k++) {
			struct tensor *x = n.out[k], *c;

			if (!x)
				continue;
			c = tensor_view(t, x, x->rank, x->shape, x->stride, x->offset, x->batched);
			c->st->tensors--;
			c->st = storage_clone(t, x->st);
			c->st->tensors++;
			map[x->id] = c;
		}
		for (int k = 0; k < n.nin; k++)
			n.in[k] = again(t, n.in[k], map);
		for (int k = 0; k < n.nout; k++)
			n.out[k] = again(t, n.out[k], map);
		node_add(t, n.op, n.nin, n.in, n.nout, n.out, &n.attr);
	}
	for (struct storage *s = t->storages; s; s = s->next)
		s->clone = NULL;
	t->again = 0;
}

/* With a capacity of 1, a sum over the batch has the shape of its operand, so `batched` is taken from x. */
static struct tensor *batched_as(struct tape *t, struct tensor *g, const struct tensor *x)
{
	if (!g->batched == !x->batched)
		return g;
	assert(t->capacity == 1);
	return tensor_view(t, g, g->rank, g->shape, g->stride, g->offset, x->batched);
}

/* Mark the values that RECOMPUTE_NORMS and RECOMPUTE_ACTS compute again, one by one: those that can be and that only products read. The gradient of a
 * product reads its operand where it is recorded, which is after the value is computed again. The derivative of an activation may move to an earlier
 * node (linear_dx_takes), so its operand is kept. */
static void find_repeatable(struct tape *t)
{
	for (int i = 0; i < t->forward_end; i++) {
		const struct node *n = &t->node[i];

		if (op_def_of(n->op)->again)
			n->out[0]->st->again_by = i + 1;
		for (int j = 0; j < n->nin; j++)
			if (n->in[j] && (!op_def_of(n->op)->weight || n->in[j]->st->keep))
				n->in[j]->st->again_by = 0;
	}
}

/* If x is marked, record the op that computes it again, unless that was done for an earlier reader, and let map[x->id] be the result. The op's
 * operands are not marked and so were kept, because this op, which is no product, reads them. */
static void value_again(struct tape *t, struct tensor *x, struct tensor **map)
{
	struct node n; /* a copy: recording may move the nodes */
	struct tensor *y;
	int by = x ? x->st->again_by : 0;

	if (!by || x != t->node[by - 1].out[0] || map[x->id])
		return;
	n = t->node[by - 1];
	t->again = 1;
	y = op_def_of(n.op)->again(t, &n);
	t->again = 0;
	if (y) {
		y->st->exact = x->st->exact;
		map[x->id] = y;
	}
}

static void node_backward(struct tape *t, int i, struct tensor **map)
{
	struct node original = t->node[i], mapped = original;
	struct vjp v = {.t = t, .n = &mapped};
	struct tensor *before[OP_IN] = {0};
	int have = 0, want = 0;

	for (int k = 0; k < original.nout; k++)
		if (original.out[k] && (v.dy[k] = t->grad[original.out[k]->id]))
			have = 1;
	for (int j = 0; have && j < original.nin; j++) {
		if (!original.in[j])
			continue;
		v.need[j] = original.in[j]->root->needs_grad;
		before[j] = v.acc[j] = v.need[j] ? t->grad[original.in[j]->root->id] : NULL;
		want |= v.need[j];
	}
	if (!want)
		return;
	for (int j = 0; t->recompute >= RECOMPUTE_NORMS && j < original.nin; j++)
		value_again(t, original.in[j], map);
	for (int j = 0; j < original.nin; j++)
		mapped.in[j] = again(t, original.in[j], map);
	for (int k = 0; k < original.nout; k++)
		mapped.out[k] = again(t, original.out[k], map);
	assert(op_def_of(original.op)->vjp);
	op_def_of(original.op)->vjp(&v);
	for (int j = 0; j < original.nin; j++) {
		struct tensor *root, *g = v.dx[j], *sum;

		if (!v.need[j])
			continue;
		root = original.in[j]->root;
		assert(g && g->rank == root->rank && !memcmp(g->shape, root->shape, (size_t)g->rank * sizeof *g->shape));
		g = batched_as(t, g, root);
		g->st->exact |= root->float_grad;
		sum = t->grad[root->id];
		if (before[j] && !v.acc[j]) {
			assert(sum == before[j]);
			sum = NULL;
		}
		t->grad[root->id] = sum ? op_add(t, sum, g) : g;
		t->grad[root->id]->st->exact |= root->float_grad;
	}
}

/* Put every trainable parameter's gradient into the gradient arena. A parameter recorded more than once (tied) gets the sum, one that the
 * loss does not depend on gets zero. */
static void place_parameter_grads(struct tape *t, int tensors)
{
	struct tensor **sum;

	if (t->frozen)
		return;
	sum = mem_zalloc(t->params ? (size_t)t->params->n : 0, sizeof *sum);

	for (int i = 0; i < tensors; i++) {
		struct tensor *x = t->tensor[i], *g = t->grad[i];

		if (x->st->kind != STORE_PARAM || x->st->owner != x || !g)
			continue;
		sum[x->st->param] = sum[x->st->param] ? op_add(t, sum[x->st->param], g) : g;
	}
	for (int k = 0; t->params && k < t->params->n; k++) {
		const struct param *p = &t->params->v[k];
		struct tensor *dst;

		if (p->flags & PARAM_FROZEN)
			continue;
		dst = tensor_new(t, t->real, p->rank, p->shape, 0);
		dst->st->kind = STORE_GRAD;
		dst->st->param = k;
		if (sum[k])
			grad_place(t, sum[k], dst);
		else
			node_add(t, OP_FILL, 0, NULL, 1, &dst, NULL);
	}
	mem_free(sum);
}

void tape_backward(struct tape *t, struct tensor *y, struct tensor *dy)
{
	int tensors = t->ntensors, block = 0;
	struct tensor **map = mem_zalloc((size_t)tensors, sizeof *map);

	assert(!t->forward_end && !t->block);
	t->forward_end = t->nnodes;
	t->grads = tensors;
	t->grad = mem_zalloc((size_t)tensors, sizeof *t->grad);
	t->grad[y->id] = dy;
	if (t->recompute >= RECOMPUTE_NORMS)
		find_repeatable(t);
	for (int i = t->forward_end - 1; i >= 0; i--) {
		int b = t->node[i].block, begin = i;

		if (t->recompute == RECOMPUTE_BLOCKS && b && b != block) {
			while (begin > 0 && t->node[begin - 1].block == b)
				begin--;
			block_again(t, begin, i, map);
		}
		block = b;
		node_backward(t, i, map);
	}
	place_parameter_grads(t, tensors);
	for (int i = 0; i < tensors; i++)
		if (t->grad[i] && t->tensor[i]->st->kind == STORE_INPUT && t->tensor[i]->needs_grad)
			tape_keep(t, t->grad[i]);
	mem_free(map);
}
