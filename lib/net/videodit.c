/* A diffusion transformer for clips: 3D patches, rotary positions of time, row and column, and blocks as DiT's.
 *
 * Attention is over all tokens (Wan 2.1), or blocks alternate between attention within each frame and attention across the frames at each place
 * (Latte, Ma et al. 2024). Time and class modulate each block by weights of its own (adaLN-zero, as DiT), or all blocks by shared weights plus a
 * table of the block (adaLN-single, as PixArt and Wan). Texts are read by cross attention, as Wan does: a norm with weights of its own, no gate.
 * Names of tensors are those of diffusers' Wan. No weight depends on the number of frames. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/str.h"
#include "net/layers.h"
#include "net/netdef.h"
#include "net/patches.h"
#include "net/rotarytable.h"

/* The contents of struct net_config's `own`. */
struct video_config {
	int64_t patch_t, patch; /* frames, rows and columns of a patch */
	int64_t hidden, depth, heads;
	int64_t ffn;      /* width between the two layers of an MLP; 0: 4 hidden */
	int64_t factored; /* 1: blocks alternate between space and time; 0: each attends to all tokens */
	int64_t shared;   /* 1: adaLN-single; 0: adaLN-zero */
	int64_t text;     /* 1: cross attention to a text */
	int64_t qk_norm;  /* RMS norm of queries and keys: 0 none, 1 of each head, 2 over all heads */
};
_Static_assert(sizeof(struct video_config) <= NET_OWN, "fits into struct net_config");

#define VIDEO_AT(field) NET_OWN_AT(struct video_config, field)

enum { FREQUENCIES = 256 };
enum { QK_NONE, QK_HEAD, QK_ALL, QK_KINDS };

static const double norm_eps = 1e-6, period = 10000;

/* A recording in progress. */
struct video {
	struct layers l;
	const struct net_config *net;
	const struct video_config *c;
	int64_t frames, places;       /* of the grid of tokens: patches along time, and in a frame */
	struct tensor *cosine, *sine; /* of rotary positions: (tokens, width of a head / 2) */
};

static const struct video_config *video_config(const struct net_config *c)
{
	return (const void *)c->own;
}

/* Patches of x (B, F, C, S, S), through a linear layer: (B, frames places, H). Tensors have at most six dimensions, so this takes two steps. */
static struct tensor *patches(const struct video *k, struct tensor *x)
{
	const struct video_config *c = k->c;
	int64_t b = x->shape[0], f = x->shape[1], ch = x->shape[2], p = c->patch, n = x->shape[3] / p, width = ch * c->patch_t * p * p;
	int64_t split[6] = {b * f, ch, n, p, n, p}, frames[6] = {b, k->frames, c->patch_t, n * n, ch, p * p},
		tokens[3] = {b, k->frames * n * n, width};
	int64_t shape[5] = {c->hidden, ch, c->patch_t, p, p}, flat[2] = {c->hidden, width};
	static const int in_frame[6] = {0, 2, 4, 1, 3, 5}, in_clip[6] = {0, 1, 3, 4, 2, 5};
	struct tape *t = k->l.t;
	struct tensor *w = layer_param_init(&k->l, "patch_embedding.weight", 5, shape, PARAM_DECAY, init_xavier(width, c->hidden));
	struct tensor *bias = layer_param(&k->l, "patch_embedding.bias", 1, &c->hidden);

	x = op_reshape(t, op_permute(t, op_reshape(t, x, 6, split), in_frame), 6, frames);
	x = op_reshape(t, op_permute(t, x, in_clip), 3, tokens);
	return tape_float(t, op_linear(t, x, op_reshape(t, w, 2, flat), bias));
}

/* The inverse of `patches`, for tokens whose numbers are ordered by frame, row and column in the patch, then channel: (B, F, C, S, S), contiguous. */
static struct tensor *unpatchify(const struct video *k, struct tensor *h)
{
	const struct video_config *c = k->c;
	int64_t b = h->shape[0], p = c->patch, n = k->net->size / p, ch = k->net->out_channels, s = k->net->size, f = k->net->frames;
	int64_t split[6] = {b * k->frames, n, n, c->patch_t, p, p * ch}, rows[4] = {b * f, s, s, ch}, clip[5] = {b, f, ch, s, s};
	static const int in_rows[6] = {0, 3, 1, 4, 2, 5}, channels[4] = {0, 3, 1, 2};
	struct tape *t = k->l.t;

