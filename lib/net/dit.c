/* DiT with adaLN-zero (Peebles & Xie, "Scalable diffusion models with transformers"), unconditional or class-conditional, under the tensor
 * names of facebookresearch/DiT. */
#include <assert.h>

#include "core/jsonio.h"
#include "net/trunk.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"

static const struct trunk_names meta_names = {
    TRUNK_META_NAMES,
    .modulation = "adaLN_modulation.1",
};

/* 1 - time. The 1 is exp(0 * time). */
static struct tensor *reversed(struct tape *t, struct tensor *time)
{
	return op_axpby(t, 1, op_unary(t, op_scale(t, time, 0), UNARY_EXP), -1, time);
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = trunk_begin(t, p, c, &meta_names);
	int64_t h = k.c->hidden, table[2] = {c->classes + (c->class_dropout > 0), h}, two[4] = {in->x->shape[0], 2, 1, h};
	struct tensor *tokens = trunk_tokens(&k, in->x), *cond, *act, *m[2];

	assert(!in->label == !c->classes);
	cond = trunk_time(&k, k.c->reversed ? reversed(t, in->time) : in->time);
	if (in->label)
		cond = op_add(t, cond, op_embed(t, layer_param_init(&k.l, "y_embedder.embedding_table.weight", 2, table, 0, init_small), in->label));
	act = tape_float_grad(t, op_unary(t, cond, UNARY_SILU));
	for (int64_t i = 0; i < k.c->depth; i++)
		tokens = trunk_block(&k, i, tokens, act);
	act = layer_linear(&k.l, act, "final_layer.adaLN_modulation.1", &(struct linear){.out = 2 * h, .edge = 1, .init = init_zero});
	op_unstack(t, op_reshape(t, act, 4, two), 1, m);
	tokens = op_norm(t, tokens, m[1], m[0], NORM_LAYER, trunk_eps(k.c), 1);
	tokens = trunk_unpatchify(&k, trunk_last(&k, tokens));
	return k.c->reversed ? op_scale(t, tokens, -1) : tokens;
}

static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0), NET_FRAMES_FIELD,
    NET_FIRST_FIELDS,      TRUNK_SHAPE_FIELDS,
    NET_CLASS_FIELDS,      NET_CLUSTER_FIELDS,
    TRUNK_POSITION_FIELD,  {"time_reversed", NULL, NULL, NET_INT, TRUNK_AT(reversed), 0, 0, INT32_MAX, 0},
    TRUNK_MLP_FIELD,       NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,        TRUNK_NUMBER_FIELDS(0),
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_FIRST, NET_READS_TIME, NET_READS_LABEL};

static const char norm_type[] = "ada_norm_zero";

static int parse_diffusers(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	c->classes = 1000;
	c->class_dropout = .1; /* diffusers' value: the table has one more row, for the null class */
	trunk_edit(c)->norm2_eps = 1e-5;
	trunk_edit(c)->time_shift = 1;
	c->size = 32;
	if (trunk_from_diffusers(o, where, norm_type, c, e))
		return -1;
	return jsonio_i64(o, "num_embeds_ada_norm", 0, 1, 10000000, &c->classes, where, e) ||
	               jsonio_f64(o, "norm_eps", 0, 1e-12, 1, &trunk_edit(c)->norm2_eps, where, e)
	           ? -1
	           : 0;
}

static const struct net_diffusers diffusers = {"DiTTransformer2DModel", norm_type, parse_diffusers, 0};

static const struct rename diffusers_rules[] = {
    {"x_embedder.proj.*", {"pos_embed.proj.*"}, 0},
    {"pos_embed", {NULL}, 0},
    {"t_embedder.mlp.0.*", {"transformer_blocks.0.norm1.emb.timestep_embedder.linear_1.*"}, 0},
    {"t_embedder.mlp.2.*", {"transformer_blocks.0.norm1.emb.timestep_embedder.linear_2.*"}, 0},
    {"y_embedder.*", {"transformer_blocks.0.norm1.emb.class_embedder.*"}, 0},
    TRUNK_DIFFUSERS_QKV,
    {"blocks.#.attn.proj.*", {TRUNK_DIFFUSERS_BLOCK "attn1.to_out.0.*"}, 0},
    {"blocks.#.mlp.fc1.*", {TRUNK_DIFFUSERS_BLOCK "ff.net.0.proj.*"}, 0},
    {"blocks.#.mlp.fc2.*", {TRUNK_DIFFUSERS_BLOCK "ff.net.2.*"}, 0},
    {"blocks.#.adaLN_modulation.1.*", {TRUNK_DIFFUSERS_BLOCK "norm1.linear.*"}, 0},
    {"final_layer.adaLN_modulation.1.*", {"proj_out_1.*"}, 0},
    {"final_layer.linear.*", {"proj_out_2.*"}, 0},
};
/* In diffusers each block has embeddings of its own. The conversion from the published weights makes them all equal. */
static const struct rename_copy diffusers_copies[] = {{TRUNK_DIFFUSERS_BLOCK "norm1.emb.*", "transformer_blocks.0.norm1.emb.*"}, {NULL, NULL}};

static const struct renames diffusers_names = {.sign = "transformer_blocks.0.norm1.emb.timestep_embedder.linear_1.weight",
                                               .v = diffusers_rules,
                                               .n = NET_COUNT(diffusers_rules),
                                               .copies = diffusers_copies};
static const struct renames *const families[] = {&diffusers_names, NULL};

const struct net_def net_dit = {
    .name = "dit",
    .role = NET_EXPERT,
    TRUNK_DEF,
    .modulation = NET_MODULATION_EACH,
    .check = trunk_check,
    .check_noise = trunk_check_noise,
    .prefix = "dit-",
    .diffusers = &diffusers,
    .families = families,
};
