/* The layers that DiT and its relatives share: patches, positions, times, blocks, final layers. */
#include "net/trunk.h"

#include <math.h>

#include "core/samemath.h"
#include "net/rotarytable.h"
#include "tape/ops.h"

enum { HALF_FREQUENCIES = 128 }; /* frequencies of layer_timestep */

double trunk_eps(const struct trunk_config *c)
{
	return c->norm_eps > 0 ? c->norm_eps : 1e-6;
}

/* Epsilon of the second norm of a block. */
static double second_eps(const struct trunk_config *c)
{
	return c->norm2_eps > 0 ? c->norm2_eps : trunk_eps(c);
}

/* DiT's fixed position table [1, T, H]. The first half of the channels encodes the column, the second half the row. Each half holds the sines,
 * then the cosines, of scale pos / 10000^(k / (H / 4)). Computed in double. */
static void positions_fill(float *out, const int64_t *shape, double scale)
{
	int64_t tokens = shape[1], hidden = shape[2], side = (int64_t)llround(sqrt((double)tokens)), quarter = hidden / 4;

	for (int64_t i = 0; i < tokens; i++)
		for (int64_t k = 0; k < quarter; k++) {
			double omega = scale * same_pow(10000, -(double)k / (double)quarter), col = (double)(i % side) * omega,
			       row = (double)(i / side) * omega;
			float *o = out + i * hidden;

			o[k] = (float)same_sin(col);
			o[quarter + k] = (float)same_cos(col);
			o[2 * quarter + k] = (float)same_sin(row);
			o[3 * quarter + k] = (float)same_cos(row);
		}
}

struct init trunk_positions(double scale)
{
	return (struct init){.kind = INIT_FILL, .a = scale, .fill = positions_fill};
}

static int64_t places(const struct net_config *c)
{
	int64_t side = c->size / trunk_config(c)->patch;

	return side * side;
}

struct trunk trunk_begin(struct tape *t, struct params *p, const struct net_config *c, const struct trunk_names *names)
{
	struct trunk k = {.l = {.t = t, .p = p}, .net = c, .c = trunk_config(c), .names = names, .frames = c->frames};
	struct rotary_axes axes = {.axes = 2, .size = {c->frames, places(c)}, .pairs = {k.c->hidden / k.c->heads / 2, 0}, .theta = 10000};

	if (k.frames)
		rotary_record(t, &axes, &k.cosine, &k.sine);
	return k;
}

/* Tensors of clips are computed on as pictures where frames do not meet: (B, F, ..) and (B F, ..) share their memory. */
static struct tensor *each_frame(const struct trunk *k, struct tensor *x)
{
	int64_t picture[4] = {x->shape[0] * k->frames, x->shape[2], x->shape[3], x->shape[4]};

	return op_reshape(k->l.t, x, 4, picture);
}

struct tensor *trunk_tokens(const struct trunk *k, struct tensor *x)
{
	const struct trunk_config *c = k->c;
	int64_t pos[3] = {1, places(k->net), c->hidden}, clip[3] = {x->shape[0], k->frames * pos[1], c->hidden};
	struct init positions = trunk_positions(c->position_scale > 0 ? c->position_scale : 1);
	struct linear patches = {.out = c->hidden};
	struct tensor *h;

	x = k->frames ? each_frame(k, x) : x;
	patches.init = init_xavier(x->shape[1] * c->patch * c->patch, c->hidden);
	h = layer_patches(&k->l, x, k->names->patch, c->patch, &patches);
	h = op_add(k->l.t, h, layer_param_init(&k->l, "pos_embed", 3, pos, c->learned_positions ? 0 : PARAM_FROZEN, positions));
	return tape_float(k->l.t, k->frames ? op_reshape(k->l.t, h, 3, clip) : h);
}

struct tensor *trunk_time(const struct trunk *k, struct tensor *time)
{
	return layer_timestep(&k->l, time, k->names->time, k->c->hidden, same_pow(10000, HALF_FREQUENCIES / (HALF_FREQUENCIES - k->c->time_shift)),
	                      k->net->time_scale);
}

static struct layers in_block(const struct trunk *k, int64_t block)
{
	return layers_in(&k->l, "%s.%d.", k->names->blocks, (int)block);
}

/* The width between the layers of an MLP. */
static int64_t wide(const struct trunk *k)
{
	return (int64_t)((double)k->c->hidden * k->c->mlp_ratio);
}

/* The layers of a block, and the time block's that follows it. */
struct kind {
	struct layers l;
	int across;            /* 1: attention across frames */
	struct init attn, mlp; /* the initial weights of the last layers of attention and MLP */
};

static struct kind space_kind(const struct trunk *k, int64_t block)
{
	int64_t n = k->c->hidden;

	return (struct kind){.l = in_block(k, block), .attn = init_xavier(n, n), .mlp = init_xavier(wide(k), n)};
}

/* gated: the initial gates are 0, so the layers need not be. */
static struct kind time_kind(const struct trunk *k, int64_t block, int gated)
{
	struct kind time = space_kind(k, block);

