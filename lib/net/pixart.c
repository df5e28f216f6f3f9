/* PixArt-alpha (Chen et al. 2023): DiT with adaLN-single and cross-attention to text features, which pass through an MLP. A mask excludes padding. */
#include <assert.h>

#include "core/jsonio.h"
#include "net/trunk.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"

static const struct trunk_names pixart_names = {
    TRUNK_META_NAMES,
    .table = "scale_shift_table",
    .cross_q = "cross_attn.q_linear",
    .cross_kv = "cross_attn.kv_linear",
    .cross_proj = "cross_attn.proj",
};

/* Sinusoidal embeddings of numbers (B, n), through the layers NAME.0 and NAME.2: (B, n * width). */
static struct tensor *number_embedding(const struct trunk *k, struct tensor *numbers, const char *name, int64_t width)
{
	struct tape *t = k->l.t;
	int64_t b = numbers->shape[0], n = numbers->shape[1], flat[1] = {b * n}, out[2] = {b, n * width};

	return op_reshape(t, layer_timestep(&k->l, op_reshape(t, op_copy(t, numbers), 1, flat), name, width, 10000, 1), 2, out);
}

/* Embeddings of height, width and aspect ratio, H / 3 channels each: (B, H). micro is (B, 3). */
static struct tensor *micro_conditions(const struct trunk *k, struct tensor *micro)
{
	int64_t third = k->c->hidden / 3;
	struct tensor *part[2];

	part[0] = number_embedding(k, op_slice(k->l.t, micro, 1, 0, 2), "csize_embedder.mlp", third);
	part[1] = number_embedding(k, op_slice(k->l.t, micro, 1, 2, 1), "ar_embedder.mlp", third);
	return op_concat(k->l.t, 1, 2, part);
}

static const char null_text_name[] = "y_embedder.y_embedding";

/* The features of the empty prompt (text_tokens, text_width). They are stored with the weights, but this network does not read them. */
static void null_text(const struct trunk *k)
{
	int64_t shape[2] = {k->net->text_tokens, k->net->text_width};

	layer_param_init(&k->l, null_text_name, 2, shape, PARAM_FROZEN, init_zero);
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = trunk_begin(t, p, c, &pixart_names);
	struct tensor *tokens = trunk_tokens(&k, in->x), *time = trunk_time(&k, in->time), *modulation, *text;

	assert(in->text && !in->micro == !k.c->micro);
	if (in->micro)
		time = op_add(t, time, micro_conditions(&k, in->micro));
	modulation = trunk_modulation(&k, time, "t_block.1");
	text = layer_linear(&k.l, in->text, "y_embedder.y_proj.fc1",
	                    &(struct linear){.out = k.c->hidden, .act = UNARY_GELU_TANH + 1, .edge = 1, .init = init_small});
	text = layer_linear(&k.l, text, "y_embedder.y_proj.fc2", &(struct linear){.out = k.c->hidden, .edge = 1, .init = init_small});
	tape_float_grad(t, text);
	null_text(&k);
	for (int64_t i = 0; i < k.c->depth; i++)
		tokens = trunk_block_single(&k, i, tokens, modulation, text, in->mask);
	return trunk_final_single(&k, tokens, time);
}

static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0),
    NET_FRAMES_FIELD,
    NET_FIRST_FIELDS,
    TRUNK_SHAPE_FIELDS,
    NET_CLASS_FIELDS,
    NET_CLUSTER_FIELDS,
    NET_TEXT_FIELDS(0, 0),
    TRUNK_POSITION_FIELD,
    {"micro_conditions", NULL, NULL, NET_INT, TRUNK_AT(micro), 0, 0, INT32_MAX, 0},
    TRUNK_MLP_FIELD,
    NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,
    TRUNK_NUMBER_FIELDS(0),
};
static const struct net_reads inputs[] = {NET_READS_X,    NET_READS_FIRST, NET_READS_TIME,
                                          NET_READS_TEXT, NET_READS_MASK,  NET_READS_MICRO(TRUNK_AT(micro))};

static int check(const struct net_config *c, struct err *e)
{
	if (trunk_config(c)->micro && trunk_config(c)->hidden % 3)
		return err_set(e, ERR_USAGE, "conditioning on size and aspect ratio needs a PixArt network whose width is a multiple of 3");
	return trunk_check(c, e);
}

static const char norm_type[] = "ada_norm_single";

