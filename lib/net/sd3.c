/* Stable Diffusion 3 and 3.5 (Esser et al. 2024, arXiv 2403.03206): a multimodal diffusion transformer that reads token features of a text and,
 * beside the time, a pooled vector of the whole text. Tensors have the original names (joint_blocks); config.json has diffusers' keys. */
#include <assert.h>
#include <string.h>

#include "core/jsonio.h"
#include "net/diffusers.h"
#include "net/mmdit.h"
#include "net/patches.h"
#include "net/trunk.h"

struct sd3_config {
	int64_t patch, hidden, depth, heads;
	int64_t positions; /* the stored table has positions x positions places, of which the central ones are used; 0: as many as there are tokens */
	int64_t dual;      /* the first `dual` blocks have a second attention among the picture's tokens, as in SD3.5-medium */
	int64_t qk_norm;   /* 1: queries and keys are normalised, as in SD3.5 */
};
_Static_assert(sizeof(struct sd3_config) <= NET_OWN, "fits into struct net_config");

static const struct sd3_config *own(const struct net_config *c)
{
	return (const void *)c->own;
}

static struct sd3_config *edit(struct net_config *c)
{
	return (void *)c->own;
}

/* Tokens along a side of the picture, and of the stored table of positions. */
static int64_t side_of(const struct net_config *c)
{
	return c->size / own(c)->patch;
}

static int64_t table_side(const struct net_config *c)
{
	return own(c)->positions ? own(c)->positions : side_of(c);
}

/* ---- recording ---- */

static const struct mmdit_names picture_names = {
    .qkv = "x_block.attn.qkv",
    .proj = "x_block.attn.proj",
    .norm_q = "x_block.attn.ln_q.weight",
    .norm_k = "x_block.attn.ln_k.weight",
    .fc1 = "x_block.mlp.fc1",
    .fc2 = "x_block.mlp.fc2",
    .modulation = "x_block.adaLN_modulation.1",
};
static const struct mmdit_names text_names = {
    .qkv = "context_block.attn.qkv",
    .proj = "context_block.attn.proj",
    .norm_q = "context_block.attn.ln_q.weight",
    .norm_k = "context_block.attn.ln_k.weight",
    .fc1 = "context_block.mlp.fc1",
    .fc2 = "context_block.mlp.fc2",
    .modulation = "context_block.adaLN_modulation.1",
};
static const struct mmdit_names second_names = {
    .qkv = "x_block.attn2.qkv",
    .proj = "x_block.attn2.proj",
    .norm_q = "x_block.attn2.ln_q.weight",
    .norm_k = "x_block.attn2.ln_k.weight",
};

/* The central part of the stored table of positions: (1, T, H). The table spans the picture, so a table with more places than tokens has them closer
 * together, as in diffusers. */
static struct tensor *positions(const struct layers *l, const struct net_config *c)
{
	int64_t n = side_of(c), all = table_side(c), h = own(c)->hidden, from = (all - n) / 2;
	int64_t shape[3] = {1, all * all, h}, square[4] = {1, all, all, h}, tokens[3] = {1, n * n, h};
	struct tensor *p = layer_param_init(l, "pos_embed", 3, shape, PARAM_FROZEN, trunk_positions((double)n / (double)all));

	if (all == n)
		return p;
	p = op_slice(l->t, op_slice(l->t, op_reshape(l->t, p, 4, square), 1, from, n), 2, from, n);
	return op_reshape(l->t, p, 3, tokens);
}

static struct tensor *conditioning(const struct layers *l, const struct net_config *c, const struct net_input *in)
{
	int64_t h = own(c)->hidden;
	struct tensor *part[2] = {layer_timestep(l, in->time, "t_embedder.mlp", h, 10000, c->time_scale)};

	if (in->pooled)
		part[1] = mmdit_embedding(l, in->pooled, "y_embedder.mlp", "0", "2", h);
	return mmdit_conditioning(l, in->pooled ? 2 : 1, part);
}

/* Token vectors (B, T, patch^2 out_channels), each (row in patch, column in patch, channel), to pictures (B, out_channels, S, S). */
static struct tensor *unpatchify(struct tape *t, const struct net_config *c, struct tensor *h)
{
	int64_t n = side_of(c), p = own(c)->patch, b = h->shape[0];
	int64_t split[6] = {b, n, n, p, p, c->out_channels}, picture[4] = {b, c->out_channels, c->size, c->size};
	static const int order[6] = {0, 5, 1, 3, 2, 4};