	time.l = layers_in(&k->l, TRUNK_TIME_BLOCKS "%d.", (int)block);
	time.across = 1;
	if (!gated)
		time.attn = time.mlp = init_zero;
	return time;
}

static struct tensor *self_attention(const struct trunk *k, const struct kind *b, struct tensor *h)
{
	int64_t n = k->c->hidden, frame[3] = {h->shape[0] * k->frames, k->frames ? h->shape[1] / k->frames : 0, n},
		tokens[3] = {h->shape[0], h->shape[1], n};
	struct attention a = {.weight = k->names->qkv_weight,
	                      .bias = k->names->qkv_bias,
	                      .out = k->names->proj,
	                      .heads = k->c->heads,
	                      .init = init_xavier(n, 3 * n),
	                      .out_init = b->attn};

	if (b->across) {
		a.cosine = k->cosine;
		a.sine = k->sine;
		a.frames = k->frames;
	} else if (k->frames) {
		h = op_reshape(k->l.t, h, 3, frame);
	}
	h = layer_attention(&b->l, h, &a);
	return k->frames ? op_reshape(k->l.t, h, 3, tokens) : h;
}

static struct tensor *mlp(const struct trunk *k, const struct kind *b, struct tensor *h)
{
	int64_t n = k->c->hidden, m = wide(k);

	h = layer_linear(&b->l, h, k->names->fc1, &(struct linear){.out = m, .act = UNARY_GELU_TANH + 1, .init = init_xavier(n, m)});
	return layer_linear(&b->l, h, k->names->fc2, &(struct linear){.out = n, .init = b->mlp});
}

static struct tensor *block_zero(const struct trunk *k, const struct kind *b, struct tensor *x, struct tensor *act)
{
	struct tape *t = k->l.t;
	int64_t six[4] = {x->shape[0], 6, 1, k->c->hidden};
	struct tensor *m[6], *h; /* m: shift, scale, gate of the attention, then of the MLP: (B, 1, H) each */

	tape_block_begin(t);
	h = layer_linear(&b->l, act, k->names->modulation, &(struct linear){.out = 6 * k->c->hidden, .init = init_zero});
	op_unstack(t, op_reshape(t, h, 4, six), 1, m);
	h = self_attention(k, b, op_norm(t, x, m[1], m[0], NORM_LAYER, trunk_eps(k->c), 1));
	x = tape_float(t, op_gate(t, x, m[2], h));
	h = mlp(k, b, op_norm(t, x, m[4], m[3], NORM_LAYER, second_eps(k->c), 1));
	x = tape_float(t, op_gate(t, x, m[5], h));
	tape_block_end(t);
	return x;
}

struct tensor *trunk_block(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *act)
{
	struct kind space = space_kind(k, block), time = time_kind(k, block, 1);

	x = block_zero(k, &space, x, act);
	return k->frames ? block_zero(k, &time, x, act) : x;
}

struct tensor *trunk_modulation(const struct trunk *k, struct tensor *time, const char *prefix)
{
	int64_t six[4] = {time->shape[0], 6, 1, k->c->hidden};
	struct tensor *h = op_unary(k->l.t, tape_float_grad(k->l.t, time), UNARY_SILU);

	h = layer_linear(&k->l, h, prefix, &(struct linear){.out = 6 * k->c->hidden, .edge = 1, .init = init_small});
	return tape_float_grad(k->l.t, op_reshape(k->l.t, h, 4, six));
}

/* Queries, keys and values of a cross-attention, from one packed weight [3 H, H] as in torch.nn.MultiheadAttention. */
static void project_packed(const struct trunk *k, const struct layers *l, struct tensor *x, struct tensor *text, struct tensor **qkv)
{
	int64_t h = k->c->hidden, w_shape[2] = {3 * h, h}, split[3] = {3, h, h}, bias[2] = {3, h};
	struct tensor *w, *b, *ws[3], *bs[3];

	w = layer_param_init(l, k->names->cross_weight, 2, w_shape, PARAM_DECAY | PARAM_BULK | PARAM_THIRDS, init_xavier(h, 3 * h));
	b = layer_param(l, k->names->cross_bias, 1, w_shape);
	op_unstack(l->t, op_reshape(l->t, w, 3, split), 0, ws);
	op_unstack(l->t, op_reshape(l->t, b, 2, bias), 0, bs);
	for (int i = 0; i < 3; i++)
		qkv[i] = op_linear(l->t, i ? text : x, ws[i], bs[i]);
}

/* The same from two layers: one for the queries, one for keys and values together. */
static void project_apart(const struct trunk *k, const struct layers *l, struct tensor *x, struct tensor *text, struct tensor **qkv)
{
	int64_t h = k->c->hidden, split[4] = {text->shape[0], text->shape[1], 2, h};

	qkv[0] = layer_linear(l, x, k->names->cross_q, &(struct linear){.out = h, .init = init_xavier(h, h)});
	text = layer_linear(l, text, k->names->cross_kv, &(struct linear){.out = 2 * h, .init = init_xavier(h, 2 * h)});
	op_unstack(l->t, op_reshape(l->t, text, 4, split), 2, qkv + 1);
}

