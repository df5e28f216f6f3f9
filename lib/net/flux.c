/* FLUX.1 (Black Forest Labs 2024), which Open-Sora 2 follows: blocks with a text stream and a picture stream, then blocks in which both are one
 * sequence. Positions are rotary. Tensors have the original names (double_blocks, single_blocks). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "net/diffusers.h"
#include "net/mmdit.h"
#include "net/patches.h"
#include "net/rotarytable.h"
#include "tape/ops.h"

enum { AXES = 3 }; /* of positions: one that is 0 for every token of a picture, rows, columns */

struct flux_config {
	int64_t patch, hidden, heads;
	int64_t depth, single;       /* blocks of two streams; of one */
	int64_t axes[NET_INTS_MOST]; /* channels of a head that turn with each axis; zeros: as axes_of says */
	int64_t guidance;            /* 1: the network is told a guidance scale, as FLUX.1-dev, which was distilled from guided predictions */
	double guidance_scale;       /* what it is told */
};
_Static_assert(sizeof(struct flux_config) <= NET_OWN, "fits into struct net_config");

static const struct flux_config *own(const struct net_config *c)
{
	return (const void *)c->own;
}

static struct flux_config *edit(struct net_config *c)
{
	return (void *)c->own;
}

/* The channels of each axis. By default those of FLUX, 16, 56 and 56 of 128, in proportion: whole pairs, rounded down for rows and columns. */
static void axes_of(const struct flux_config *o, int64_t axes[AXES])
{
	int64_t pairs = o->hidden / o->heads / 2;

	memcpy(axes, o->axes, AXES * sizeof *axes);
	if (o->axes[0])
		return;
	axes[1] = axes[2] = 2 * (pairs * 7 / 16);
	axes[0] = 2 * pairs - 2 * axes[1];
}

static int64_t side_of(const struct net_config *c)
{
	return c->size / own(c)->patch;
}

/* ---- recording ---- */

static const struct mmdit_names picture_names = {
    .qkv = "img_attn.qkv",
    .proj = "img_attn.proj",
    .norm_q = "img_attn.norm.query_norm.scale",
    .norm_k = "img_attn.norm.key_norm.scale",
    .fc1 = "img_mlp.0",
    .fc2 = "img_mlp.2",
    .modulation = "img_mod.lin",
};
static const struct mmdit_names text_names = {
    .qkv = "txt_attn.qkv",
    .proj = "txt_attn.proj",
    .norm_q = "txt_attn.norm.query_norm.scale",
    .norm_k = "txt_attn.norm.key_norm.scale",
    .fc1 = "txt_mlp.0",
    .fc2 = "txt_mlp.2",
    .modulation = "txt_mod.lin",
};
static const struct mmdit_single_names single_names = {
    .linear1 = "linear1",
    .linear2 = "linear2",
    .norm_q = "norm.query_norm.scale",
    .norm_k = "norm.key_norm.scale",
    .modulation = "modulation.lin",
};

/* Cosines and sines for the tokens of the text, which do not turn, and of the picture after them. */
static void positions(struct mmdit *k, const struct net_config *c)
{
	int64_t n = side_of(c), axes[AXES], shape[2] = {c->text_tokens + n * n, k->hidden / k->heads / 2}, text = c->text_tokens * shape[1];
	double *cosine = mem_zalloc((size_t)(shape[0] * shape[1]), sizeof *cosine), *sine = mem_zalloc((size_t)(shape[0] * shape[1]), sizeof *sine);
	struct rotary_axes a = {.axes = AXES, .size = {1, n, n}, .theta = 10000};

	axes_of(own(c), axes);
	for (int i = 0; i < AXES; i++)
		a.pairs[i] = axes[i] / 2;
	for (int64_t i = 0; i < text; i++)
		cosine[i] = 1;
	rotary_fill(&a, cosine + text, sine + text);
	k->cosine = tape_constant(k->l.t, 2, shape, cosine);
	k->sine = tape_constant(k->l.t, 2, shape, sine);
	mem_free(cosine);
	mem_free(sine);
}

