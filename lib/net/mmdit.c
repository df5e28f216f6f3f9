/* Records the blocks of networks with a text stream and a picture stream (SD3, FLUX). */
#include "net/mmdit.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "core/mem.h"
#include "tape/ops.h"

static const double EPS = 1e-6; /* of all norms */
enum { MLP_RATIO = 4 };

struct tensor *mmdit_bias(struct tape *t, struct tensor *mask, int64_t n)
{
	int64_t picture[2] = {1, n}, scores[4] = {mask->shape[0], 1, 1, mask->shape[1] + n};
	double *zeros = mem_zalloc((size_t)n, sizeof *zeros);
	struct tensor *part[MMDIT_STREAMS] = {mask, op_repeat(t, tape_constant(t, 2, picture, zeros))};

	mem_free(zeros);
	return op_reshape(t, op_concat(t, 1, MMDIT_STREAMS, part), 4, scores);
}

void mmdit_modulation(const struct mmdit *k, const struct layers *l, const char *name, int parts, struct tensor **m)
{
	struct tape *t = l->t;
	int64_t split[4] = {k->act->shape[0], parts, 1, k->hidden};
	struct tensor *h = layer_linear(l, k->act, name, &(struct linear){.out = parts * k->hidden, .init = init_zero});

	assert(parts <= MMDIT_PARTS);
	h = op_reshape(t, h, 4, split);
	for (int i = 0; i < parts; i += MMDIT_SHIFT2)
		op_unstack(t, parts > MMDIT_SHIFT2 ? op_slice(t, h, 1, i, i ? parts - i : MMDIT_SHIFT2) : h, 1, m + i);
}

static struct tensor *modulated(struct tape *t, struct tensor *x, struct tensor *shift, struct tensor *scale)
{
	return op_norm(t, x, scale, shift, NORM_LAYER, EPS, 1);
}

static struct tensor *head_norm(const struct layers *l, struct tensor *x, const char *name)
{
	struct tensor *scale = layer_param_init(l, name, 1, &x->shape[3], 0, init_one);

	return op_norm(l->t, x, scale, NULL, NORM_RMS, EPS, 0);
}

/* Queries, keys and values (B, T, heads, width) of tokens (B, T, H). */
static void project(const struct mmdit *k, const struct layers *l, struct tensor *x, const struct mmdit_names *names, struct tensor **qkv)
{
	int64_t h = k->hidden, shape[2] = {3 * h, h}, packed[5] = {x->shape[0], x->shape[1], 3, k->heads, h / k->heads};
	struct layers inner = layers_in(l, "%s.", names->qkv);
	struct tensor *w = layer_param_init(&inner, "weight", 2, shape, PARAM_DECAY | PARAM_BULK | PARAM_QKV, init_xavier(h, 3 * h));
	struct tensor *b = layer_param(&inner, "bias", 1, shape);

	op_unstack(l->t, op_reshape(l->t, op_linear(l->t, x, w, b), 5, packed), 2, qkv);
	if (!k->qk_norm)
		return;
	qkv[0] = head_norm(l, qkv[0], names->norm_q);
	qkv[1] = head_norm(l, qkv[1], names->norm_k);
}

static struct tensor *attend(const struct mmdit *k, struct tape *t, struct tensor *const *qkv, struct tensor *bias)
{
	return op_attention_bias(t, qkv[0], qkv[1], qkv[2], bias, 1 / sqrt((double)(k->hidden / k->heads)), 0);
}

/* Turn queries and keys of all tokens by their positions. */
static void turn(const struct mmdit *k, struct tape *t, struct tensor **qkv)
{
	for (int i = 0; i < 2 && k->cosine; i++)
		qkv[i] = op_rotary(t, qkv[i], k->cosine, k->sine, ROTARY_ADJACENT);
}

/* Attention of the tokens of both streams to the tokens of both: out[s] (B, T, H). */
static void attend_jointly(const struct mmdit *k, struct tape *t, struct tensor *qkv[MMDIT_STREAMS][3], struct tensor **out)
{
	struct tensor *all[3], *y;
	int64_t from = 0;

	for (int i = 0; i < 3; i++)
		all[i] = op_concat(t, 1, MMDIT_STREAMS, (struct tensor *const[]){qkv[MMDIT_TEXT][i], qkv[MMDIT_PICTURE][i]});
	turn(k, t, all);
	y = attend(k, t, all, k->bias);
	for (int s = 0; s < MMDIT_STREAMS; s++) {
		int64_t tokens = qkv[s][0]->shape[1], flat[3] = {y->shape[0], tokens, k->hidden};

		out[s] = op_reshape(t, op_slice(t, y, 1, from, tokens), 3, flat);
		from += tokens;
	}
}

static struct tensor *square(const struct mmdit *k, const struct layers *l, struct tensor *x, const char *name)
{
	return layer_linear(l, x, name, &(struct linear){.out = k->hidden, .init = init_xavier(k->hidden, k->hidden)});
}

static struct tensor *mlp(const struct mmdit *k, const struct layers *l, struct tensor *x, const struct mmdit_names *names)
{
	int64_t n = k->hidden, wide = MLP_RATIO * n;

	x = layer_linear(l, x, names->fc1, &(struct linear){.out = wide, .act = UNARY_GELU_TANH + 1, .init = init_xavier(n, wide)});
	return layer_linear(l, x, names->fc2, &(struct linear){.out = n, .init = init_xavier(wide, n)});
}

