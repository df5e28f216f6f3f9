/* Reads diffusers' configurations of DiT and PixArt, and maps their tensor names to ours. */
#include "net/diffusers.h"

#include <string.h>

#include "core/jsonio.h"

int diffusers_config(const json_t *o)
{
	return json_object_get(o, "_class_name") && !json_object_get(o, "model_type");
}

/* What we hold to be so, whatever the file says. */
static int expect_text(const json_t *o, const char *key, const char *want, const char *where, struct err *e)
{
	const char *is = want;

	if (jsonio_str(o, key, 0, &is, where, e))
		return -1;
	return strcmp(is, want) ? err_set(e, ERR_DATA, "%s: %s \"%s\" is not known here, which is \"%s\"", where, key, is, want) : 0;
}

static int read_size(const json_t *o, struct net_config *c, const char *where, struct err *e)
{
	int64_t width = 72;

	c->heads = 16;
	c->channels = 4;
	c->depth = 28;
	c->patch = 2;
	c->size = c->kind == NET_PIXART ? 128 : 32;
	c->out_channels = c->kind == NET_PIXART ? 8 : 0;
	if (jsonio_i64(o, "num_attention_heads", 0, 1, 1 << 16, &c->heads, where, e) ||
	    jsonio_i64(o, "attention_head_dim", 0, 1, 1 << 16, &width, where, e) ||
	    jsonio_i64(o, "in_channels", 0, 1, 1 << 16, &c->channels, where, e) ||
	    jsonio_i64(o, "num_layers", 0, 1, 1000, &c->depth, where, e) ||
	    jsonio_i64(o, "sample_size", 0, 1, 1 << 16, &c->size, where, e) ||
	    jsonio_i64(o, "patch_size", 0, 1, 1 << 16, &c->patch, where, e))
		return -1;
	if (json_is_integer(json_object_get(o, "out_channels")))
		c->out_channels = json_integer_value(json_object_get(o, "out_channels"));
	c->hidden = c->heads * width;
	return 0;
}

static int parse_dit(const json_t *o, struct net_config *c, const char *where, struct err *e)
{
	c->classes = 1000;
	c->class_dropout = .1; /* as diffusers has it: the table has a row more */
	c->norm2_eps = 1e-5;
	c->time_shift = 1;
	return jsonio_i64(o, "num_embeds_ada_norm", 0, 1, 10000000, &c->classes, where, e) ||
	                       jsonio_f64(o, "norm_eps", 0, 1e-12, 1, &c->norm2_eps, where, e)
	           ? -1
	           : 0;
}

static int parse_pixart(const json_t *o, struct net_config *c, const char *where, struct err *e)
{
	int micro = c->size == 128;
	double scale = (double)(c->size / 64 > 1 ? c->size / 64 : 1);

	c->text_tokens = 120;
	c->text_width = 4096;
	if (json_is_integer(json_object_get(o, "caption_channels")))
		c->text_width = json_integer_value(json_object_get(o, "caption_channels"));
	if (json_is_number(json_object_get(o, "interpolation_scale")))
		scale = json_number_value(json_object_get(o, "interpolation_scale"));
	if (!json_is_null(json_object_get(o, "use_additional_conditions")) &&
	    jsonio_bool(o, "use_additional_conditions", 0, &micro, where, e))
		return -1;
	if (!(scale > 1e-6 && scale < 1e6))
		return err_set(e, ERR_DATA, "%s: interpolation_scale %g is out of range", where, scale);
	c->micro = micro;
	c->position_scale = 1 / scale;
	return 0;
}