	h = op_reshape(t, op_permute(t, op_reshape(t, h, 6, split), in_rows), 4, rows);
	return op_reshape(t, op_copy(t, op_permute(t, h, channels)), 5, clip);
}

static struct tensor *project(const struct layers *l, struct tensor *x, const char *name, int64_t out)
{
	return layer_linear(l, x, name, &(struct linear){.out = out, .init = init_xavier(x->shape[x->rank - 1], out)});
}

/* Queries or keys (B, T, heads, width), normalised. norm: the name of the norm. */
static struct tensor *queries(const struct video *k, const struct layers *l, struct tensor *x, const char *name, const char *norm)
{
	int64_t of_heads[4] = {x->shape[0], x->shape[1], k->c->heads, k->c->hidden / k->c->heads};
	struct tensor *h = project(l, x, name, k->c->hidden);

	if (k->c->qk_norm == QK_ALL)
		h = layer_rms(l, h, norm, norm_eps);
	h = op_reshape(l->t, h, 4, of_heads);
	return k->c->qk_norm == QK_HEAD ? layer_rms(l, h, norm, norm_eps) : h;
}

/* Attention of q, k and v (B, frames places, heads, width) among the tokens of block `block`. Across frames, places are part of the heads. */
static struct tensor *attend(const struct video *k, int64_t block, struct tensor *const *qkv)
{
	struct tape *t = k->l.t;
	int64_t b = qkv[0]->shape[0], heads = k->c->heads, width = qkv[0]->shape[3];
	int64_t within[4] = {b * k->frames, k->places, heads, width}, across[4] = {b, k->frames, k->places * heads, width};
	const int64_t *shape = !k->c->factored ? qkv[0]->shape : block % 2 ? across : within;
	struct tensor *v[3];

	for (int i = 0; i < 3; i++)
		v[i] = op_reshape(t, qkv[i], 4, shape);
	return op_attention(t, v[0], v[1], v[2], 1 / sqrt((double)width), 0);
}

static struct tensor *self_attention(const struct video *k, const struct layers *outer, int64_t block, struct tensor *x)
{
	struct layers l = layers_in(outer, "attn1.");
	struct tensor *qkv[3] = {queries(k, &l, x, "to_q", "norm_q"), queries(k, &l, x, "to_k", "norm_k"), NULL};

	for (int i = 0; i < 2; i++)
		qkv[i] = op_rotary(l.t, qkv[i], k->cosine, k->sine, ROTARY_ADJACENT);
	qkv[2] = op_reshape(l.t, project(&l, x, "to_v", k->c->hidden), 4, qkv[0]->shape);
	return project(&l, op_reshape(l.t, attend(k, block, qkv), 3, x->shape), "to_out.0", k->c->hidden);
}

/* text (B, S, H); mask (B, S) is added to the scores, or NULL. */
static struct tensor *cross_attention(const struct video *k, const struct layers *outer, struct tensor *x, struct tensor *text, struct tensor *mask)
{
	struct layers l = layers_in(outer, "attn2.");
	int64_t one[4] = {text->shape[0], 1, 1, text->shape[1]}, h = k->c->hidden;
	struct tensor *q = queries(k, &l, x, "to_q", "norm_q"), *key = queries(k, &l, text, "to_k", "norm_k"), *v, *y;

	v = op_reshape(l.t, project(&l, text, "to_v", h), 4, key->shape);
	y = op_attention_bias(l.t, q, key, v, mask ? op_reshape(l.t, mask, 4, one) : NULL, 1 / sqrt((double)q->shape[3]), 0);
	return layer_linear(&l, op_reshape(l.t, y, 3, x->shape), "to_out.0", &(struct linear){.out = h, .init = init_zero});
}

static struct tensor *mlp(const struct video *k, const struct layers *l, struct tensor *x)
{
	int64_t h = k->c->hidden, wide = k->c->ffn ? k->c->ffn : 4 * h;

	x = layer_linear(l, x, "ffn.net.0.proj", &(struct linear){.out = wide, .act = UNARY_GELU_TANH + 1, .init = init_xavier(h, wide)});
	return project(l, x, "ffn.net.2", h);
}

/* What modulates the blocks. */
struct condition {
	struct tensor *time; /* (B, H): the embedding of time and class */
	struct tensor *act;  /* SiLU of it */
	struct tensor *all;  /* (B, 6, 1, H): the modulation that all blocks share; NULL: none */
	struct tensor *text; /* (B, S, H), or NULL */
	struct tensor *mask; /* (B, S), or NULL */
};

