/* The U-Nets of diffusers, under diffusers' tensor names: UNet2DModel (Ho et al., "Denoising diffusion probabilistic models"), unconditional or
 * class-conditional, and UNet2DConditionModel (Rombach et al., "Latent diffusion models"), conditioned on text. Of clips they see all frames as the
 * channels of one picture, which learns short clips fast. */
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/samemath.h"
#include "core/str.h"
#include "net/diffusers.h"
#include "net/layers.h"
#include "net/netdef.h"

enum { SILU = UNARY_SILU + 1, MOST_SKIPS = NET_INTS_MOST * 18 };

struct unet_config {
	int64_t width[NET_INTS_MOST]; /* channels of each level, from full size down; zeros after the last */
	int64_t heads[NET_INTS_MOST]; /* with text: heads of each level */
	int64_t layers;               /* residual blocks per level on the way down; one more on the way up */
	int64_t attention;            /* bit i: level i has attention */
	int64_t middle;               /* 1: the middle block has attention */
	int64_t head;                 /* without text: channels per head; 0: one head */
	int64_t groups;               /* of each group norm */
	int64_t symmetric;            /* 1: downsampling pads all sides by 1; 0: only right and bottom */
	int64_t cosines_first;        /* 1: the time embedding has its cosines before its sines */
	int64_t linear;               /* with text: proj_in and proj_out are linear layers (1) or 1 x 1 convolutions (0) */
	int64_t patch;                /* patches of patch x patch pixels are the pixels of the network, and their numbers its channels; 0: 1 */
	double eps, frequency_shift;
};
_Static_assert(sizeof(struct unet_config) <= NET_OWN, "fits into struct net_config");

static const struct unet_config *own(const struct net_config *c)
{
	return (const void *)c->own;
}

static struct unet_config *edit(struct net_config *c)
{
	return (void *)c->own;
}

static int levels_of(const struct unet_config *u)
{
	int n = 0;

	while (n < NET_INTS_MOST && u->width[n])
		n++;
	return n;
}

static int64_t patch_of(const struct unet_config *u)
{
	return u->patch ? u->patch : 1;
}

/* ---- recording ---- */

/* Layers with the U-Net's usual initial values: uniform by Glorot and Bengio 2010. The layers at the end of a residual block, of a transformer and
 * of the network start at zero and do not use these two functions. */
static struct tensor *linear(const struct layers *l, struct tensor *x, const char *name, struct linear o)
{
	o.init = init_xavier(x->shape[x->rank - 1], o.out);
	return layer_linear(l, x, name, &o);
}

static struct tensor *conv(const struct layers *l, struct tensor *x, const char *name, struct conv o)
{
	o.init = init_xavier(o.kh * o.kh * x->shape[3], o.kh * o.kh * o.out);
	return layer_conv(l, x, name, &o);
}

static const struct padding around = {1, 1, 1, 1};

struct unet {
	struct layers l;
	const struct net_config *net;
	const struct unet_config *c;
	struct tensor *time; /* SiLU of the time embedding: (B, 4 width[0]) */
	struct tensor *text; /* (B, text_tokens, text_width), or NULL */
	double dropout;      /* of struct net_input */
	struct tensor *skip[MOST_SKIPS];
	int skips;
};

/* SiLU of the time embedding, (B, 4 width[0]): Linear, SiLU, Linear on a sinusoid, plus the class embedding. */
static struct tensor *embed(const struct unet *u, const struct net_input *in)
{
	const struct layers *l = &u->l;
	int64_t width = u->c->width[0], half = width / 2, wide = 4 * width;
	int64_t table[2] = {u->net->classes + (u->net->class_dropout > 0), wide};
	double period = same_pow(10000, (double)half / ((double)half - u->c->frequency_shift));
	struct tensor *h = op_timestep(l->t, in->time, width, period, u->net->time_scale), *part[2];

