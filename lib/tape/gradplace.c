/* Moves a gradient to given memory, by making its producer write there or by a copy. */
#include <assert.h>
#include <string.h>

#include "tape/opsimpl.h"

static int whole_storage(const struct tensor *x)
{
	return x->offset == 0 && tensor_contiguous(x) && tensor_count(x) == x->st->elements;
}

int node_producing(const struct tape *t, const struct tensor *x)
{
	for (int i = t->nnodes - 1; i >= 0; i--)
		for (int k = 0; k < t->node[i].nout; k++)
			if (t->node[i].out[k] == x)
				return i;
	return -1;
}

/* Whether g still has a whole arena storage of its own, so that it can move elsewhere. */
static int movable(const struct tensor *g)
{
	return g->st->kind == STORE_ARENA && !g->st->into && !g->st->keep && whole_storage(g);
}

int tensor_unread(const struct tape *t, const struct tensor *g, int producer)
{
	if (!movable(g) || g->st->tensors != 1)
		return 0;
	for (int i = producer + 1; i < t->nnodes; i++)
		for (int j = 0; j < t->node[i].nin; j++)
			if (t->node[i].in[j] == g)
				return 0;
	return 1;
}

static int can_write(const struct node *producer, const struct tensor *dst)
{
	struct array a;
	int64_t step;

	tensor_array(dst, &a);
	switch (op_def_of(producer->op)->strided) {
	case STRIDED_NO:
		return 0;
	case STRIDED_ROWS:
		return a.stride[a.rank - 1] == 1 && array_row_stride(&a, &step);
	default:
		return a.stride[a.rank - 1] == 1;
	}
}

void grad_place(struct tape *t, struct tensor *g, struct tensor *dst)
{
	int producer;

	assert(g->rank == dst->rank && !memcmp(g->shape, dst->shape, (size_t)g->rank * sizeof *g->shape));
	if (movable(g) && tensor_contiguous(dst)) {
		g->st->into = dst->st;
		g->st->into_offset = dst->offset;
		return;
	}
	producer = node_producing(t, g);
	if (producer >= t->forward_end && tensor_unread(t, g, producer) && can_write(&t->node[producer], dst)) {
		g->st = dst->st;
		g->offset = dst->offset;
		memcpy(g->stride, dst->stride, sizeof g->stride);
		dst->st->tensors++;
		return;
	}
	node_add(t, OP_COPY, 1, &g, 1, &dst, NULL);
}
