/* Functions that record ops (kernels/op.h) and views. Each returns the output tensor, owned by the tape. Mismatched shapes are bugs
 * (assert). An operand that "stretches" is broadcast: its dimensions of size 1 stretch, and missing leading dimensions are added. */
#ifndef DDM_TAPE_OPS_H
#define DDM_TAPE_OPS_H

#include "tape/tape.h"

/* Views: they share memory. op_reshape copies if no strides can express the new shape; op_concat always copies. */
struct tensor *op_reshape(struct tape *t, struct tensor *x, int rank, const int64_t *shape);
struct tensor *op_permute(struct tape *t, struct tensor *x, const int *order);    /* output dimension d is input dimension order[d] */
struct tensor *op_expand(struct tape *t, struct tensor *x, const int64_t *shape); /* same rank; size 1 stretches */
struct tensor *op_repeat(struct tape *t, struct tensor *x);                       /* [1, ..] -> [capacity, ..], batched: the same for each sample */
struct tensor *op_slice(struct tape *t, struct tensor *x, int dim, int64_t from, int64_t length);
/* n slices x[.., i, ..] of dimension dim, whose size is n <= OP_OUT; the dimension is dropped. */
void op_unstack(struct tape *t, struct tensor *x, int dim, struct tensor **out);
struct tensor *op_concat(struct tape *t, int dim, int n, struct tensor *const *xs); /* copies; n <= OP_IN */

struct tensor *op_copy(struct tape *t, struct tensor *x);                                        /* contiguous */
struct tensor *op_axpby(struct tape *t, double a, struct tensor *x, double b, struct tensor *y); /* a x + b y; y stretches */
struct tensor *op_add(struct tape *t, struct tensor *x, struct tensor *y);
struct tensor *op_mul(struct tape *t, struct tensor *x, struct tensor *y); /* y stretches */
struct tensor *op_scale(struct tape *t, struct tensor *x, double a);
struct tensor *op_sum(struct tape *t, struct tensor *x, const int64_t *shape, double scale); /* over the dimensions whose size becomes 1 */
struct tensor *op_unary(struct tape *t, struct tensor *x, enum unary u);

struct tensor *op_linear(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias); /* bias may be NULL */
struct tensor *op_linear_act(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, enum unary act);
struct tensor *op_matmul(struct tape *t, struct tensor *a, int transpose_a, struct tensor *b, int transpose_b, double alpha);

/* Normalization over the last dimension: y = xhat (scale [+ 1]) [+ shift]; scale and shift stretch and may be NULL. */
struct tensor *op_norm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, enum norm_kind kind, double eps, int one_plus);
struct tensor *op_gate(struct tape *t, struct tensor *x, struct tensor *g, struct tensor *h); /* x + g h; g stretches */
struct tensor *op_attention(struct tape *t, struct tensor *q, struct tensor *k, struct tensor *v, double scale, int causal);
/* The same with a bias added to the scaled scores; it stretches to (B, heads, T, S). A mask has values 0 and -10000. No gradient flows
 * into the bias. */
struct tensor *op_attention_bias(struct tape *t, struct tensor *q, struct tensor *k, struct tensor *v, struct tensor *bias, double scale, int causal);
/* x (B, T, heads, d), pairs of its last dimension turned by angles of the given cosines and sines (kernels/op.h): (T, d / 2), or (B, T, d / 2). No
 * gradient flows into these. */
struct tensor *op_rotary(struct tape *t, struct tensor *x, struct tensor *cosine, struct tensor *sine, enum rotary_pairs pairs);
struct tensor *op_embed(struct tape *t, struct tensor *table, struct tensor *index);
struct tensor *op_timestep(struct tape *t, struct tensor *time, int64_t width, double max_period, double scale);
struct tensor *op_softmax(struct tape *t, struct tensor *x);
struct tensor *op_xent(struct tape *t, struct tensor *logits, struct tensor *label);
/* Cross-entropy with soft targets (B, K), which need not sum to 1; no gradient flows into them. */
struct tensor *op_xent_soft(struct tape *t, struct tensor *logits, struct tensor *target);
struct tensor *op_mse(struct tape *t, struct tensor *a, struct tensor *b, struct tensor *weight); /* weight may be NULL */

/* Ops on images (B, H, W, C). w [O, kh, kw, C]; bias and add, of the result's shape, may be NULL. act: enum unary + 1, or 0. */
struct padding {
	int64_t top, left, bottom, right;
};
struct tensor *op_conv(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                       struct padding pad, int act);
/* op_conv for large batches: kernels may transform the weights first, which would be too slow for one small image. */
struct tensor *op_conv_many(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                            struct padding pad, int act);
/* x (B, .., C); scale and shift [C] may be NULL; act: UNARY_SILU + 1, UNARY_RELU + 1 or 0. */
struct tensor *op_groupnorm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, int64_t groups, double eps, int act);
/* Windows of k x k at a stride; `ceil`: also a last window that the edge cuts off. 2 pad <= k. */
struct tensor *op_pool(struct tape *t, struct tensor *x, enum pool_kind kind, int64_t k, int64_t stride, int64_t pad, int ceil);
struct tensor *op_upsample_nearest(struct tape *t, struct tensor *x); /* (B, H, W, C) -> (B, 2H, 2W, C) */

/* Each call draws its own mask with the keys of tape_seed; where those say no_dropout, a copy of x. 0 <= p <= 1. */
struct tensor *op_dropout(struct tape *t, struct tensor *x, double p);
struct tensor *op_qsample(struct tape *t, struct tensor *x0, struct tensor *eps, struct tensor *alpha, struct tensor *sigma);
struct tensor *op_noise(struct tape *t, int rank, const int64_t *shape); /* [batch, ..] standard normals, drawn with the keys of tape_seed */

#endif