	if (!u->c->cosines_first) {
		part[0] = op_slice(l->t, h, 1, half, half);
		part[1] = op_slice(l->t, h, 1, 0, half);
		h = op_concat(l->t, 1, 2, part);
	}
	h = linear(l, h, "time_embedding.linear_1", (struct linear){.out = wide, .act = SILU, .edge = 1});
	h = linear(l, h, "time_embedding.linear_2", (struct linear){.out = wide, .edge = 1});
	if (in->label)
		h = op_add(l->t, h, op_embed(l->t, layer_param_init(l, "class_embedding.weight", 2, table, 0, init_small), in->label));
	return op_unary(l->t, h, UNARY_SILU);
}

static struct tensor *resnet(const struct unet *u, const struct layers *block, struct tensor *x, int j, int64_t out)
{
	struct layers l = layers_in(block, "resnets.%d.", j);
	int64_t each[4] = {x->shape[0], 1, 1, out};
	struct tensor *h, *time;

	h = conv(&l, layer_groupnorm(&l, x, "norm1", u->c->groups, u->c->eps, SILU), "conv1", (struct conv){.out = out, .kh = 3, .pad = around});
	time = linear(&l, u->time, "time_emb_proj", (struct linear){.out = out});
	h = op_add(l.t, h, op_reshape(l.t, time, 4, each));
	h = layer_groupnorm(&l, h, "norm2", u->c->groups, u->c->eps, SILU);
	if (u->dropout > 0)
		h = op_dropout(l.t, h, u->dropout);
	if (x->shape[3] != out)
		x = conv(&l, x, "conv_shortcut", (struct conv){.out = out, .kh = 1});
	return layer_conv(&l, h, "conv2", &(struct conv){.out = out, .kh = 3, .pad = around, .add = x});
}

/* Attention from x (B, N, C) to y (B, M, ..): (B, N, C). bias: to_q, to_k and to_v have biases; zero: to_out.0 starts at zero. */
static struct tensor *attend(const struct layers *l, struct tensor *x, struct tensor *y, int64_t heads, int bias, int zero)
{
	static const char *const names[3] = {"to_q", "to_k", "to_v"};
	int64_t c = x->shape[2];
	struct tensor *qkv[3], *h;

	for (int i = 0; i < 3; i++) {
		struct tensor *from = i ? y : x;
		int64_t apart[4] = {from->shape[0], from->shape[1], heads, c / heads};

		h = linear(l, from, names[i], (struct linear){.out = c, .no_bias = !bias});
		qkv[i] = op_reshape(l->t, h, 4, apart);
	}
	h = op_attention(l->t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)(c / heads)), 0);
	h = op_reshape(l->t, h, 3, x->shape);
	return zero ? layer_linear(l, h, "to_out.0", &(struct linear){.out = c}) : linear(l, h, "to_out.0", (struct linear){.out = c});
}

static struct tensor *self_attention(const struct unet *u, const struct layers *block, struct tensor *x, int j)
{
	struct layers l = layers_in(block, "attentions.%d.", j);
	int64_t c = x->shape[3], flat[3] = {x->shape[0], x->shape[1] * x->shape[2], c};
	struct tensor *h = op_reshape(l.t, layer_groupnorm(&l, x, "group_norm", u->c->groups, u->c->eps, 0), 3, flat);

	h = attend(&l, h, h, u->c->head ? c / u->c->head : 1, 1, 1);
	return op_add(l.t, op_reshape(l.t, h, 4, x->shape), x);
}

/* GEGLU: the first half of the projection times GELU of the second half, then a linear layer back to C channels. */
static struct tensor *feed_forward(const struct layers *l, struct tensor *x)
{
	int64_t c = x->shape[2];
	struct tensor *h = linear(l, x, "ff.net.0.proj", (struct linear){.out = 8 * c});
	struct tensor *gate = op_unary(l->t, op_copy(l->t, op_slice(l->t, h, 2, 4 * c, 4 * c)), UNARY_GELU_ERF);

	return linear(l, op_mul(l->t, gate, op_copy(l->t, op_slice(l->t, h, 2, 0, 4 * c))), "ff.net.2", (struct linear){.out = c});
}