/* A table of the block's own, (n, 1, H), initially of variance 1 / H. */
static struct tensor *table(const struct video *k, const struct layers *l, int64_t n)
{
	int64_t h = k->c->hidden, stored[3] = {1, n, h}, rows[3] = {n, 1, h};
	struct init init = {.kind = INIT_NORMAL, .a = 1 / sqrt((double)h)};

	return op_reshape(l->t, layer_param_init(l, "scale_shift_table", 3, stored, 0, init), 3, rows);
}

/* Shift, scale and gate of the attention, then of the MLP: m[6] of (B, 1, H). */
static void modulation(const struct video *k, const struct layers *l, const struct condition *on, struct tensor **m)
{
	int64_t h = k->c->hidden, six[4] = {on->act->shape[0], 6, 1, h};
	struct tensor *rows;

	if (on->all)
		rows = op_add(l->t, on->all, table(k, l, 6));
	else
		rows = op_reshape(l->t, layer_linear(l, on->act, "adaLN_modulation.1", &(struct linear){.out = 6 * h, .init = init_zero}), 4, six);
	op_unstack(l->t, rows, 1, m);
}

static struct tensor *block(const struct video *k, int64_t i, struct tensor *x, const struct condition *on)
{
	struct layers l = layers_in(&k->l, "blocks.%d.", (int)i);
	struct tape *t = l.t;
	struct tensor *m[6], *h;

	tape_block_begin(t);
	modulation(k, &l, on, m);
	h = self_attention(k, &l, i, op_norm(t, x, m[1], m[0], NORM_LAYER, norm_eps, 1));
	x = tape_float(t, op_gate(t, x, m[2], h));
	if (on->text)
		x = tape_float(t, op_add(t, x, cross_attention(k, &l, layer_norm(&l, x, "norm2", norm_eps), on->text, on->mask)));
	h = mlp(k, &l, op_norm(t, x, m[4], m[3], NORM_LAYER, norm_eps, 1));
	x = tape_float(t, op_gate(t, x, m[5], h));
	tape_block_end(t);
	return x;
}

static struct tensor *last(const struct video *k, struct tensor *x, const struct condition *on)
{
	int64_t h = k->c->hidden, b = x->shape[0], two[4] = {b, 2, 1, h}, one[4] = {b, 1, 1, h}, p = k->c->patch;
	struct linear edge = {.out = 2 * h, .edge = 1, .init = init_zero}, out = {.edge = 1, .init = init_zero};
	struct tape *t = k->l.t;
	struct tensor *m[2], *rows;

	if (on->all)
		rows = op_add(t, op_expand(t, op_reshape(t, on->time, 4, one), two), table(k, &k->l, 2));
	else
		rows = op_reshape(t, layer_linear(&k->l, on->act, "adaLN_modulation.1", &edge), 4, two);
	op_unstack(t, rows, 1, m);
	out.out = k->c->patch_t * p * p * k->net->out_channels;
	return unpatchify(k, layer_linear(&k->l, op_norm(t, x, m[1], m[0], NORM_LAYER, norm_eps, 1), "proj_out", &out));
}

/* The features of the empty text (text_tokens, text_width): kept with the weights, for training, not read here. */
#define NULL_TEXT "null_text"

static void embed_text(const struct video *k, const struct net_input *in, struct condition *on)
{
	int64_t h = k->c->hidden, shape[2] = {k->net->text_tokens, k->net->text_width};
	struct layers l = layers_in(&k->l, "condition_embedder.text_embedder.");

	layer_param_init(&k->l, NULL_TEXT, 2, shape, PARAM_FROZEN, init_zero);
	on->text = layer_linear(&l, in->text, "linear_1", &(struct linear){.out = h, .act = UNARY_GELU_TANH + 1, .edge = 1, .init = init_small});
	on->text = tape_float_grad(l.t, layer_linear(&l, on->text, "linear_2", &(struct linear){.out = h, .edge = 1, .init = init_small}));
	on->mask = in->mask;
}

