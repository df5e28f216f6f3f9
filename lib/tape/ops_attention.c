/* Attention, rotary positions and softmax, and the embeddings of indices and timesteps. */
#include "tape/opsimpl.h"

#include <assert.h>
#include <string.h>

struct tensor *op_attention_bias(struct tape *t, struct tensor *q, struct tensor *k, struct tensor *v, struct tensor *bias, double scale, int causal)
{
	struct op_attr attr = {.attention = {causal, scale}};
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

static void attention_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	int biased = n->nin > 3;
	struct tensor *in[7] = {tensor_rows(v->t, v->dy[0]), n->in[0], n->in[1], n->in[2], n->out[0], n->out[1]};

	assert(!biased || !v->need[3]);
	if (biased)
		in[6] = n->in[3];
	for (int j = 0; j < 3; j++)
		v->dx[j] = tensor_like(v->t, n->in[j]);
	node_add(v->t, OP_ATTENTION_GRAD, 6 + biased, in, 3, v->dx, &n->attr);
}

/* Two products forward, four backward. Recomputing the scores is not counted. */
static double attention_flops(const struct op_call *c)
{
	const struct array *q = &c->in[0], *k = &c->in[1];

	return 4. * (double)array_count(q) * (double)k->shape[1];
}

static double attention_grad_flops(const struct op_call *c)
{
	return 8. * (double)array_count(&c->in[1]) * (double)c->in[2].shape[1];
}

/* A table (.., T, d / 2) as ROTARY reads it beside x (B, T, heads, d). */
static struct tensor *rotary_table(struct tape *t, struct tensor *table, const struct tensor *x)
{
	int64_t batch = table->rank == 3 ? table->shape[0] : 1, shape[4] = {batch, x->shape[1], 1, x->shape[3] / 2};
	struct tensor pairs = {.rank = 4, .shape = {x->shape[0], x->shape[1], x->shape[2], x->shape[3] / 2}, .batched = x->batched};

	assert(table->rank == 2 || table->rank == 3);
	assert(table->shape[table->rank - 1] == shape[3] && table->shape[table->rank - 2] == shape[1]);
	return tensor_stretch(t, op_reshape(t, tensor_rows(t, table), table->rank == 3 ? 4 : 3, table->rank == 3 ? shape : shape + 1), &pairs);
}

struct tensor *op_rotary(struct tape *t, struct tensor *x, struct tensor *cosine, struct tensor *sine, enum rotary_pairs pairs)
{
	struct op_attr attr = {.rotary = {pairs, 0}};
	struct tensor *in[3] = {tensor_rows(t, x), rotary_table(t, cosine, x), rotary_table(t, sine, x)};

	assert(x->rank == 4 && x->shape[3] % 2 == 0);
	return node_one(t, OP_ROTARY, 3, in, tensor_like(t, x), &attr);
}

/* A rotation is orthogonal, so its transpose is the rotation back. */
static void rotary_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct op_attr attr = n->attr;
	struct tensor *in[3] = {tensor_rows(v->t, v->dy[0]), n->in[1], n->in[2]};

	assert(!v->need[1] && !v->need[2]);
	attr.rotary.back = !attr.rotary.back;
	v->dx[0] = node_one(v->t, OP_ROTARY, 3, in, tensor_like(v->t, n->in[0]), &attr);
}

struct tensor *op_softmax(struct tape *t, struct tensor *x)
{
	x = tensor_rows(t, x);
	return node_one(t, OP_SOFTMAX, 1, &x, tensor_like(t, x), NULL);
}

static void softmax_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_rows(v->t, v->dy[0]), v->n->out[0]};

	v->dx[0] = node_one(v->t, OP_SOFTMAX_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), NULL);
}

struct tensor *op_embed(struct tape *t, struct tensor *table, struct tensor *index)
{
	struct tensor *in[2] = {tensor_rows(t, table), index};
	int64_t shape[2] = {index->shape[0], table->shape[1]};

	assert(table->rank == 2 && index->rank == 1 && index->dtype == DT_I32);
	return node_one(t, OP_EMBED, 2, in, tensor_new(t, t->real, 2, shape, index->batched), NULL);
}

static void embed_vjp(struct vjp *v)
{
	struct tensor *in[2] = {tensor_rows(v->t, v->dy[0]), v->n->in[1]};

	v->dx[0] = node_one(v->t, OP_EMBED_GRAD, 2, in, tensor_like(v->t, v->n->in[0]), NULL);
}

struct tensor *op_timestep(struct tape *t, struct tensor *time, int64_t width, double max_period, double scale)
{
	struct op_attr attr = {.timestep = {max_period, scale}};
	int64_t shape[2] = {time->shape[0], width};

	assert(time->rank == 1 && width % 2 == 0 && !time->needs_grad);
	return node_one(t, OP_TIMESTEP, 1, &time, tensor_new(t, t->real, 2, shape, time->batched), &attr);
}

const struct op_def op_def_attention = {
    .vjp = attention_vjp, .flops = attention_flops, .exact = 2, .narrow = 1 << 0, .rounds = 1 << 0 | 1 << 1 | 1 << 2};
/* dy, q, k, v and o are rounded. */
const struct op_def op_def_attention_grad = {
    .flops = attention_grad_flops, .strided = STRIDED_YES, .narrow = 1 << 0 | 1 << 1 | 1 << 2, .rounds = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4};
const struct op_def op_def_rotary = {.vjp = rotary_vjp, .in_place = 1, .strided = STRIDED_YES};
const struct op_def op_def_softmax = {.vjp = softmax_vjp};
const struct op_def op_def_softmax_grad = {0};
const struct op_def op_def_embed = {.vjp = embed_vjp};
const struct op_def op_def_embed_grad = {.exact = 1};
const struct op_def op_def_timestep = {0};