/* diffusers' Transformer2DModel with one block. The epsilon of its group norm is fixed. */
static struct tensor *text_attention(const struct unet *u, const struct layers *block, struct tensor *x, int j, int level)
{
	struct layers l = layers_in(block, "attentions.%d.", j), b = layers_in(&l, "transformer_blocks.%d.", 0);
	struct layers self = layers_in(&b, "%s", "attn1."), cross = layers_in(&b, "%s", "attn2.");
	int64_t c = x->shape[3], heads = u->c->heads[level], flat[3] = {x->shape[0], x->shape[1] * x->shape[2], c};
	struct tensor *h = layer_groupnorm(&l, x, "norm", u->c->groups, 1e-6, 0), *n;

	/* A 1 x 1 convolution computes the same as the linear layer; only the weight's shape differs. */
	h = u->c->linear ? linear(&l, h, "proj_in", (struct linear){.out = c}) : conv(&l, h, "proj_in", (struct conv){.out = c, .kh = 1});
	h = op_reshape(l.t, h, 3, flat);
	n = layer_norm(&b, h, "norm1", 1e-5);
	h = op_add(l.t, h, attend(&self, n, n, heads, 0, 0));
	h = op_add(l.t, h, attend(&cross, layer_norm(&b, h, "norm2", 1e-5), u->text, heads, 0, 0));
	h = op_add(l.t, h, feed_forward(&b, layer_norm(&b, h, "norm3", 1e-5)));
	h = op_reshape(l.t, h, 4, x->shape);
	if (u->c->linear)
		return op_add(l.t, layer_linear(&l, h, "proj_out", &(struct linear){.out = c}), x);
	return layer_conv(&l, h, "proj_out", &(struct conv){.out = c, .kh = 1, .add = x});
}

/* A residual block, followed by attention if `attention`. Together they are one block of the tape, whose intermediates can be recomputed. */
static struct tensor *layer(const struct unet *u, const struct layers *block, struct tensor *x, int j, int level, int attention)
{
	tape_block_begin(u->l.t);
	x = resnet(u, block, x, j, u->c->width[level]);
	if (attention)
		x = u->text ? text_attention(u, block, x, j, level) : self_attention(u, block, x, j);
	tape_block_end(u->l.t);
	return x;
}

static struct tensor *push(struct unet *u, struct tensor *x)
{
	return u->skip[u->skips++] = x;
}

static struct tensor *down(struct unet *u, struct tensor *x, int level)
{
	struct layers b = layers_in(&u->l, "down_blocks.%d.", level);
	int64_t pad = u->c->symmetric;

	for (int j = 0; j < u->c->layers; j++)
		x = push(u, layer(u, &b, x, j, level, (int)(u->c->attention >> level & 1)));
	if (level + 1 == levels_of(u->c))
		return x;
	x = conv(&b, x, "downsamplers.0.conv", (struct conv){.out = x->shape[3], .kh = 3, .stride = 2, .pad = {pad, pad, 1, 1}});
	return push(u, x);
}

static struct tensor *up(struct unet *u, struct tensor *x, int level)
{
	struct layers b = layers_in(&u->l, "up_blocks.%d.", levels_of(u->c) - 1 - level);

	for (int j = 0; j <= u->c->layers; j++) {
		struct tensor *both[2] = {x, u->skip[--u->skips]};

		x = layer(u, &b, op_concat(u->l.t, 3, 2, both), j, level, (int)(u->c->attention >> level & 1));
	}
	return level ? conv(&b, op_upsample_nearest(u->l.t, x), "upsamplers.0.conv", (struct conv){.out = x->shape[3], .kh = 3, .pad = around}) : x;
}

static struct tensor *middle(const struct unet *u, struct tensor *x)
{
	struct layers b = layers_in(&u->l, "%s", "mid_block.");
	int last = levels_of(u->c) - 1;

	x = layer(u, &b, x, 0, last, u->c->middle != 0);
	return layer(u, &b, x, 1, last, 0);
}