static void embed(const struct video *k, const struct net_input *in, struct condition *on)
{
	int64_t h = k->c->hidden, b = in->time->shape[0], six[4] = {b, 6, 1, h}, rows[2] = {k->net->classes + (k->net->class_dropout > 0), h};
	struct layers l = layers_in(&k->l, "condition_embedder.");
	struct linear first = {.out = h, .act = UNARY_SILU + 1, .edge = 1, .init = init_small}, second = {.out = h, .edge = 1, .init = init_small};
	struct tape *t = l.t;
	struct tensor *e = op_timestep(t, in->time, FREQUENCIES, period, k->net->time_scale);

	e = layer_linear(&l, layer_linear(&l, e, "time_embedder.linear_1", &first), "time_embedder.linear_2", &second);
	if (in->label)
		e = op_add(t, e, op_embed(t, layer_param_init(&l, "class_embedder.weight", 2, rows, 0, init_small), in->label));
	on->time = tape_float_grad(t, e);
	on->act = tape_float_grad(t, op_unary(t, e, UNARY_SILU));
	if (k->c->shared) {
		second.out = 6 * h;
		on->all = tape_float_grad(t, op_reshape(t, layer_linear(&l, on->act, "time_proj", &second), 4, six));
	}
	if (k->c->text)
		embed_text(k, in, on);
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	const struct video_config *v = video_config(c);
	int64_t side = c->size / v->patch;
	struct video k = {{.t = t, .p = p}, c, v, c->frames / v->patch_t, side * side, NULL, NULL};
	struct rotary_axes axes = {.axes = 3, .size = {k.frames, side, side}, .theta = period};
	struct condition on = {0};
	struct tensor *x;

	assert(!in->label == !c->classes && !in->text == !v->text);
	rotary_split(v->hidden / v->heads, axes.pairs);
	rotary_record(t, &axes, &k.cosine, &k.sine);
	x = patches(&k, in->x);
	embed(&k, in, &on);
	for (int64_t i = 0; i < v->depth; i++)
		x = block(&k, i, x, &on);
	return last(&k, x, &on);
}

/* ---- configurations ---- */

/* nano to xl are DiT's sizes. The Wan shapes are those of Wan 2.1, and one between them whose count is near that of the Open-Sora 2.0 network. */
static const struct {
	const char *name;
	int64_t hidden, depth, heads, ffn;
} sizes[] = {
    {"nano", 96, 4, 4, 0},
    {"micro", 128, 6, 4, 0},
    {"mini", 192, 6, 6, 0},
    {"s", 384, 12, 6, 0},
    {"b", 768, 12, 12, 0},
    {"l", 1024, 24, 16, 0},
    {"xl", 1152, 28, 16, 0},
    {"wan-1.3b", 1536, 30, 12, 8960},
    {"wan-11b", 4096, 41, 32, 16384},
    {"wan-14b", 5120, 40, 40, 13824},
};
static const char *const names[] = {"nano", "micro", "mini", "s", "b", "l", "xl", "wan-1.3b", "wan-11b", "wan-14b", NULL};

/* If the text begins with a word, move it past the word. */
static int takes(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n) != 0)
		return 0;
	*text += n;
	return 1;
}

/* The patch "2x4": frames, then rows and columns. */
static int parse_patch(const char *text, struct video_config *v)
{
	char frames[8] = {0};
	const char *x = strchr(text, 'x');

	if (!x || x == text || x - text >= (ptrdiff_t)sizeof frames)
		return -1;
	memcpy(frames, text, (size_t)(x - text));
	return parse_i64(frames, 1, 64, &v->patch_t) || parse_i64(x + 1, 1, 64, &v->patch) ? -1 : 0;
}

static int apply(struct net_config *c, const char *text)
{
	struct video_config v = {.factored = 1, .qk_norm = QK_HEAD};
	const char *slash = strchr(text, '/');
	int wan;

	v.factored = !takes(&text, "full-");
	v.text = takes(&text, "text-");
	wan = !strncmp(text, "wan-", 4);
	if (!slash || parse_patch(slash + 1, &v) || (wan && (!v.factored || v.text)))
		return 0;
	if (wan) {
		v.factored = 0;
		v.shared = v.text = 1;
		v.qk_norm = QK_ALL;
	}
	for (int i = 0; i < NET_COUNT(sizes); i++)
		if (strlen(sizes[i].name) == (size_t)(slash - text) && !memcmp(sizes[i].name, text, strlen(sizes[i].name))) {
			v.hidden = sizes[i].hidden;
			v.depth = sizes[i].depth;
			v.heads = sizes[i].heads;
			v.ffn = sizes[i].ffn;
			memset(c->own, 0, sizeof c->own);
			memcpy(c->own, &v, sizeof v);
			return 1;
		}
	return 0;
}

/* Ways of attention, with and without text, and patches of 1 to 16 frames. */
static char *variant(const char *name, int i, int64_t patch)
{
	static const char *const ways[] = {"", "full-", "text-", "full-text-"};

	return i < 4 * 16 ? str_new("%s%s/%dx%lld", ways[i % 4], name, 1 + i / 4, (long long)patch) : NULL;
}

