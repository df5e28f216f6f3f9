/* Records the expert of the released Paris ensemble. */
#include "net/paris.h"

#include <assert.h>

#include "net/trunk.h"
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

struct tensor *paris_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = {t, p, c, &paris_names};
	struct tensor *tokens = trunk_tokens(&k, in->x), *time = trunk_time(&k, in->time), *modulation, *text;

	assert(in->text && !in->mask);
	modulation = trunk_modulation(&k, time, "t_block.1");
	text = trunk_linear(&k, in->text, "text_proj", c->hidden, init_xavier(c->text_width, c->hidden), -1);
	for (int64_t i = 0; i < c->depth; i++)
		tokens = trunk_block_single(&k, i, tokens, modulation, text, NULL);
	return trunk_final_single(&k, tokens, time);
}