/* Of a clip, all frames are the channels of one picture. */
static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct unet u = {.l = {t, p, ""}, .net = c, .c = own(c), .text = in->text, .dropout = in->dropout};
	int64_t frames = c->frames ? c->frames : 1, picture[4] = {in->x->shape[0], frames * net_read_channels(c), c->size, c->size};
	int64_t clip[5] = {in->x->shape[0], frames, c->out_channels, c->size, c->size};
	int64_t patch = patch_of(u.c), out = frames * c->out_channels * patch * patch;
	int levels = levels_of(u.c);
	struct tensor *x;

	u.time = embed(&u, in);
	x = c->frames ? op_reshape(t, in->x, 4, picture) : in->x;
	x = push(&u, conv(&u.l, patches_last(t, x, patch), "conv_in", (struct conv){.out = u.c->width[0], .kh = 3, .pad = around}));
	for (int i = 0; i < levels; i++)
		x = down(&u, x, i);
	x = middle(&u, x);
	for (int i = levels - 1; i >= 0; i--)
		x = up(&u, x, i);
	x = layer_groupnorm(&u.l, x, "conv_norm_out", u.c->groups, u.c->eps, SILU);
	x = layer_conv(&u.l, x, "conv_out", &(struct conv){.out = out, .kh = 3, .pad = around});
	x = patches_first(t, x, patch);
	return c->frames ? op_reshape(t, x, 5, clip) : x;
}

/* ---- configuration ---- */

static int check(const struct net_config *c, struct err *e)
{
	const struct unet_config *u = own(c);
	int levels = levels_of(u);

	if (!levels || u->layers < 1 || u->layers > 16 || u->groups < 1)
		return err_set(e, ERR_USAGE, "a U-Net of %d levels of %lld layers, norms of %lld groups", levels, (long long)u->layers,
		               (long long)u->groups);
	if (c->size % (patch_of(u) << (levels - 1)))
		return err_set(e, ERR_USAGE, "a U-Net of %d levels halves the size %d times, and %lld is not a multiple of %lld%s", levels,
		               levels - 1, (long long)c->size, (long long)(patch_of(u) << (levels - 1)), u->patch > 1 ? ", with its patches" : "");
	for (int i = 0; i < levels; i++) {
		int64_t w = u->width[i], heads = net_reads(c, NET_IN_TEXT) ? u->heads[i] : u->head ? w / u->head : 1;

		if (w < 4 || w > 65536 || w % 2 || w % u->groups)
			return err_set(e, ERR_USAGE, "width %lld of level %d is not even, in 4..65536 and a multiple of %lld groups", (long long)w, i,
			               (long long)u->groups);
		if (heads < 1 || w % heads || (u->head && !net_reads(c, NET_IN_TEXT) && w % u->head))
			return err_set(e, ERR_USAGE, "heads do not divide the width %lld of level %d", (long long)w, i);
	}
	if (u->frequency_shift >= (double)(u->width[0] / 2))
		return err_set(e, ERR_USAGE, "freq_shift %g is out of range", u->frequency_shift);
	return 0;
}

#define OWN(field) NET_OWN_AT(struct unet_config, field)
#define FIELDS \
	{"block_out_channels", NULL, "widths", NET_INTS, OWN(width), 0, 1, 65536, NET_REQUIRED}, \
	    {"layers_per_block", NULL, "layers", NET_INT, OWN(layers), 2, 1, 16, NET_ALWAYS}, \
	    {"patch_size", NULL, "patch", NET_INT, OWN(patch), 0, 0, 64, 0}, \
	    {"middle_attention", NULL, NULL, NET_INT, OWN(middle), 1, 0, 1, NET_UNWRITTEN}, \
	    {"cosines_first", NULL, NULL, NET_INT, OWN(cosines_first), 1, 0, 1, NET_UNWRITTEN}, \
	    {"attention_levels", NULL, "attention", NET_INT, OWN(attention), 0, 0, (1 << NET_INTS_MOST) - 1, NET_UNWRITTEN}, \
	    {"norm_num_groups", NULL, "groups", NET_INT, OWN(groups), 32, 1, 65536, NET_ALWAYS}, \
	    {"norm_eps", NULL, NULL, NET_REAL, OWN(eps), 1e-5, 1e-12, 1, NET_ALWAYS}, \
	    {"downsample_padding", NULL, NULL, NET_INT, OWN(symmetric), 1, 0, 1, NET_ALWAYS}, \
	    {"freq_shift", NULL, NULL, NET_REAL, OWN(frequency_shift), 0, 0, 64, NET_ALWAYS}, NET_DROPOUT_FIELD("class_dropout_prob", NULL), \
	    NET_HIDDEN_DROPOUT_FIELD, NET_TIME_FIELD

