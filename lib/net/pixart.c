/* Records PixArt-alpha. */
#include "net/pixart.h"

#include <assert.h>
#include <stdio.h>

#include "net/trunk.h"
#include "tape/ops.h"

static const struct trunk_names pixart_names = {
    .patch = "x_embedder.proj",
    .time = "t_embedder.mlp",
    .qkv_weight = "blocks.%d.attn.qkv.weight",
    .qkv_bias = "blocks.%d.attn.qkv.bias",
    .proj = "blocks.%d.attn.proj",
    .fc1 = "blocks.%d.mlp.fc1",
    .fc2 = "blocks.%d.mlp.fc2",
    .table = "blocks.%d.scale_shift_table",
    .cross_q = "blocks.%d.cross_attn.q_linear",
    .cross_kv = "blocks.%d.cross_attn.kv_linear",
    .cross_proj = "blocks.%d.cross_attn.proj",
};

/* The two layers of PREFIX.0 and PREFIX.2 on the waves of n numbers a sample: (B, n width). */
static struct tensor *number_embedding(const struct trunk *k, struct tensor *numbers, const char *prefix, int64_t width)
{
	int64_t b = numbers->shape[0], n = numbers->shape[1], flat[1] = {b * n}, out[2] = {b, n * width};
	struct tensor *h = op_timestep(k->t, op_reshape(k->t, op_copy(k->t, numbers), 1, flat), 256, 10000, 1);
	char name[64];

	snprintf(name, sizeof name, "%s.mlp.0", prefix);
	h = trunk_linear(k, h, name, width, init_small, UNARY_SILU);
	snprintf(name, sizeof name, "%s.mlp.2", prefix);
	return op_reshape(k->t, trunk_linear(k, h, name, width, init_small, -1), 2, out);
}

/* Height and width, then the aspect ratio, a third of the width each. */
static struct tensor *micro_conditions(const struct trunk *k, struct tensor *micro)
{
	int64_t third = k->c->hidden / 3;
	struct tensor *part[2];

	part[0] = number_embedding(k, op_slice(k->t, micro, 1, 0, 2), "csize_embedder", third);
	part[1] = number_embedding(k, op_slice(k->t, micro, 1, 2, 1), "ar_embedder", third);
	return op_concat(k->t, 1, 2, part);
}

/* The features of no text: kept with the weights, read by nobody here. */
static void null_text(const struct trunk *k)
{
	int64_t shape[2] = {k->c->text_tokens, k->c->text_width};

	tape_param(k->t, k->p, "y_embedder.y_embedding", 2, shape, PARAM_FROZEN, init_zero);
}

struct tensor *pixart_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = {t, p, c, &pixart_names};
	struct tensor *tokens = trunk_tokens(&k, in->x), *time = trunk_time(&k, in->time), *modulation, *text;

	assert(in->text && !in->micro == !c->micro);
	if (in->micro)
		time = op_add(t, time, micro_conditions(&k, in->micro));
	modulation = trunk_modulation(&k, time, "t_block.1");
	text = trunk_linear(&k, in->text, "y_embedder.y_proj.fc1", c->hidden, init_small, UNARY_GELU_TANH);
	text = trunk_linear(&k, text, "y_embedder.y_proj.fc2", c->hidden, init_small, -1);
	null_text(&k);
	for (int64_t i = 0; i < c->depth; i++)
		tokens = trunk_block_single(&k, i, tokens, modulation, text, in->mask);
	return trunk_final_single(&k, tokens, time);
}