/* The embedding (B, H) of numbers (B) in 0..1 or a guidance scale. */
static struct tensor *number_embedding(const struct mmdit *k, struct tensor *numbers, const char *name, double scale)
{
	return mmdit_embedding(&k->l, op_timestep(k->l.t, numbers, 256, 10000, scale), name, "in_layer", "out_layer", k->hidden);
}

static struct tensor *conditioning(const struct mmdit *k, const struct net_config *c, const struct net_input *in)
{
	struct tape *t = k->l.t;
	int64_t one = 1;
	struct tensor *part[3] = {number_embedding(k, in->time, "time_in", c->time_scale)};
	int n = 1;

	if (own(c)->guidance) {
		struct tensor *scale = op_copy(t, op_repeat(t, tape_constant(t, 1, &one, &own(c)->guidance_scale)));

		part[n++] = number_embedding(k, scale, "guidance_in", 1000);
	}
	if (in->pooled)
		part[n++] = mmdit_embedding(&k->l, in->pooled, "vector_in", "in_layer", "out_layer", k->hidden);
	return mmdit_conditioning(&k->l, n, part);
}

/* A picture (B, C, S, S) as tokens (B, T, C patch^2), each (channel, row in patch, column in patch); and back. */
static struct tensor *pack(struct tape *t, const struct net_config *c, struct tensor *x)
{
	int64_t n = side_of(c), p = own(c)->patch, b = x->shape[0];
	int64_t split[6] = {b, c->channels, n, p, n, p}, tokens[3] = {b, n * n, c->channels * p * p};
	static const int order[6] = {0, 2, 4, 1, 3, 5};

	return op_reshape(t, op_permute(t, op_reshape(t, x, 6, split), order), 3, tokens);
}

static struct tensor *unpack(struct tape *t, const struct net_config *c, struct tensor *h)
{
	int64_t n = side_of(c), p = own(c)->patch, b = h->shape[0];
	int64_t split[6] = {b, n, n, c->out_channels, p, p}, picture[4] = {b, c->out_channels, c->size, c->size};
	static const int order[6] = {0, 3, 1, 4, 2, 5};

	return op_reshape(t, op_copy(t, op_permute(t, op_reshape(t, h, 6, split), order)), 4, picture);
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	const struct flux_config *o = own(c);
	struct mmdit k = {.l = {t, p, ""}, .hidden = o->hidden, .heads = o->heads, .qk_norm = 1};
	int64_t width = c->channels * o->patch * o->patch, tokens = side_of(c) * side_of(c);
	struct linear picture = {.out = o->hidden, .edge = 1, .init = init_xavier(width, o->hidden)};
	struct linear text = {.out = o->hidden, .edge = 1, .init = init_xavier(c->text_width, o->hidden)};
	struct mmdit_block b = {.names = {[MMDIT_TEXT] = &text_names, [MMDIT_PICTURE] = &picture_names}};
	struct tensor *x[MMDIT_STREAMS], *all;

	assert(in->text && in->mask && !in->pooled == !c->pooled_width);
	x[MMDIT_PICTURE] = tape_float(t, layer_linear(&k.l, pack(t, c, in->x), "img_in", &picture));
	k.act = conditioning(&k, c, in);
	x[MMDIT_TEXT] = tape_float(t, layer_linear(&k.l, in->text, "txt_in", &text));
	k.bias = mmdit_bias(t, in->mask, tokens);
	positions(&k, c);
	for (int64_t i = 0; i < o->depth; i++) {
		struct layers l = layers_in(&k.l, "double_blocks.%d.", (int)i);

		mmdit_joint_block(&k, &l, &b, x);
	}
	all = tape_float(t, op_concat(t, 1, MMDIT_STREAMS, x));
	for (int64_t i = 0; i < o->single; i++) {
		struct layers l = layers_in(&k.l, "single_blocks.%d.", (int)i);

		all = mmdit_single_block(&k, &l, &single_names, all);
	}
	all = op_slice(t, all, 1, c->text_tokens, tokens);
	return unpack(t, c, mmdit_final(&k, all, o->patch * o->patch * c->out_channels));
}

/* ---- configuration ---- */

