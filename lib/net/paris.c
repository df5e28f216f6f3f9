/* The expert of the released Paris ensemble: DiT with adaLN-single and cross-attention to text features. */
#include <assert.h>

#include "net/trunk.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"

static const struct trunk_names paris_names = {
    TRUNK_PARIS_NAMES,
    .table = "scale_shift_table",
    .cross_weight = "cross_attn.in_proj_weight",
    .cross_bias = "cross_attn.in_proj_bias",
    .cross_proj = "cross_attn.out_proj",
};

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = trunk_begin(t, p, c, &paris_names);
	struct tensor *tokens = trunk_tokens(&k, in->x), *time = trunk_time(&k, in->time), *modulation, *text;

	assert(in->text && !in->mask);
	modulation = trunk_modulation(&k, time, "t_block.1");
	text = layer_linear(&k.l, in->text, "text_proj",
	                    &(struct linear){.out = k.c->hidden, .edge = 1, .init = init_xavier(c->text_width, k.c->hidden)});
	tape_float_grad(t, text);
	for (int64_t i = 0; i < k.c->depth; i++)
		tokens = trunk_block_single(&k, i, tokens, modulation, text, NULL);
	return trunk_final_single(&k, tokens, time);
}

/* Released files also contain num_classes. This network has no classes, so the key is not read. */
static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(32),
    NET_FRAMES_FIELD,
    NET_FIRST_FIELDS,
    TRUNK_SHAPE_FIELDS,
    NET_CLUSTER_FIELDS,
    NET_TEXT_FIELDS(77, 768),
    TRUNK_POSITION_FIELD,
    TRUNK_MLP_FIELD,
    NET_DROPOUT_FIELD("cfg_dropout_prob", "class_dropout_prob"),
    {"use_text_conditioning", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_adaln_single", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_dit_time_embed", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_class_conditioning", NULL, NULL, NET_FIXED, 0, 0, 0, 0, 0},
    NET_TIME_FIELD,
    TRUNK_NUMBER_FIELDS(1e-5),
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_FIRST, NET_READS_TIME, NET_READS_TEXT};

static const struct net_alias aliases[] = {
    {"x_embedder.proj.*", "patch_embed.*"},
    {"t_embedder.mlp.*", "time_embed.mlp.*"},
    {"blocks.#.attn.qkv.weight", "layers.#.attn.in_proj_weight"},
    {"blocks.#.attn.qkv.bias", "layers.#.attn.in_proj_bias"},
    {"blocks.#.attn.proj.*", "layers.#.attn.out_proj.*"},
    {"blocks.#.mlp.fc1.*", "layers.#.mlp.0.*"},
    {"blocks.#.mlp.fc2.*", "layers.#.mlp.2.*"},
    {"blocks.#.scale_shift_table", "layers.#.scale_shift_table"},
    {"blocks.#.cross_attn.qkv.weight", "layers.#.cross_attn.in_proj_weight"},
    {"blocks.#.cross_attn.qkv.bias", "layers.#.cross_attn.in_proj_bias"},
    {"blocks.#.cross_attn.proj.*", "layers.#.cross_attn.out_proj.*"},
    {NULL, NULL},
};

const struct net_def net_paris = {
    .name = "dit_expert",
    .role = NET_EXPERT,
    TRUNK_DEF,
    .modulation = NET_MODULATION_SHARED,
    .aliases = aliases,
    .check = trunk_check,
    .check_noise = trunk_check_noise,
    .prefix = "paris-",
    .prediction = "velocity",
};
