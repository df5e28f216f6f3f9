/* Recorders. */
#include "tape/ops.h"

#include <assert.h>
#include <string.h>

#include "tape/record.h"

static struct tensor *node1(struct tape *t, enum op op, int nin, struct tensor *const *in, struct tensor *y,
                            const struct op_attr *attr)
{
	node_add(t, op, nin, in, 1, &y, attr);
	return y;
}

struct tensor *op_copy(struct tape *t, struct tensor *x)
{
	return node1(t, OP_COPY, 1, &x, tensor_like(t, x), NULL);
}

struct tensor *op_axpby(struct tape *t, double a, struct tensor *x, double b, struct tensor *y)
{
	struct op_attr attr = {.f = {a, b}};
	struct tensor *in[2];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, tensor_rows(t, y), x);
	return node1(t, OP_ADD, 2, in, tensor_like(t, x), &attr);
}

struct tensor *op_add(struct tape *t, struct tensor *x, struct tensor *y)
{
	return op_axpby(t, 1, x, 1, y);
}

struct tensor *op_scale(struct tape *t, struct tensor *x, double a)
{
	return op_axpby(t, a, x, 0, x);
}

struct tensor *op_mul(struct tape *t, struct tensor *x, struct tensor *y)
{
	struct tensor *in[2];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, tensor_rows(t, y), x);
	return node1(t, OP_MUL, 2, in, tensor_like(t, x), NULL);
}

struct tensor *op_sum(struct tape *t, struct tensor *x, const int64_t *shape, double scale)
{
	struct op_attr attr = {.f = {scale}};
	int same = 1;

	for (int d = 0; d < x->rank; d++) {
		assert(shape[d] == x->shape[d] || shape[d] == 1);
		same = same && shape[d] == x->shape[d];
	}
	if (same && scale == 1)
		return x;
	return node1(t, OP_SUM, 1, &x, tensor_new(t, x->dtype, x->rank, shape, x->batched && shape[0] == x->shape[0]), &attr);
}

struct tensor *op_unary(struct tape *t, struct tensor *x, enum unary u)
{
	struct op_attr attr = {.i = {u}};

	x = tensor_rows(t, x);
	return node1(t, OP_UNARY, 1, &x, tensor_like(t, x), &attr);
}

static struct tensor *linear(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, int act)
{
	struct op_attr attr = {.i = {act}};
	struct tensor *in[3] = {tensor_matrix(t, x), tensor_dense(t, w), bias ? tensor_dense(t, bias) : NULL}, *out[2] = {0};
	int64_t shape[ARRAY_RANK];

	assert(w->rank == 2 && x->shape[x->rank - 1] == w->shape[1] && (!bias || tensor_count(bias) == w->shape[0]));
	memcpy(shape, x->shape, sizeof shape);
	shape[x->rank - 1] = w->shape[0];
	out[0] = tensor_new(t, t->real, x->rank, shape, x->batched);
	if (act)
		out[1] = tensor_new(t, t->real, x->rank, shape, x->batched);
	node_add(t, OP_LINEAR, 3, in, 2, out, &attr);
	return out[0];
}

struct tensor *op_linear(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias)
{
	return linear(t, x, w, bias, 0);
}

struct tensor *op_linear_act(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, enum unary act)
{
	return linear(t, x, w, bias, (int)act + 1);
}

struct tensor *op_matmul(struct tape *t, struct tensor *a, int ta, struct tensor *b, int tb, double alpha)
{
	struct op_attr attr = {.i = {ta, tb}, .f = {alpha}};
	struct tensor *in[2] = {tensor_rows(t, a), tensor_rows(t, b)};
	int64_t shape[ARRAY_RANK];
	int r = a->rank, batched;

	assert(b->rank == r && r >= 2 && a->shape[ta ? r - 2 : r - 1] == b->shape[tb ? r - 1 : r - 2]);
	memcpy(shape, a->shape, sizeof shape);
	shape[r - 2] = a->shape[ta ? r - 1 : r - 2];
	shape[r - 1] = b->shape[tb ? r - 2 : r - 1];
	batched = r > 2 || !ta ? a->batched : 0; /* a transposed matrix (B, ..) is summed over its batch */
	return node1(t, OP_MATMUL, 2, in, tensor_new(t, t->real, r, shape, batched), &attr);
}

/* What a norm scales or shifts by: its kernels read whole rows. */
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

