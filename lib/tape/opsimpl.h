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
/* dy fn'(x). */
struct tensor *grad_unary(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn);

#endif