static int check(const struct net_config *c, struct err *e)
{
	const struct flux_config *o = own(c);
	int64_t axes[AXES], width;

	if (patches_check(c, o->patch, e) || patches_check_tokens(c->text_tokens + side_of(c) * side_of(c), e))
		return -1;
	if (o->hidden < 4 || o->hidden > 65536 || o->heads < 1 || o->hidden % (2 * o->heads))
		return err_set(e, ERR_USAGE, "hidden width %lld is not in 4..65536, or does not divide into %lld heads of an even width",
		               (long long)o->hidden, (long long)o->heads);
	if (o->depth < 1 || o->depth > 1000 || o->single < 1 || o->single > 1000)
		return err_set(e, ERR_USAGE, "%lld blocks of two streams and %lld of one: both must be in 1..1000", (long long)o->depth,
		               (long long)o->single);
	axes_of(o, axes);
	width = o->hidden / o->heads;
	if (axes[0] < 2 || axes[1] < 2 || axes[2] < 2 || axes[0] % 2 || axes[1] % 2 || axes[2] % 2 || axes[0] + axes[1] + axes[2] != width)
		return err_set(e, ERR_USAGE,
		               "rotary positions of %lld, %lld and %lld channels: expected three even numbers whose sum is a head's width, %lld",
		               (long long)axes[0], (long long)axes[1], (long long)axes[2], (long long)width);
	return 0;
}

static int check_noise(const struct net_config *c, struct err *e)
{
	return patches_check_noise(own(c)->patch * own(c)->patch * c->channels, own(c)->hidden, e);
}

#define OWN(field) NET_OWN_AT(struct flux_config, field)
static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0),
    {"patch_size", NULL, "patch", NET_INT, OWN(patch), 2, 1, 64, NET_ALWAYS},
    {"hidden_size", NULL, "hidden", NET_INT, OWN(hidden), 0, 0, INT32_MAX, NET_REQUIRED},
    {"num_layers", NULL, "depth", NET_INT, OWN(depth), 0, 1, 1000, NET_REQUIRED},
    {"num_single_layers", NULL, "single", NET_INT, OWN(single), 0, 1, 1000, NET_REQUIRED},
    {"num_attention_heads", NULL, "heads", NET_INT, OWN(heads), 0, 1, 65536, NET_REQUIRED},
    {"axes_dims_rope", NULL, NULL, NET_INTS, OWN(axes), 0, 1, 65536, 0},
    {"guidance_embedding", NULL, "guidance", NET_INT, OWN(guidance), 0, 0, 1, 0},
    {"guidance_scale", NULL, NULL, NET_REAL, OWN(guidance_scale), 3.5, 0, 1e4, NET_UNWRITTEN},
    NET_CLUSTER_FIELDS,
    {"text_tokens", NULL, NULL, NET_INT, NET_AT(text_tokens), 512, 1, 65536, 0},
    {"joint_attention_dim", NULL, NULL, NET_INT, NET_AT(text_width), 4096, 1, 65536, NET_ALWAYS},
    {"pooled_projection_dim", NULL, NULL, NET_INT, NET_AT(pooled_width), 768, 0, 65536, NET_ALWAYS},
    NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_TIME, NET_READS_TEXT, NET_READS_MASK, NET_READS_POOLED};

/* A list that says what is usual is not kept, so that networks are equal whether their configurations have it or not. */
static int read_more(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	struct flux_config *f = edit(c);
	struct flux_config usual = *f;
	int64_t axes[AXES];

	if (f->axes[0] && (!f->axes[2] || f->axes[3]))
		return err_set(e, ERR_DATA, "%s: \"axes_dims_rope\" is not a list of three numbers", where);
	(void)o;
	memset(usual.axes, 0, sizeof usual.axes);
	axes_of(&usual, axes);
	if (!memcmp(axes, f->axes, sizeof axes))
		*f = usual;
	return 0;
}

static void write_more(const struct net_config *c, json_t *o)
{
	if (own(c)->guidance)
		json_object_set_new(o, "guidance_scale", json_real(own(c)->guidance_scale));
}