	return op_reshape(t, op_copy(t, op_permute(t, op_reshape(t, h, 6, split), order)), 4, picture);
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	const struct sd3_config *o = own(c);
	struct mmdit k = {.l = {t, p, ""}, .hidden = o->hidden, .heads = o->heads, .qk_norm = o->qk_norm != 0};
	struct linear patches = {.out = o->hidden, .init = init_xavier(c->channels * o->patch * o->patch, o->hidden)};
	struct linear context = {.out = o->hidden, .edge = 1, .init = init_xavier(c->text_width, o->hidden)};
	struct tensor *x[MMDIT_STREAMS];

	assert(in->text && in->mask && !in->pooled == !c->pooled_width);
	x[MMDIT_PICTURE] = layer_patches(&k.l, in->x, "x_embedder.proj", o->patch, &patches);
	x[MMDIT_PICTURE] = tape_float(t, op_add(t, x[MMDIT_PICTURE], positions(&k.l, c)));
	k.act = conditioning(&k.l, c, in);
	k.bias = mmdit_bias(t, in->mask, side_of(c) * side_of(c));
	x[MMDIT_TEXT] = tape_float(t, layer_linear(&k.l, in->text, "context_embedder", &context));
	for (int64_t i = 0; i < o->depth; i++) {
		struct layers l = layers_in(&k.l, "joint_blocks.%d.", (int)i);
		struct mmdit_block b = {.names = {[MMDIT_TEXT] = &text_names, [MMDIT_PICTURE] = &picture_names},
		                        .second = i < o->dual ? &second_names : NULL,
		                        .last = i == o->depth - 1};

		mmdit_joint_block(&k, &l, &b, x);
	}
	return unpatchify(t, c, mmdit_final(&k, x[MMDIT_PICTURE], o->patch * o->patch * c->out_channels));
}

/* ---- configuration ---- */

static int check(const struct net_config *c, struct err *e)
{
	const struct sd3_config *o = own(c);

	if (patches_check(c, o->patch, e) || patches_check_shape(o->hidden, o->heads, o->depth, e))
		return -1;
	if (o->dual < 0 || o->dual > o->depth)
		return err_set(e, ERR_USAGE, "%lld blocks with a second attention, but there are %lld blocks in all", (long long)o->dual,
		               (long long)o->depth);
	if (table_side(c) < side_of(c) || table_side(c) > 4096)
		return err_set(e, ERR_USAGE, "a table of %lld x %lld positions for %lld x %lld tokens is too small, or larger than 4096 x 4096",
		               (long long)table_side(c), (long long)table_side(c), (long long)side_of(c), (long long)side_of(c));
	return 0;
}

static int check_noise(const struct net_config *c, struct err *e)
{
	return patches_check_noise(own(c)->patch * own(c)->patch * c->channels, own(c)->hidden, e);
}

#define OWN(field) NET_OWN_AT(struct sd3_config, field)
static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0),
    {"patch_size", NULL, "patch", NET_INT, OWN(patch), 2, 1, 64, NET_ALWAYS},
    {"hidden_size", NULL, "hidden", NET_INT, OWN(hidden), 0, 0, INT32_MAX, NET_UNWRITTEN},
    {"num_layers", NULL, "depth", NET_INT, OWN(depth), 0, 1, 1000, NET_REQUIRED},
    {"num_attention_heads", NULL, "heads", NET_INT, OWN(heads), 0, 1, 65536, NET_REQUIRED},
    {"table_side", NULL, "positions", NET_INT, OWN(positions), 0, 0, 4096, NET_UNWRITTEN},
    {"dual_attention_count", NULL, "dual", NET_INT, OWN(dual), 0, 0, 1000, NET_UNWRITTEN},
    {"qk_norm_count", NULL, "qk_norm", NET_INT, OWN(qk_norm), 0, 0, 1, NET_UNWRITTEN},
    NET_CLUSTER_FIELDS,
    {"text_tokens", NULL, NULL, NET_INT, NET_AT(text_tokens), 333, 1, 65536, 0},
    {"joint_attention_dim", NULL, NULL, NET_INT, NET_AT(text_width), 4096, 1, 65536, NET_ALWAYS},
    {"pooled_projection_dim", NULL, NULL, NET_INT, NET_AT(pooled_width), 2048, 0, 65536, NET_ALWAYS},
    NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_TIME, NET_READS_TEXT, NET_READS_MASK, NET_READS_POOLED};