struct tensor *op_norm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, enum norm_kind kind,
                       double eps, int one_plus)
{
	struct op_attr attr = {.i = {kind, one_plus}, .f = {eps}};
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

struct tensor *op_gate(struct tape *t, struct tensor *x, struct tensor *g, struct tensor *h)
{
	struct tensor *in[3];

	in[0] = tensor_rows(t, x);
	in[1] = tensor_stretch(t, g, x);
	in[2] = tensor_rows(t, h);
	return node1(t, OP_GATE, 3, in, tensor_like(t, x), NULL);
}

struct tensor *op_attention_bias(struct tape *t, struct tensor *q, struct tensor *k, struct tensor *v, struct tensor *bias,
                                 double scale, int causal)
{
	struct op_attr attr = {.i = {causal}, .f = {scale}};
	struct tensor *in[4] = {tensor_rows(t, q), tensor_rows(t, k), tensor_rows(t, v)}, *out[2];
	struct tensor scores = {.rank = 4, .shape = {q->shape[0], q->shape[2], q->shape[1], k->shape[1]}, .batched = q->batched};
	int64_t lse[3] = {q->shape[0], q->shape[2], q->shape[1]};

	assert(q->rank == 4 && k->rank == 4 && v->rank == 4 && q->shape[3] == k->shape[3]);
	if (bias) {
		assert(bias->shape[bias->rank - 1] == k->shape[1]);
		in[3] = tensor_stretch(t, tensor_rows(t, bias), &scores);
	}
	out[0] = tensor_like(t, q);
	out[1] = tensor_new(t, t->real, 3, lse, q->batched);
	node_add(t, OP_ATTENTION, bias ? 4 : 3, in, 2, out, &attr);
	return out[0];
}

struct tensor *op_attention(struct tape *t, struct tensor *q, struct tensor *k, struct tensor *v, double scale, int causal)
{
	return op_attention_bias(t, q, k, v, NULL, scale, causal);
}

struct tensor *op_embed(struct tape *t, struct tensor *table, struct tensor *index)
{
	struct tensor *in[2] = {tensor_rows(t, table), index};
	int64_t shape[2] = {index->shape[0], table->shape[1]};

	assert(table->rank == 2 && index->rank == 1 && index->dtype == DT_I32);
	return node1(t, OP_EMBED, 2, in, tensor_new(t, t->real, 2, shape, index->batched), NULL);
}

struct tensor *op_timestep(struct tape *t, struct tensor *time, int64_t width, double max_period, double scale)
{
	struct op_attr attr = {.f = {max_period, scale}};
	int64_t shape[2] = {time->shape[0], width};

	assert(time->rank == 1 && width % 2 == 0 && !time->needs_grad);
	return node1(t, OP_TIMESTEP, 1, &time, tensor_new(t, t->real, 2, shape, time->batched), &attr);
}

struct tensor *op_softmax(struct tape *t, struct tensor *x)
{
	x = tensor_rows(t, x);
	return node1(t, OP_SOFTMAX, 1, &x, tensor_like(t, x), NULL);
}

struct tensor *op_xent(struct tape *t, struct tensor *logits, struct tensor *label)
{
	struct tensor *in[2] = {tensor_rows(t, logits), label};

	assert(logits->rank == 2 && label->rank == 1 && label->dtype == DT_I32);
	return node1(t, OP_XENT, 2, in, tensor_new(t, t->real, 1, logits->shape, logits->batched), NULL);
}

struct tensor *op_mse(struct tape *t, struct tensor *a, struct tensor *b, struct tensor *weight)
{
	struct tensor *in[3] = {tensor_dense(t, a), tensor_dense(t, b), weight};

	assert(tensor_count(a) == tensor_count(b) && (!weight || weight->rank == 1));
	return node1(t, OP_MSE, 3, in, tensor_new(t, t->real, 1, a->shape, a->batched), NULL);
}

struct tensor *op_im2col(struct tape *t, struct tensor *x, int64_t k, int64_t stride, int64_t padding)
{
	struct op_attr attr = {.i = {k, stride, padding}};
	int64_t shape[3] = {x->shape[0], 0, x->shape[1] * k * k};

	assert(x->rank == 4);
	shape[1] = ((x->shape[2] + 2 * padding - k) / stride + 1) * ((x->shape[3] + 2 * padding - k) / stride + 1);
	x = tensor_dense(t, x);
	return node1(t, OP_IM2COL, 1, &x, tensor_new(t, t->real, 3, shape, x->batched), &attr);
}

static struct tensor *conv(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                           struct padding pad, int act, int many)
{
	struct op_attr attr = {.i = {act, stride, pad.top, pad.left, many}};
	struct tensor *in[4] = {tensor_rows(t, x), tensor_dense(t, w), bias ? tensor_dense(t, bias) : NULL, add ? tensor_matrix(t, add) : NULL};
	struct tensor *out[2] = {0};
	int64_t shape[4] = {x->shape[0], (x->shape[1] + pad.top + pad.bottom - w->shape[1]) / stride + 1,
	                    (x->shape[2] + pad.left + pad.right - w->shape[2]) / stride + 1, w->shape[0]};

	assert(x->rank == 4 && w->rank == 4 && x->shape[3] == w->shape[3] && (!bias || tensor_count(bias) == w->shape[0]));
	assert(x->shape[1] + pad.top + pad.bottom >= w->shape[1] && x->shape[2] + pad.left + pad.right >= w->shape[2]);
	assert(!add || (add->rank == 4 && !memcmp(add->shape, shape, sizeof shape)));
	out[0] = tensor_new(t, t->real, 4, shape, x->batched);
	if (act)
		out[1] = tensor_new(t, t->real, 4, shape, x->batched);
	node_add(t, OP_CONV, 4, in, 2, out, &attr);
	return out[0];
}

struct tensor *op_conv_act(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                           struct padding pad, int act)
{
	return conv(t, x, w, bias, add, stride, pad, act, 0);
}

struct tensor *op_conv_many(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, struct tensor *add, int64_t stride,
                            struct padding pad, int act)
{
	return conv(t, x, w, bias, add, stride, pad, act, 1);
}

struct tensor *op_conv(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *bias, int64_t stride, struct padding pad)
{
	return op_conv_act(t, x, w, bias, NULL, stride, pad, 0);
}

struct tensor *op_groupnorm(struct tape *t, struct tensor *x, struct tensor *scale, struct tensor *shift, int64_t groups, double eps,
                            int act)
{
	struct op_attr attr = {.i = {groups, act}, .f = {eps}};
	struct tensor *in[3] = {tensor_dense(t, x), scale ? tensor_dense(t, scale) : NULL, shift ? tensor_dense(t, shift) : NULL}, *out[2];
	int64_t shape[3] = {x->shape[0], groups, 2}, channels = x->shape[x->rank - 1];

	assert(x->rank >= 2 && channels % groups == 0);
	assert((!scale || tensor_count(scale) == channels) && (!shift || tensor_count(shift) == channels));
	out[0] = tensor_like(t, x);
	out[1] = tensor_new(t, t->real, 3, shape, x->batched);
	node_add(t, OP_GROUPNORM, 3, in, 2, out, &attr);
	return out[0];
}

static int64_t windows(int64_t n, int64_t k, int64_t stride, int64_t pad, int ceil)
{
	int64_t room = n + 2 * pad - k, count = (room + (ceil ? stride - 1 : 0)) / stride + 1;

	assert(room >= 0);
	return (count - 1) * stride >= n + pad ? count - 1 : count;
}

struct tensor *op_pool(struct tape *t, struct tensor *x, enum pool_kind kind, int64_t k, int64_t stride, int64_t pad, int ceil)
{
	struct op_attr attr = {.i = {kind, k, stride, pad}};
	int64_t shape[4];

	assert(x->rank == 4 && 2 * pad <= k);
	x = tensor_dense(t, x);
	memcpy(shape, x->shape, sizeof shape);
	for (int d = 1; d < 3; d++)
		shape[d] = windows(x->shape[d], k, stride, pad, ceil);
	return node1(t, OP_POOL, 1, &x, tensor_new(t, t->real, 4, shape, x->batched), &attr);
}

struct tensor *op_twice(struct tape *t, struct tensor *x)
{
	int64_t b = x->shape[0], h = x->shape[1], w = x->shape[2], c = x->shape[3];
	int64_t one[6] = {b, h, 1, w, 1, c}, two[6] = {b, h, 2, w, 2, c}, out[4] = {b, 2 * h, 2 * w, c};

	return op_reshape(t, op_expand(t, op_reshape(t, x, 6, one), two), 4, out);
}

struct tensor *op_dropout(struct tape *t, struct tensor *x, double p)
{
	struct op_attr attr = {.i = {t->dropouts++ << 24}, .f = {p}};

	x = tensor_dense(t, x);
	return node1(t, OP_DROPOUT, 1, &x, tensor_like(t, x), &attr);
}

struct tensor *op_qsample(struct tape *t, struct tensor *x0, struct tensor *eps, struct tensor *alpha, struct tensor *sigma)
{
	struct tensor *in[4] = {tensor_dense(t, x0), tensor_dense(t, eps), alpha, sigma};

	return node1(t, OP_QSAMPLE, 4, in, tensor_like(t, x0), NULL);
}

struct tensor *op_noise(struct tape *t, int rank, const int64_t *shape)
{
	return node1(t, OP_NOISE, 0, NULL, tensor_new(t, t->real, rank, shape, 1), NULL);
}
