/* Between the files that record ops (lib/tape/ops_*.c, views.c) and the table of them (opdef.c): one module, as the gradient of an op is made of
 * other ops. Included by these alone. */
#ifndef DDM_TAPE_OPSIMPL_H
#define DDM_TAPE_OPSIMPL_H

#include "tape/opdef.h"
#include "tape/ops.h"

/* x itself, or a recorded copy where kernels could not walk it: contiguous; with a contiguous last dimension; that and rows at one
 * stride, for products. */
struct tensor *tensor_dense(struct tape *t, struct tensor *x);
struct tensor *tensor_rows(struct tape *t, struct tensor *x);
struct tensor *tensor_matrix(struct tape *t, struct tensor *x);

/* The gradient of an operand that was stretched: summed over what it was stretched along. */
struct tensor *grad_unstretch(struct tape *t, struct tensor *g, const struct tensor *operand);
/* A tensor for the gradient of a stretched operand as kernels write it: of the operand's rank, size 1 where it was stretched; and that
 * gradient in the shape the operand had before. */
struct tensor *grad_narrow(struct tape *t, const struct tensor *operand);
struct tensor *grad_to_root(struct tape *t, struct tensor *g, const struct tensor *operand);
/* dy fn'(x). */
struct tensor *grad_unary(struct tape *t, struct tensor *dy, struct tensor *x, enum unary fn);

#endif