/* Attention of a picture's tokens (B, T, H) to each other. */
static struct tensor *attend_alone(const struct mmdit *k, const struct layers *l, struct tensor *x, const struct mmdit_names *names)
{
	struct tensor *qkv[3];

	project(k, l, x, names, qkv);
	return square(k, l, op_reshape(l->t, attend(k, l->t, qkv, NULL), 3, x->shape), names->proj);
}

void mmdit_joint_block(const struct mmdit *k, const struct layers *l, const struct mmdit_block *b, struct tensor **x)
{
	struct tape *t = l->t;
	struct tensor *m[MMDIT_STREAMS][MMDIT_PARTS], *qkv[MMDIT_STREAMS][3], *h[MMDIT_STREAMS], *second = NULL;

	tape_block_begin(t);
	for (int s = 0; s < MMDIT_STREAMS; s++) {
		int parts = s == MMDIT_TEXT && b->last ? MMDIT_GATE : s == MMDIT_PICTURE && b->second ? MMDIT_PARTS : MMDIT_SHIFT2;

		mmdit_modulation(k, l, b->names[s]->modulation, parts, m[s]);
		project(k, l, modulated(t, x[s], m[s][MMDIT_SHIFT], m[s][MMDIT_SCALE]), b->names[s], qkv[s]);
	}
	attend_jointly(k, t, qkv, h);
	if (b->second) {
		struct tensor **of = m[MMDIT_PICTURE];

		second = attend_alone(k, l, modulated(t, x[MMDIT_PICTURE], of[MMDIT_SHIFT2], of[MMDIT_SCALE2]), b->second);
	}
	for (int s = 0; s < MMDIT_STREAMS; s++) {
		struct tensor *y = x[s];

		x[s] = NULL;
		if (s == MMDIT_TEXT && b->last)
			continue;
		y = tape_float(t, op_gate(t, y, m[s][MMDIT_GATE], square(k, l, h[s], b->names[s]->proj)));
		if (s == MMDIT_PICTURE && second)
			y = tape_float(t, op_gate(t, y, m[s][MMDIT_GATE2], second));
		h[s] = mlp(k, l, modulated(t, y, m[s][MMDIT_MLP_SHIFT], m[s][MMDIT_MLP_SCALE]), b->names[s]);
		x[s] = tape_float(t, op_gate(t, y, m[s][MMDIT_MLP_GATE], h[s]));
	}
	tape_block_end(t);
}

struct tensor *mmdit_single_block(const struct mmdit *k, const struct layers *l, const struct mmdit_single_names *names, struct tensor *x)
{
	struct tape *t = l->t;
	int64_t n = k->hidden, wide = MLP_RATIO * n, packed[5] = {x->shape[0], x->shape[1], 3, k->heads, n / k->heads};
	struct tensor *m[MMDIT_MLP_SHIFT], *h, *qkv[3], *part[2];

	tape_block_begin(t);
	mmdit_modulation(k, l, names->modulation, MMDIT_MLP_SHIFT, m);
	h = modulated(t, x, m[MMDIT_SHIFT], m[MMDIT_SCALE]);
	h = layer_linear(l, h, names->linear1, &(struct linear){.out = 3 * n + wide, .init = init_xavier(n, 3 * n + wide)});
	op_unstack(t, op_reshape(t, op_slice(t, h, 2, 0, 3 * n), 5, packed), 2, qkv);
	qkv[0] = head_norm(l, qkv[0], names->norm_q);
	qkv[1] = head_norm(l, qkv[1], names->norm_k);
	turn(k, t, qkv);
	part[0] = op_reshape(t, attend(k, t, qkv, k->bias), 3, x->shape);
	part[1] = op_unary(t, op_slice(t, h, 2, 3 * n, wide), UNARY_GELU_TANH);
	h = layer_linear(l, op_concat(t, 2, 2, part), names->linear2, &(struct linear){.out = n, .init = init_xavier(n + wide, n)});
	x = tape_float(t, op_gate(t, x, m[MMDIT_GATE], h));
	tape_block_end(t);
	return x;
}

struct tensor *mmdit_embedding(const struct layers *l, struct tensor *x, const char *name, const char *first, const char *second, int64_t width)
{
	struct layers both = layers_in(l, "%s.", name);

	x = layer_linear(&both, x, first, &(struct linear){.out = width, .act = UNARY_SILU + 1, .edge = 1, .init = init_small});
	return layer_linear(&both, x, second, &(struct linear){.out = width, .edge = 1, .init = init_small});
}

struct tensor *mmdit_conditioning(const struct layers *l, int n, struct tensor *const *parts)
{
	struct tensor *sum = parts[0];

	for (int i = 1; i < n; i++)
		sum = op_add(l->t, sum, parts[i]);
	return tape_float_grad(l->t, op_unary(l->t, sum, UNARY_SILU));
}

struct tensor *mmdit_final(const struct mmdit *k, struct tensor *tokens, int64_t out)
{
	struct tensor *m[MMDIT_GATE];

	mmdit_modulation(k, &k->l, "final_layer.adaLN_modulation.1", MMDIT_GATE, m);
	tokens = modulated(k->l.t, tokens, m[MMDIT_SHIFT], m[MMDIT_SCALE]);
	return layer_linear(&k->l, tokens, "final_layer.linear", &(struct linear){.out = out, .edge = 1, .init = init_zero});
}
