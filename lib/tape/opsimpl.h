/* Internal declarations shared by the files that record ops (lib/tape/ops_*.c, views.c, gradplace.c) and the table of ops (opdef.c). */
#ifndef DDM_TAPE_OPSIMPL_H
#define DDM_TAPE_OPSIMPL_H

#include "tape/opdef.h"
#include "tape/ops.h"

/* x itself, or a recorded copy if its strides do not suit the kernels. tensor_dense: contiguous. tensor_rows: the last dimension is
 * contiguous. tensor_matrix, for products: also one stride between rows. */
struct tensor *tensor_dense(struct tape *t, struct tensor *x);
struct tensor *tensor_rows(struct tape *t, struct tensor *x);
struct tensor *tensor_matrix(struct tape *t, struct tensor *x);

/* The gradient of a broadcast operand: g summed over the dimensions that were stretched. */
struct tensor *grad_unstretch(struct tape *t, struct tensor *g, const struct tensor *operand);
/* grad_narrow: a tensor for the gradient of a broadcast operand as kernels write it, of the stretched operand's rank with size 1 in
 * stretched dimensions. grad_to_root: that gradient in the shape the operand had before broadcasting. */
struct tensor *grad_narrow(struct tape *t, const struct tensor *operand);
struct tensor *grad_to_root(struct tape *t, struct tensor *g, const struct tensor *operand);
/* dy fn'(x). The derivative is made part of the product that computes dy where that is possible. */
struct tensor *grad_unary(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn);

/* Let the LINEAR_DX that computes dy multiply it by fn'(x), so that dy becomes that gradient. 0: dy is no such product, something else needs it too,
 * or x is not known yet where it is computed. */
int linear_dx_takes(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn);

/* The index of the node with output x, or -1. */
int node_producing(const struct tape *t, const struct tensor *x);
/* Whether x has a whole storage of its own in the arena, and no node after its producer reads it. */
int tensor_unread(const struct tape *t, const struct tensor *x, int producer);

#endif