static int parse_diffusers(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	int micro;
	double scale;

	c->size = 128;
	c->out_channels = 8;
	if (trunk_from_diffusers(o, where, norm_type, c, e))
		return -1;
	micro = c->size == 128;
	scale = (double)(c->size / 64 > 1 ? c->size / 64 : 1);
	c->text_tokens = 120;
	c->text_width = 4096;
	if (json_is_integer(json_object_get(o, "caption_channels")))
		c->text_width = json_integer_value(json_object_get(o, "caption_channels"));
	if (json_is_number(json_object_get(o, "interpolation_scale")))
		scale = json_number_value(json_object_get(o, "interpolation_scale"));
	if (!json_is_null(json_object_get(o, "use_additional_conditions")) && jsonio_bool(o, "use_additional_conditions", 0, &micro, where, e))
		return -1;
	if (!(scale > 1e-6 && scale < 1e6))
		return err_set(e, ERR_DATA, "%s: interpolation_scale %g is out of range", where, scale);
	trunk_edit(c)->micro = micro;
	trunk_edit(c)->position_scale = 1 / scale;
	return 0;
}

static const struct net_diffusers diffusers = {"PixArtTransformer2DModel", norm_type, parse_diffusers, 0};

static const struct rename diffusers_rules[] = {
    {"x_embedder.proj.*", {"pos_embed.proj.*"}, 0},
    {"pos_embed", {NULL}, 0},
    {"t_embedder.mlp.0.*", {"adaln_single.emb.timestep_embedder.linear_1.*"}, 0},
    {"t_embedder.mlp.2.*", {"adaln_single.emb.timestep_embedder.linear_2.*"}, 0},
    {"csize_embedder.mlp.0.*", {"adaln_single.emb.resolution_embedder.linear_1.*"}, 0},
    {"csize_embedder.mlp.2.*", {"adaln_single.emb.resolution_embedder.linear_2.*"}, 0},
    {"ar_embedder.mlp.0.*", {"adaln_single.emb.aspect_ratio_embedder.linear_1.*"}, 0},
    {"ar_embedder.mlp.2.*", {"adaln_single.emb.aspect_ratio_embedder.linear_2.*"}, 0},
    {"t_block.1.*", {"adaln_single.linear.*"}, 0},
    {"y_embedder.y_proj.fc1.*", {"caption_projection.linear_1.*"}, 0},
    {"y_embedder.y_proj.fc2.*", {"caption_projection.linear_2.*"}, 0},
    {"y_embedder.y_embedding", {NULL}, 0},
    TRUNK_DIFFUSERS_QKV,
    {"blocks.#.attn.proj.*", {TRUNK_DIFFUSERS_BLOCK "attn1.to_out.0.*"}, 0},
    {"blocks.#.cross_attn.q_linear.*", {TRUNK_DIFFUSERS_BLOCK "attn2.to_q.*"}, 0},
    {"blocks.#.cross_attn.kv_linear.*", {TRUNK_DIFFUSERS_BLOCK "attn2.to_k.*", TRUNK_DIFFUSERS_BLOCK "attn2.to_v.*"}, 0},
    {"blocks.#.cross_attn.proj.*", {TRUNK_DIFFUSERS_BLOCK "attn2.to_out.0.*"}, 0},
    {"blocks.#.mlp.fc1.*", {TRUNK_DIFFUSERS_BLOCK "ff.net.0.proj.*"}, 0},
    {"blocks.#.mlp.fc2.*", {TRUNK_DIFFUSERS_BLOCK "ff.net.2.*"}, 0},
    {"blocks.#.scale_shift_table", {TRUNK_DIFFUSERS_BLOCK "scale_shift_table"}, 0},
    {"final_layer.linear.*", {"proj_out.*"}, 0},
    {"final_layer.scale_shift_table", {"scale_shift_table"}, 0},
};

static const struct renames diffusers_names = {.sign = "adaln_single.linear.weight", .v = diffusers_rules, .n = NET_COUNT(diffusers_rules)};
static const struct renames *const families[] = {&diffusers_names, NULL};

const struct net_def net_pixart = {
    .name = "pixart",
    .role = NET_EXPERT,
    TRUNK_DEF,
    .modulation = NET_MODULATION_SHARED,
    .check = check,
    .check_noise = trunk_check_noise,
    .prefix = "pixart-",
    .text_tokens = 120,
    .null_text = null_text_name,
    .lower_case = 1,
    .diffusers = &diffusers,
    .families = families,
};
