/* Records DiT. */
#include "net/dit.h"

#include <assert.h>

#include "net/trunk.h"
#include "tape/ops.h"

static const struct trunk_names meta_names = {
    .patch = "x_embedder.proj",
    .time = "t_embedder.mlp",
    .qkv_weight = "blocks.%d.attn.qkv.weight",
    .qkv_bias = "blocks.%d.attn.qkv.bias",
    .proj = "blocks.%d.attn.proj",
    .fc1 = "blocks.%d.mlp.fc1",
    .fc2 = "blocks.%d.mlp.fc2",
    .modulation = "blocks.%d.adaLN_modulation.1",
};

/* 1 - time; e^(0 t) is the 1. */
static struct tensor *reversed(struct tape *t, struct tensor *time)
{
	return op_axpby(t, 1, op_unary(t, op_scale(t, time, 0), UNARY_EXP), -1, time);
}

struct tensor *dit_record(struct tape *t, struct params *p, const struct net_config *c, struct tensor *x, struct tensor *time,
                          struct tensor *label)
{
	struct trunk k = {t, p, c, &meta_names};
	int64_t h = c->hidden, table[2] = {c->classes + (c->class_dropout > 0), h}, two[4] = {x->shape[0], 2, 1, h};
	struct tensor *tokens = trunk_tokens(&k, x), *cond, *act, *m[2];

	assert(!label == !c->classes);
	cond = trunk_time(&k, c->reversed ? reversed(t, time) : time);
	if (label)
		cond = op_add(t, cond,
		              op_embed(t, tape_param(t, p, "y_embedder.embedding_table.weight", 2, table, 0, init_small), label));
	act = op_unary(t, cond, UNARY_SILU);
	for (int64_t i = 0; i < c->depth; i++)
		tokens = trunk_block(&k, i, tokens, act);
	op_unstack(t, op_reshape(t, trunk_linear(&k, act, "final_layer.adaLN_modulation.1", 2 * h, init_zero, -1), 4, two), 1, m);
	tokens = op_norm(t, tokens, m[1], m[0], NORM_LAYER, trunk_eps(c), 1);
	tokens = trunk_linear(&k, tokens, "final_layer.linear", c->patch * c->patch * c->out_channels, init_zero, -1);
	tokens = trunk_unpatchify(&k, tokens);
	return c->reversed ? op_scale(t, tokens, -1) : tokens;
}