/* diffusers counts the channels of packed tokens, 2 x 2 of a latent, and does not say its size. */
static int parse_diffusers(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	enum { PACKED = 4 };
	struct flux_config *f = edit(c);
	const json_t *list = json_object_get(o, "axes_dims_rope");
	int64_t patch = 1, head = 128, in = 64, out;
	int guidance = 0;

	f->depth = 19;
	f->single = 38;
	f->heads = 24;
	c->size = 128;
	if (jsonio_i64(o, "patch_size", 0, 1, 64, &patch, where, e) || jsonio_i64(o, "in_channels", 0, 1, 1 << 16, &in, where, e) ||
	    jsonio_i64(o, "num_layers", 0, 1, 1000, &f->depth, where, e) || jsonio_i64(o, "num_single_layers", 0, 1, 1000, &f->single, where, e) ||
	    jsonio_i64(o, "attention_head_dim", 0, 2, 65536, &head, where, e) ||
	    jsonio_i64(o, "num_attention_heads", 0, 1, 65536, &f->heads, where, e) ||
	    jsonio_i64(o, "joint_attention_dim", 0, 1, 65536, &c->text_width, where, e) ||
	    jsonio_i64(o, "pooled_projection_dim", 0, 1, 65536, &c->pooled_width, where, e) ||
	    jsonio_i64(o, "text_tokens", 0, 1, 65536, &c->text_tokens, where, e) || jsonio_i64(o, "sample_size", 0, 1, 65536, &c->size, where, e) ||
	    jsonio_f64(o, "guidance_scale", 0, 0, 1e4, &f->guidance_scale, where, e) || jsonio_bool(o, "guidance_embeds", 0, &guidance, where, e))
		return -1;
	out = json_is_integer(json_object_get(o, "out_channels")) ? json_integer_value(json_object_get(o, "out_channels")) : in;
	if (patch != 1 || in % PACKED || out % PACKED)
		return err_set(
		    e, ERR_DATA,
		    "%s: patches of %lld with %lld channels in and %lld out: expected patch_size 1 and the channels of 2 x 2 places of a latent",
		    where, (long long)patch, (long long)in, (long long)out);
	c->channels = in / PACKED;
	c->out_channels = out / PACKED;
	f->patch = 2;
	f->guidance = guidance;
	f->hidden = f->heads * head;
	for (size_t i = 0; i < AXES; i++)
		f->axes[i] = list ? json_integer_value(json_array_get(list, i)) : i ? 56 : 16;
	if ((list && json_array_size(list) != AXES) || !f->axes[0])
		return err_set(e, ERR_DATA, "%s: \"axes_dims_rope\" is not a list of three numbers", where);
	return read_more(o, where, c, e);
}

/* ---- weights under other names ---- */

