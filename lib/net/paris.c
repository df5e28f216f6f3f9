/* The expert of the released Paris ensemble: DiT with adaLN-single and cross-attention to a text. */
#include <assert.h>

#include "net/trunk.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"

static const struct trunk_names paris_names = {
    .patch = "patch_embed",
    .time = "time_embed.mlp",
    .qkv_weight = "layers.%d.attn.in_proj_weight",
    .qkv_bias = "layers.%d.attn.in_proj_bias",
    .proj = "layers.%d.attn.out_proj",
    .fc1 = "layers.%d.mlp.0",
    .fc2 = "layers.%d.mlp.2",
    .table = "layers.%d.scale_shift_table",
    .cross_weight = "layers.%d.cross_attn.in_proj_weight",
    .cross_bias = "layers.%d.cross_attn.in_proj_bias",
    .cross_proj = "layers.%d.cross_attn.out_proj",
};

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = {t, p, c, trunk_config(c), &paris_names};
	struct tensor *tokens = trunk_tokens(&k, in->x), *time = trunk_time(&k, in->time), *modulation, *text;

	assert(in->text && !in->mask);
	modulation = trunk_modulation(&k, time, "t_block.1");
	text = trunk_linear(&k, in->text, "text_proj", k.c->hidden, init_xavier(c->text_width, k.c->hidden), -1);
	for (int64_t i = 0; i < k.c->depth; i++)
		tokens = trunk_block_single(&k, i, tokens, modulation, text, NULL);
	return trunk_final_single(&k, tokens, time);
}

/* Released files say num_classes too, which means nothing there. */
static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(32), TRUNK_SHAPE_FIELDS, NET_CLUSTER_FIELDS, NET_TEXT_FIELDS(77, 768), TRUNK_POSITION_FIELD, TRUNK_MLP_FIELD,
    NET_DROPOUT_FIELD("cfg_dropout_prob", "class_dropout_prob"),
    {"use_text_conditioning", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_adaln_single", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_dit_time_embed", NULL, NULL, NET_FIXED, 0, 1, 0, 0, 0},
    {"use_class_conditioning", NULL, NULL, NET_FIXED, 0, 0, 0, 0, 0},
    NET_TIME_FIELD, TRUNK_NUMBER_FIELDS(1e-5),
};
static const struct net_reads inputs[] = {{NET_IN_X, 0}, {NET_IN_TIME, 0}, {NET_IN_TEXT, 0}};

const struct net_def net_paris = {
    .name = "dit_expert",
    .role = NET_EXPERT,
    .fields = fields,
    .nfields = NET_COUNT(fields),
    .inputs = inputs,
    .ninputs = NET_COUNT(inputs),
    .check = trunk_check,
    .check_noise = trunk_check_noise,
    .record = record,
    .prefix = "paris-",
    .presets = &trunk_presets,
    .prediction = "velocity",
};