int diffusers_parse(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *class = NULL, *norm = NULL;
	int pixart;

	if (jsonio_str(o, "_class_name", 1, &class, where, e) || jsonio_str(o, "norm_type", 0, &norm, where, e))
		return -1;
	pixart = !strcmp(class, "PixArtTransformer2DModel") || (norm && !strcmp(norm, "ada_norm_single"));
	if (!pixart && strcmp(class, "DiTTransformer2DModel") && !(norm && !strcmp(norm, "ada_norm_zero")))
		return err_set(e, ERR_DATA, "%s: class %s is not one this program knows (DiTTransformer2DModel, PixArtTransformer2DModel)", where,
		               class);
	c->kind = pixart ? NET_PIXART : NET_DIT;
	if (expect_text(o, "norm_type", pixart ? "ada_norm_single" : "ada_norm_zero", where, e) ||
	    expect_text(o, "activation_fn", "gelu-approximate", where, e) || read_size(o, c, where, e))
		return -1;
	return pixart ? parse_pixart(o, c, where, e) : parse_dit(o, c, where, e);
}

#define BLOCK "transformer_blocks.#."
#define QKV(block, attn) {block "attn.qkv.*", {BLOCK attn ".to_q.*", BLOCK attn ".to_k.*", BLOCK attn ".to_v.*"}, 0}

static const struct rename dit_rules[] = {
    {"x_embedder.proj.*", {"pos_embed.proj.*"}, 0},
    {"pos_embed", {NULL}, 0},
    {"t_embedder.mlp.0.*", {"transformer_blocks.0.norm1.emb.timestep_embedder.linear_1.*"}, 0},
    {"t_embedder.mlp.2.*", {"transformer_blocks.0.norm1.emb.timestep_embedder.linear_2.*"}, 0},
    {"y_embedder.*", {"transformer_blocks.0.norm1.emb.class_embedder.*"}, 0},
    QKV("blocks.#.", "attn1"),
    {"blocks.#.attn.proj.*", {BLOCK "attn1.to_out.0.*"}, 0},
    {"blocks.#.mlp.fc1.*", {BLOCK "ff.net.0.proj.*"}, 0},
    {"blocks.#.mlp.fc2.*", {BLOCK "ff.net.2.*"}, 0},
    {"blocks.#.adaLN_modulation.1.*", {BLOCK "norm1.linear.*"}, 0},
    {"final_layer.adaLN_modulation.1.*", {"proj_out_1.*"}, 0},
    {"final_layer.linear.*", {"proj_out_2.*"}, 0},
};
/* Each block has embeddings of its own, which the conversion from the published weights makes all the same. */
static const struct rename_copy dit_copies[] = {{BLOCK "norm1.emb.*", "transformer_blocks.0.norm1.emb.*"}, {NULL, NULL}};

const struct renames dit_diffusers = {
    .sign = "transformer_blocks.0.norm1.linear.weight", .v = dit_rules, .n = sizeof dit_rules / sizeof *dit_rules, .copies = dit_copies};

static const struct rename pixart_rules[] = {
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
    QKV("blocks.#.", "attn1"),
    {"blocks.#.attn.proj.*", {BLOCK "attn1.to_out.0.*"}, 0},
    {"blocks.#.cross_attn.q_linear.*", {BLOCK "attn2.to_q.*"}, 0},
    {"blocks.#.cross_attn.kv_linear.*", {BLOCK "attn2.to_k.*", BLOCK "attn2.to_v.*"}, 0},
    {"blocks.#.cross_attn.proj.*", {BLOCK "attn2.to_out.0.*"}, 0},
    {"blocks.#.mlp.fc1.*", {BLOCK "ff.net.0.proj.*"}, 0},
    {"blocks.#.mlp.fc2.*", {BLOCK "ff.net.2.*"}, 0},
    {"blocks.#.scale_shift_table", {BLOCK "scale_shift_table"}, 0},
    {"final_layer.linear.*", {"proj_out.*"}, 0},
    {"final_layer.scale_shift_table", {"scale_shift_table"}, 0},
};

const struct renames pixart_diffusers = {
    .sign = "adaln_single.linear.weight", .v = pixart_rules, .n = sizeof pixart_rules / sizeof *pixart_rules};
