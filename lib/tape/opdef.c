/* The table of op definitions, and functions that several gradient rules share. */
#include "tape/opsimpl.h"

const struct op_def *op_def_of(enum op op)
{
	static const struct op_def *const defs[OP_COUNT] = {
#define X(id, fn) [OP_##id] = &op_def_##fn,
	    X(VIEW, view) OPS_RECORDED(X)
#undef X
	};

	return defs[op];
}

/* The gradient of a broadcast operand: g summed over the dimensions that were stretched. */
struct tensor *grad_unstretch(struct tape *t, struct tensor *g, const struct tensor *x)
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

/* A tensor for the gradient of a broadcast operand as kernels write it: of the operand's rank, size 1 in stretched dimensions. */
struct tensor *grad_narrow(struct tape *t, const struct tensor *operand)
{
	const struct tensor *r = operand->root;
	int64_t shape[ARRAY_RANK];
	int lead = operand->rank - r->rank;

	for (int d = 0; d < operand->rank; d++)
		shape[d] = d < lead ? 1 : r->shape[d - lead];
	return tensor_new(t, t->real, operand->rank, shape, r->batched && !lead);
}

struct tensor *grad_to_root(struct tape *t, struct tensor *g, const struct tensor *operand)
{
	return op_reshape(t, g, operand->root->rank, operand->root->shape);
}