static const struct net_presets presets = {
    .names = names, .tail = "/TxP", .example = "/1x4", .note = " for clips", .apply = apply, .variant = variant};

static int check(const struct net_config *c, struct err *e)
{
	const struct video_config *v = video_config(c);

	if (c->frames < 1)
		return err_set(e, ERR_USAGE, "a video_dit network is for clips, and these samples are pictures; use a preset such as dit-nano/4");
	if (v->patch_t < 1 || c->frames % v->patch_t)
		return err_set(e, ERR_USAGE, "patches of %lld frames do not divide clips of %lld frames", (long long)v->patch_t,
		               (long long)c->frames);
	if (patches_check(c, v->patch, e) || patches_check_tokens(c->frames / v->patch_t * (c->size / v->patch) * (c->size / v->patch), e))
		return -1;
	if (v->hidden < 2 || v->hidden > 65536 || v->heads < 1 || v->hidden % (2 * v->heads))
		return err_set(e, ERR_USAGE, "%lld heads do not divide the hidden width %lld into even widths", (long long)v->heads,
		               (long long)v->hidden);
	if (v->depth < 1 || v->depth > 1000 || v->ffn < 0 || v->ffn > 1 << 20 || v->qk_norm < 0 || v->qk_norm >= QK_KINDS)
		return err_set(e, ERR_USAGE, "depth %lld, ffn_dim %lld or qk_norm %lld is out of range", (long long)v->depth, (long long)v->ffn,
		               (long long)v->qk_norm);
	if (c->out_channels != c->channels)
		return err_set(e, ERR_USAGE, "a video_dit network predicts no variance: %lld output channels for %lld input channels",
		               (long long)c->out_channels, (long long)c->channels);
	return 0;
}

static int check_noise(const struct net_config *c, struct err *e)
{
	const struct video_config *v = video_config(c);

	return patches_check_noise(v->patch_t * v->patch * v->patch * c->channels, v->hidden, e);
}

static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(0),
    NET_FRAMES_FIELD,
    {"patch_size_t", NULL, "patch_t", NET_INT, VIDEO_AT(patch_t), 0, 0, INT32_MAX, NET_REQUIRED},
    {"patch_size", NULL, "patch", NET_INT, VIDEO_AT(patch), 0, 0, INT32_MAX, NET_REQUIRED},
    {"hidden_size", NULL, "hidden", NET_INT, VIDEO_AT(hidden), 0, 0, INT32_MAX, NET_REQUIRED},
    {"num_layers", NULL, "depth", NET_INT, VIDEO_AT(depth), 0, 0, INT32_MAX, NET_REQUIRED},
    {"num_attention_heads", NULL, "heads", NET_INT, VIDEO_AT(heads), 0, 0, INT32_MAX, NET_REQUIRED},
    {"ffn_dim", NULL, "ffn", NET_INT, VIDEO_AT(ffn), 0, 0, INT32_MAX, 0},
    {"factored_attention", NULL, "factored", NET_INT, VIDEO_AT(factored), 0, 0, 1, NET_ALWAYS},
    {"shared_modulation", NULL, "shared", NET_INT, VIDEO_AT(shared), 0, 0, 1, NET_ALWAYS},
    {"cross_attention", NULL, "cross", NET_INT, VIDEO_AT(text), 0, 0, 1, NET_ALWAYS},
    {"qk_norm", NULL, "qk_norm", NET_INT, VIDEO_AT(qk_norm), 0, 0, QK_KINDS - 1, NET_ALWAYS},
    NET_CLASS_FIELDS,
    NET_CLUSTER_FIELDS,
    NET_TEXT_FIELDS(0, 0),
    NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,
};
static const struct net_reads inputs[] = {
    NET_READS_X,
    NET_READS_TIME,
    NET_READS_LABEL,
    {NET_IN_TEXT, VIDEO_AT(text), 0, 2, {NET_SIZE_OF(text_tokens), NET_SIZE_OF(text_width)}},
    {NET_IN_MASK, VIDEO_AT(text), 0, 1, {NET_SIZE_OF(text_tokens)}},
};

const struct net_def net_video_dit = {
    .name = "video_dit",
    .role = NET_EXPERT,
    NET_TABLES(fields, inputs),
    .check = check,
    .check_noise = check_noise,
    .record = record,
    .prefix = "vdit-",
    .presets = &presets,
    .null_text = NULL_TEXT,
    .last = "proj_out.",
    .modulation = NET_MODULATION_NONE,
};