static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0),
    NET_FRAMES_FIELD,
    NET_FIRST_FIELDS,
    NET_CLASS_FIELDS,
    NET_CLUSTER_FIELDS,
    FIELDS,
    {"head_width", NULL, "head", NET_INT, OWN(head), 8, 0, 65536, NET_UNWRITTEN},
};
static const struct net_field text_fields[] = {
    NET_PICTURE_FIELDS(0),
    NET_FRAMES_FIELD,
    NET_FIRST_FIELDS,
    NET_CLUSTER_FIELDS,
    {"text_tokens", NULL, NULL, NET_INT, NET_AT(text_tokens), 77, 0, INT32_MAX, 0},
    {"cross_attention_dim", NULL, NULL, NET_INT, NET_AT(text_width), 1280, 0, INT32_MAX, 0},
    FIELDS,
    {"heads", NULL, "heads", NET_INTS, OWN(heads), 0, 1, 65536, NET_UNWRITTEN},
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_FIRST, NET_READS_TIME, NET_READS_LABEL};
static const struct net_reads text_inputs[] = {NET_READS_X, NET_READS_FIRST, NET_READS_TIME, NET_READS_TEXT};

/* ---- diffusers' config.json ---- */

/* diffusers' names of blocks without attention, with self-attention, and with cross-attention to text. */
static const char *const down_types[] = {"DownBlock2D", "AttnDownBlock2D", "CrossAttnDownBlock2D"};
static const char *const up_types[] = {"UpBlock2D", "AttnUpBlock2D", "CrossAttnUpBlock2D"};

/* Entries that would change the network, each with its only supported value as JSON text; NULL: null. */
static const struct {
	const char *key, *value;
} known[] = {
    {"act_fn", "\"silu\""},
    {"time_embedding_type", "\"positional\""},
    {"resnet_time_scale_shift", "\"default\""},
    {"downsample_type", "\"conv\""},
    {"upsample_type", "\"conv\""},
    {"center_input_sample", "false"},
    {"class_embed_type", NULL},
    {"time_embedding_dim", NULL},
    {"attn_norm_num_groups", NULL},
    {"mid_block_scale_factor", "1"},
    {"dual_cross_attention", "false"},
    {"only_cross_attention", "false"},
    {"addition_embed_type", NULL},
    {"encoder_hid_dim", NULL},
    {"encoder_hid_dim_type", NULL},
    {"time_cond_proj_dim", NULL},
    {"transformer_layers_per_block", "1"},
    {"time_embedding_act_fn", NULL},
    {"timestep_post_act", NULL},
    {"resnet_out_scale_factor", "1"},
    {"resnet_skip_time_act", "false"},
    {"reverse_transformer_layers_per_block", NULL},
    {"conv_in_kernel", "3"},
    {"conv_out_kernel", "3"},
};

static int check_known(const json_t *o, const char *where, struct err *e)
{
	for (int i = 0; i < NET_COUNT(known); i++) {
		const json_t *v = json_object_get(o, known[i].key);
		json_t *want = known[i].value ? json_loads(known[i].value, JSON_DECODE_ANY, NULL) : json_null();
		int same = !v || json_is_null(v) || json_equal(v, want) || (json_is_number(v) && json_number_value(v) == json_number_value(want));

		json_decref(want);
		if (!same)
			return err_set(e, ERR_DATA, "%s: a U-Net with \"%s\" other than %s is not supported", where, known[i].key,
			               known[i].value ? known[i].value : "null");
	}
	return 0;
}

/* Read the levels with attention, a bit each, from a list of block types. reversed: the last block is at full size. No list: *out stays. */
static int read_types(const json_t *o, const char *where, const char *key, const char *const *types, int with, int levels, int reversed, int64_t *out,
                      struct err *e)
{
	const json_t *list = json_object_get(o, key);