static struct tensor *cross_attention(const struct trunk *k, const struct layers *l, struct tensor *x, struct tensor *text, struct tensor *mask)
{
	const struct trunk_config *c = k->c;
	struct tape *t = l->t;
	int64_t width = c->hidden / c->heads, one[4] = {text->shape[0], 1, 1, text->shape[1]};
	struct tensor *qkv[3], *h;

	(k->names->cross_weight ? project_packed : project_apart)(k, l, x, text, qkv);
	for (int i = 0; i < 3; i++) {
		int64_t heads[4] = {x->shape[0], qkv[i]->shape[1], c->heads, width};

		qkv[i] = op_reshape(t, qkv[i], 4, heads);
	}
	h = op_attention_bias(t, qkv[0], qkv[1], qkv[2], mask ? op_reshape(t, mask, 4, one) : NULL, 1 / sqrt((double)width), 0);
	return layer_linear(l, op_reshape(t, h, 3, x->shape), k->names->cross_proj, &(struct linear){.out = c->hidden, .init = init_zero});
}

/* A parameter (rows, H) with normal initial values of variance 1 / H. */
static struct tensor *modulation_table(const struct trunk *k, const struct layers *l, const char *name, int64_t rows)
{
	int64_t shape[2] = {rows, k->c->hidden};

	return layer_param_init(l, name, 2, shape, 0, (struct init){.kind = INIT_NORMAL, .a = 1 / sqrt((double)k->c->hidden)});
}

/* text: NULL without cross attention */
static struct tensor *block_single(const struct trunk *k, const struct kind *b, struct tensor *x, struct tensor *modulation, struct tensor *text,
                                   struct tensor *mask)
{
	struct tape *t = k->l.t;
	int64_t six[3] = {6, 1, k->c->hidden};
	struct tensor *m[6], *h; /* as in block_zero */

	tape_block_begin(t);
	h = modulation_table(k, &b->l, k->names->table, 6);
	op_unstack(t, op_add(t, modulation, op_reshape(t, h, 3, six)), 1, m);
	h = self_attention(k, b, op_norm(t, x, m[1], m[0], NORM_LAYER, trunk_eps(k->c), 1));
	x = tape_float(t, op_gate(t, x, m[2], h));
	if (text)
		x = tape_float(t, op_add(t, x, cross_attention(k, &b->l, x, text, mask)));
	h = mlp(k, b, op_norm(t, x, m[4], m[3], NORM_LAYER, second_eps(k->c), 1));
	x = tape_float(t, op_gate(t, x, m[5], h));
	tape_block_end(t);
	return x;
}

struct tensor *trunk_block_single(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *modulation, struct tensor *text,
                                  struct tensor *mask)
{
	struct kind space = space_kind(k, block), time = time_kind(k, block, 0);

	x = block_single(k, &space, x, modulation, text, mask);
	return k->frames ? block_single(k, &time, x, modulation, NULL, NULL) : x;
}

struct tensor *trunk_last(const struct trunk *k, struct tensor *tokens)
{
	int64_t width = k->c->patch * k->c->patch * k->net->out_channels;

	return layer_linear(&k->l, tokens, "final_layer.linear", &(struct linear){.out = width, .edge = 1, .init = init_zero});
}

struct tensor *trunk_final_single(const struct trunk *k, struct tensor *tokens, struct tensor *time)
{
	const struct trunk_config *c = k->c;
	int64_t one[3] = {time->shape[0], 1, c->hidden};
	struct tensor *row[2]; /* shift, scale */

	op_unstack(k->l.t, modulation_table(k, &k->l, "final_layer.scale_shift_table", 2), 0, row);
	for (int i = 0; i < 2; i++)
		row[i] = op_reshape(k->l.t, op_add(k->l.t, time, row[i]), 3, one);
	tokens = op_norm(k->l.t, tokens, row[1], row[0], NORM_LAYER, trunk_eps(c), 1);
	return trunk_unpatchify(k, trunk_last(k, tokens));
}

/* Within a token the channel varies fastest here, but slowest in the patch embedding. The output must be contiguous. op_copy is needed for patches
 * of one pixel or of the whole picture, where op_reshape alone would return a view. */
struct tensor *trunk_unpatchify(const struct trunk *k, struct tensor *h)
{
	const struct trunk_config *c = k->c;
	int64_t n = k->net->size / c->patch, p = c->patch, b = h->shape[0] * (k->frames ? k->frames : 1), size = k->net->size;
	int64_t split[6] = {b, n, n, p, p, k->net->out_channels}, shape[5] = {h->shape[0], k->frames};
	static const int order[6] = {0, 5, 1, 3, 2, 4};
	int rank = k->frames ? 2 : 1;

	shape[rank++] = k->net->out_channels;
	shape[rank++] = size;
	shape[rank++] = size;
	return op_reshape(k->l.t, op_copy(k->l.t, op_permute(k->l.t, op_reshape(k->l.t, h, 6, split), order)), rank, shape);
}