/* Read the list of blocks with a second attention. They must be the first blocks, as in SD3.5-medium. */
static int read_dual(const json_t *o, const char *where, int64_t *dual, struct err *e)
{
	const json_t *list = json_object_get(o, "dual_attention_layers");
	size_t n = json_array_size(list);

	if (list && !json_is_null(list) && !json_is_array(list))
		return err_set(e, ERR_DATA, "%s: \"dual_attention_layers\" is not a list of blocks", where);
	for (size_t i = 0; i < n; i++)
		if (json_integer_value(json_array_get(list, i)) != (json_int_t)i || !json_is_integer(json_array_get(list, i)))
			return err_set(e, ERR_DATA,
			               "%s: \"dual_attention_layers\" must list the first blocks in order, 0, 1, .., and entry %zu does not", where,
			               i);
	*dual = (int64_t)n;
	return 0;
}

static int read_more(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	struct sd3_config *s = edit(c);
	const json_t *norm = json_object_get(o, "qk_norm");
	int64_t head = 64, text = 0;

	if (read_dual(o, where, &s->dual, e) || jsonio_i64(o, "attention_head_dim", 0, 1, 65536, &head, where, e) ||
	    jsonio_i64(o, "pos_embed_max_size", 0, 1, 4096, &s->positions, where, e))
		return -1;
	if (norm && !json_is_null(norm) && (!json_is_string(norm) || strcmp(json_string_value(norm), "rms_norm")))
		return err_set(e, ERR_DATA, "%s: \"qk_norm\" must be null or \"rms_norm\"", where);
	s->qk_norm = json_is_string(norm);
	s->hidden = s->heads * head;
	text = s->hidden;
	if (jsonio_i64(o, "caption_projection_dim", 0, 1, INT32_MAX, &text, where, e))
		return -1;
	if (text != s->hidden)
		return err_set(e, ERR_DATA, "%s: \"caption_projection_dim\" is %lld, but the %lld heads of width %lld make %lld", where,
		               (long long)text, (long long)s->heads, (long long)head, (long long)s->hidden);
	if (s->patch && s->positions == side_of(c))
		s->positions = 0;
	return 0;
}

static void write_more(const struct net_config *c, json_t *o)
{
	const struct sd3_config *s = own(c);
	json_t *dual = json_array();

	for (int64_t i = 0; i < s->dual; i++)
		json_array_append_new(dual, json_integer(i));
	json_object_set_new(o, "_class_name", json_string("SD3Transformer2DModel"));
	json_object_set_new(o, "attention_head_dim", json_integer(s->hidden / s->heads));
	json_object_set_new(o, "caption_projection_dim", json_integer(s->hidden));
	json_object_set_new(o, "pos_embed_max_size", json_integer(table_side(c)));
	json_object_set_new(o, "dual_attention_layers", dual);
	json_object_set_new(o, "qk_norm", s->qk_norm ? json_string("rms_norm") : json_null());
}

/* ---- weights under other names ---- */

#define STEM "time_text_embed."
#define BLOCK "transformer_blocks.#."
#define JOINT "joint_blocks.#."
/* diffusers stores scale before shift where the original has shift before scale: in the last layer, and in the last block's modulation of the text,
 * which has no MLP. */