	if (!list)
		return 0;
	if (json_array_size(list) != (size_t)levels)
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a list of %d blocks", where, key, levels);
	*out = 0;
	for (int i = 0; i < levels; i++) {
		const char *is = json_string_value(json_array_get(list, (size_t)i));

		if (is && !strcmp(is, types[with]))
			*out |= 1 << (reversed ? levels - 1 - i : i);
		else if (!is || strcmp(is, types[0]))
			return err_set(e, ERR_DATA, "%s: a block %s in \"%s\" is not supported; expected %s or %s", where,
			               is ? is : "that has no name", key, types[0], types[with]);
	}
	return 0;
}

static int read_flag(const json_t *o, const char *where, const char *key, int initial, int64_t *out, struct err *e)
{
	int flag = initial;

	if (jsonio_bool(o, key, 0, &flag, where, e))
		return -1;
	*out = flag;
	return 0;
}

static int read_shared(const json_t *o, const char *where, struct net_config *c, int with, struct err *e)
{
	struct unet_config *u = edit(c);
	int levels = levels_of(u);
	int64_t ups;

	if (check_known(o, where, e) || read_flag(o, where, "flip_sin_to_cos", 1, &u->cosines_first, e) ||
	    read_types(o, where, "down_block_types", down_types, with, levels, 0, &u->attention, e))
		return -1;
	ups = u->attention;
	if (read_types(o, where, "up_block_types", up_types, with, levels, 1, &ups, e))
		return -1;
	if (ups != u->attention)
		return err_set(e, ERR_DATA, "%s: up blocks with attention on other levels than the down blocks are not supported", where);
	return 0;
}

static int read_plain(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const json_t *head = json_object_get(o, "attention_head_dim"), *rows = json_object_get(o, "num_class_embeds");
	struct unet_config *u = edit(c);

	if (json_is_null(head))
		u->head = 0;
	if (json_is_integer(rows) && !json_object_get(o, "num_classes"))
		c->classes = json_integer_value(rows);
	return read_shared(o, where, c, 1, e) || jsonio_i64(o, "attention_head_dim", 0, 1, 65536, &u->head, where, e) ||
	               read_flag(o, where, "add_attention", 1, &u->middle, e)
	           ? -1
	           : 0;
}

/* Read the number of heads: a list with one number per level, or one number for all levels. */
static int read_heads(const json_t *o, const char *where, struct unet_config *u, struct err *e)
{
	const json_t *v = json_object_get(o, "num_attention_heads");

	if (!json_is_integer(v) && !json_is_array(v))
		v = json_object_get(o, "attention_head_dim");
	for (int i = 0; i < levels_of(u); i++) {
		const json_t *one = json_is_array(v) ? json_array_get(v, (size_t)i) : v;

		u->heads[i] = one ? json_integer_value(one) : 8;
		if (u->heads[i] < 1 || u->heads[i] > 65536)
			return err_set(e, ERR_DATA, "%s: \"attention_head_dim\" is not a number of heads", where);
	}
	return 0;
}

static int read_text(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	struct unet_config *u = edit(c);

	return read_shared(o, where, c, 2, e) || read_heads(o, where, u, e) || read_flag(o, where, "use_linear_projection", 0, &u->linear, e) ? -1
	                                                                                                                                      : 0;
}

static void write_types(json_t *o, const struct unet_config *u, int with)
{
	json_t *downs = json_array(), *ups = json_array();
	int levels = levels_of(u);

	for (int i = 0; i < levels; i++) {
		json_array_append_new(downs, json_string(down_types[u->attention >> i & 1 ? with : 0]));
		json_array_append_new(ups, json_string(up_types[u->attention >> (levels - 1 - i) & 1 ? with : 0]));
	}
	json_object_set_new(o, "down_block_types", downs);
	json_object_set_new(o, "up_block_types", ups);
	json_object_set_new(o, "flip_sin_to_cos", json_boolean(u->cosines_first));
	json_object_set_new(o, "act_fn", json_string("silu"));
}