#define STEM "time_text_embed."
#define THEIRS "transformer_blocks.#."
#define DOUBLE "double_blocks.#."
#define ONE "single_transformer_blocks.#."
#define SINGLE "single_blocks.#."
/* diffusers stores scale before shift in the last layer, where the original has shift before scale. */
static const struct rename diffusers_rules[] = {
    {"img_in.*", {"x_embedder.*"}, 0},
    {"txt_in.*", {"context_embedder.*"}, 0},
    {"time_in.in_layer.*", {STEM "timestep_embedder.linear_1.*"}, 0},
    {"time_in.out_layer.*", {STEM "timestep_embedder.linear_2.*"}, 0},
    {"vector_in.in_layer.*", {STEM "text_embedder.linear_1.*"}, 0},
    {"vector_in.out_layer.*", {STEM "text_embedder.linear_2.*"}, 0},
    {"guidance_in.in_layer.*", {STEM "guidance_embedder.linear_1.*"}, 0},
    {"guidance_in.out_layer.*", {STEM "guidance_embedder.linear_2.*"}, 0},
    {DOUBLE "img_mod.lin.*", {THEIRS "norm1.linear.*"}, 0},
    {DOUBLE "txt_mod.lin.*", {THEIRS "norm1_context.linear.*"}, 0},
    {DOUBLE "img_attn.qkv.*", {THEIRS "attn.to_q.*", THEIRS "attn.to_k.*", THEIRS "attn.to_v.*"}, 0},
    {DOUBLE "txt_attn.qkv.*", {THEIRS "attn.add_q_proj.*", THEIRS "attn.add_k_proj.*", THEIRS "attn.add_v_proj.*"}, 0},
    {DOUBLE "img_attn.norm.query_norm.scale", {THEIRS "attn.norm_q.weight"}, 0},
    {DOUBLE "img_attn.norm.key_norm.scale", {THEIRS "attn.norm_k.weight"}, 0},
    {DOUBLE "txt_attn.norm.query_norm.scale", {THEIRS "attn.norm_added_q.weight"}, 0},
    {DOUBLE "txt_attn.norm.key_norm.scale", {THEIRS "attn.norm_added_k.weight"}, 0},
    {DOUBLE "img_attn.proj.*", {THEIRS "attn.to_out.0.*"}, 0},
    {DOUBLE "txt_attn.proj.*", {THEIRS "attn.to_add_out.*"}, 0},
    {DOUBLE "img_mlp.0.*", {THEIRS "ff.net.0.proj.*"}, 0},
    {DOUBLE "img_mlp.2.*", {THEIRS "ff.net.2.*"}, 0},
    {DOUBLE "txt_mlp.0.*", {THEIRS "ff_context.net.0.proj.*"}, 0},
    {DOUBLE "txt_mlp.2.*", {THEIRS "ff_context.net.2.*"}, 0},
    {SINGLE "modulation.lin.*", {ONE "norm.linear.*"}, 0},
    {SINGLE "linear1.*", {ONE "attn.to_q.*", ONE "attn.to_k.*", ONE "attn.to_v.*", ONE "proj_mlp.*"}, 0},
    {SINGLE "linear2.*", {ONE "proj_out.*"}, 0},
    {SINGLE "norm.query_norm.scale", {ONE "attn.norm_q.weight"}, 0},
    {SINGLE "norm.key_norm.scale", {ONE "attn.norm_k.weight"}, 0},
    {"final_layer.linear.*", {"proj_out.*"}, 0},
    {"final_layer.adaLN_modulation.1.*", {"norm_out.linear.*"}, RENAME_SWAPPED},
};

static const struct renames diffusers_names = {
    .sign = "single_transformer_blocks.0.norm.linear.weight", .v = diffusers_rules, .n = NET_COUNT(diffusers_rules)};

/* Single files of other programs also hold an autoencoder and text encoders, which are not read. */
static const char *const everything[] = {"*", NULL};
static const struct renames original_names = {.sign = "double_blocks.0.img_attn.qkv.weight", .prefix = "model.diffusion_model.", .own = everything};
static const struct renames *const families[] = {&diffusers_names, &original_names, NULL};
static const struct net_diffusers diffusers = {"FluxTransformer2DModel", NULL, parse_diffusers, 1};

/* ---- presets ---- */

static const char *const names[] = {"nano", "micro", "mini", "s", "b", "schnell", "dev", NULL};
/* The first five have the widths and the number of blocks of DiT's presets. */
static const struct {
	int64_t hidden, heads, depth, single, guidance;
} sizes[] = {{96, 4, 2, 2, 0},   {128, 4, 2, 4, 0},     {192, 6, 2, 4, 0},    {384, 6, 4, 8, 0},
             {768, 12, 4, 8, 0}, {3072, 24, 19, 38, 0}, {3072, 24, 19, 38, 1}};

static int apply(struct net_config *c, const char *text)
{
	int64_t patch;
	int i = patches_preset(names, text, &patch);

	if (i < 0)
		return 0;
	*edit(c) = (struct flux_config){.patch = patch,
	                                .hidden = sizes[i].hidden,
	                                .heads = sizes[i].heads,
	                                .depth = sizes[i].depth,
	                                .single = sizes[i].single,
	                                .guidance = sizes[i].guidance,
	                                .guidance_scale = 3.5};
	return 1;
}

static const struct net_presets presets = {.names = names, .tail = PATCHES_TAIL, .example = "/2", .note = PATCHES_NOTE, .apply = apply};

const struct net_def net_flux = {
    .name = "flux",
    .role = NET_EXPERT,
    NET_TABLES(fields, inputs),
    .read = read_more,
    .write = write_more,
    .check = check,
    .check_noise = check_noise,
    .record = record,
    .last = "final_layer.",
    .prefix = "flux-",
    .presets = &presets,
    .diffusers = &diffusers,
    .families = families,
};