static const struct rename diffusers_rules[] = {
    {"pos_embed", {"pos_embed.pos_embed"}, 0},
    {"x_embedder.proj.*", {"pos_embed.proj.*"}, 0},
    {"t_embedder.mlp.0.*", {STEM "timestep_embedder.linear_1.*"}, 0},
    {"t_embedder.mlp.2.*", {STEM "timestep_embedder.linear_2.*"}, 0},
    {"y_embedder.mlp.0.*", {STEM "text_embedder.linear_1.*"}, 0},
    {"y_embedder.mlp.2.*", {STEM "text_embedder.linear_2.*"}, 0},
    {JOINT "x_block.adaLN_modulation.1.*", {BLOCK "norm1.linear.*"}, 0},
    {JOINT "context_block.adaLN_modulation.1.*", {BLOCK "norm1_context.linear.*", "!" BLOCK "ff_context.net.2.bias"}, RENAME_SWAPPED},
    {JOINT "context_block.adaLN_modulation.1.*", {BLOCK "norm1_context.linear.*"}, 0},
    {JOINT "x_block.attn.qkv.*", {BLOCK "attn.to_q.*", BLOCK "attn.to_k.*", BLOCK "attn.to_v.*"}, 0},
    {JOINT "x_block.attn2.qkv.*", {BLOCK "attn2.to_q.*", BLOCK "attn2.to_k.*", BLOCK "attn2.to_v.*"}, 0},
    {JOINT "context_block.attn.qkv.*", {BLOCK "attn.add_q_proj.*", BLOCK "attn.add_k_proj.*", BLOCK "attn.add_v_proj.*"}, 0},
    {JOINT "x_block.attn.ln_q.*", {BLOCK "attn.norm_q.*"}, 0},
    {JOINT "x_block.attn.ln_k.*", {BLOCK "attn.norm_k.*"}, 0},
    {JOINT "x_block.attn2.ln_q.*", {BLOCK "attn2.norm_q.*"}, 0},
    {JOINT "x_block.attn2.ln_k.*", {BLOCK "attn2.norm_k.*"}, 0},
    {JOINT "context_block.attn.ln_q.*", {BLOCK "attn.norm_added_q.*"}, 0},
    {JOINT "context_block.attn.ln_k.*", {BLOCK "attn.norm_added_k.*"}, 0},
    {JOINT "x_block.attn.proj.*", {BLOCK "attn.to_out.0.*"}, 0},
    {JOINT "x_block.attn2.proj.*", {BLOCK "attn2.to_out.0.*"}, 0},
    {JOINT "context_block.attn.proj.*", {BLOCK "attn.to_add_out.*"}, 0},
    {JOINT "x_block.mlp.fc1.*", {BLOCK "ff.net.0.proj.*"}, 0},
    {JOINT "x_block.mlp.fc2.*", {BLOCK "ff.net.2.*"}, 0},
    {JOINT "context_block.mlp.fc1.*", {BLOCK "ff_context.net.0.proj.*"}, 0},
    {JOINT "context_block.mlp.fc2.*", {BLOCK "ff_context.net.2.*"}, 0},
    {"final_layer.linear.*", {"proj_out.*"}, 0},
    {"final_layer.adaLN_modulation.1.*", {"norm_out.linear.*"}, RENAME_SWAPPED},
};

static const struct renames diffusers_names = {.sign = "pos_embed.pos_embed", .v = diffusers_rules, .n = NET_COUNT(diffusers_rules)};

/* The published single files also hold an autoencoder and text encoders, which are not read. */
static const char *const everything[] = {"*", NULL};
static const struct renames original_names = {
    .sign = "joint_blocks.0.x_block.attn.qkv.weight", .prefix = "model.diffusion_model.", .own = everything};
static const struct renames *const families[] = {&diffusers_names, &original_names, NULL};
static const struct net_diffusers diffusers = {"SD3Transformer2DModel", NULL, net_read_fields, 1};

/* ---- presets ---- */

static const char *const names[] = {"nano", "micro", "mini", "s", "b", "medium", "3.5-medium", "3.5-large", NULL};
/* The first five have the widths of DiT's presets, and SD3.5's norms. */
static const struct {
	int64_t hidden, depth, heads, positions, dual, qk_norm;
} sizes[] = {{96, 4, 4, 0, 0, 1},    {128, 6, 4, 0, 0, 1},      {192, 6, 6, 0, 0, 1},       {384, 12, 6, 0, 0, 1},
             {768, 12, 12, 0, 0, 1}, {1536, 24, 24, 192, 0, 0}, {1536, 24, 24, 384, 13, 1}, {2432, 38, 38, 192, 0, 1}};

static int apply(struct net_config *c, const char *text)
{
	int64_t patch;
	int i = patches_preset(names, text, &patch);

	if (i < 0)
		return 0;
	*edit(c) = (struct sd3_config){.patch = patch,
	                               .hidden = sizes[i].hidden,
	                               .depth = sizes[i].depth,
	                               .heads = sizes[i].heads,
	                               .positions = sizes[i].positions,
	                               .dual = sizes[i].dual,
	                               .qk_norm = sizes[i].qk_norm};
	return 1;
}

static const struct net_presets presets = {.names = names, .tail = PATCHES_TAIL, .example = "/2", .note = PATCHES_NOTE, .apply = apply};

const struct net_def net_sd3 = {
    .name = "sd3",
    .role = NET_EXPERT,
    NET_TABLES(fields, inputs),
    .read = read_more,
    .write = write_more,
    .check = check,
    .check_noise = check_noise,
    .record = record,
    .last = "final_layer.",
    .prefix = "sd3-",
    .presets = &presets,
    .diffusers = &diffusers,
    .families = families,
};