static void write_plain(const struct net_config *c, json_t *o)
{
	const struct unet_config *u = own(c);

	json_object_set_new(o, "_class_name", json_string("UNet2DModel"));
	write_types(o, u, 1);
	json_object_set_new(o, "attention_head_dim", u->head ? json_integer(u->head) : json_null());
	json_object_set_new(o, "add_attention", json_boolean(u->middle));
	json_object_set_new(o, "num_class_embeds", c->classes ? json_integer(c->classes + (c->class_dropout > 0)) : json_null());
}

static void write_text(const struct net_config *c, json_t *o)
{
	const struct unet_config *u = own(c);
	json_t *heads = json_array();

	for (int i = 0; i < levels_of(u); i++)
		json_array_append_new(heads, json_integer(u->heads[i]));
	json_object_set_new(o, "_class_name", json_string("UNet2DConditionModel"));
	write_types(o, u, 2);
	json_object_set_new(o, "attention_head_dim", heads);
	json_object_set_new(o, "use_linear_projection", json_boolean(u->linear));
}

static const struct net_diffusers diffusers = {"UNet2DModel", NULL, net_read_fields, 0};
static const struct net_diffusers text_diffusers = {"UNet2DConditionModel", NULL, net_read_fields, 0};

/* Names of the attention layers in older versions of diffusers. */
/* clang-format off */
#define OLD(ours, theirs) {"*." ours ".weight", {"*." theirs ".weight"}, 0}, {"*." ours ".bias", {"*." theirs ".bias"}, 0}
/* clang-format on */
static const struct rename old_rules[] = {OLD("to_q", "query"), OLD("to_k", "key"), OLD("to_v", "value"), OLD("to_out.0", "proj_attn")};
static const struct renames old_attention = {.sign = "mid_block.attentions.0.query.weight", .v = old_rules, .n = NET_COUNT(old_rules)};
static const struct renames *const families[] = {&old_attention, NULL};

/* ---- presets ---- */

static const char *const names[] = {"nano", "micro", "mini", "s", "b", "l", NULL};
/* b is the DDPM paper's network for pictures of 32 x 32. */
static const struct {
	int64_t width[NET_INTS_MOST], layers, attention;
} sizes[] = {
    {{32, 64, 64}, 1, 4},   {{64, 128, 128}, 1, 4},       {{64, 128, 192}, 2, 4},
    {{96, 192, 288}, 2, 6}, {{128, 256, 256, 256}, 2, 2}, {{128, 256, 384, 512}, 2, 12},
};

static int apply(struct net_config *c, const char *text)
{
	struct unet_config *u = edit(c);
	int i = 0;

	while (names[i] && strcmp(names[i], text))
		i++;
	if (!names[i])
		return 0;
	memset(u->heads, 0, sizeof u->heads);
	memcpy(u->width, sizes[i].width, sizeof u->width);
	for (int k = 0; k < levels_of(u); k++)
		u->heads[k] = u->width[k] / 32;
	u->layers = sizes[i].layers;
	u->attention = sizes[i].attention;
	u->groups = 32;
	u->head = 32;
	u->patch = 0;
	return 1;
}

static const struct net_presets presets = {.names = names, .tail = "", .example = "", .note = "", .apply = apply};

const struct net_def net_unet = {
    .name = "unet",
    .role = NET_EXPERT,
    NET_TABLES(fields, inputs),
    .read = read_plain,
    .write = write_plain,
    .check = check,
    .record = record,
    .frames_fixed = 1,
    .last = "conv_out.",
    .prefix = "unet-",
    .presets = &presets,
    .diffusers = &diffusers,
    .families = families,
};

const struct net_def net_unet_text = {
    .name = "unet_text",
    .role = NET_EXPERT,
    NET_TABLES(text_fields, text_inputs),
    .read = read_text,
    .write = write_text,
    .check = check,
    .record = record,
    .frames_fixed = 1,
    .last = "conv_out.",
    .prefix = "unet-text-",
    .presets = &presets,
    .diffusers = &text_diffusers,
};
