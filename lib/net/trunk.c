/* The layers that DiT and its relatives share: patches, positions, times, blocks, final layers. */
#include "net/trunk.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "tape/ops.h"

const struct init init_zero = {.kind = INIT_ZERO}, init_one = {.kind = INIT_ONE}, init_small = {.kind = INIT_NORMAL, .a = .02};

enum { FREQUENCIES = 256 };

double trunk_eps(const struct trunk_config *c)
{
	return c->norm_eps > 0 ? c->norm_eps : 1e-6;
}

/* Of the second norm of a block. */
static double second_eps(const struct trunk_config *c)
{
	return c->norm2_eps > 0 ? c->norm2_eps : trunk_eps(c);
}

struct init init_xavier(int64_t fan_in, int64_t fan_out)
{
	return (struct init){.kind = INIT_XAVIER, .a = (double)fan_in, .b = (double)fan_out};
}

static struct tensor *param(const struct trunk *k, const char *prefix, const char *suffix, int rank, const int64_t *shape,
                            int flags, struct init init)
{
	char name[96];

	snprintf(name, sizeof name, "%s%s", prefix, suffix);
	return tape_param(k->t, k->p, name, rank, shape, flags, init);
}

static struct tensor *linear(const struct trunk *k, struct tensor *x, const char *prefix, int64_t out, struct init init, int act,
                             int flags)
{
	int64_t shape[2] = {out, x->shape[x->rank - 1]};
	struct tensor *w = param(k, prefix, ".weight", 2, shape, PARAM_DECAY | flags, init);
	struct tensor *b = param(k, prefix, ".bias", 1, shape, 0, init_zero);

	return act < 0 ? op_linear(k->t, x, w, b) : op_linear_act(k->t, x, w, b, (enum unary)act);
}

struct tensor *trunk_linear(const struct trunk *k, struct tensor *x, const char *prefix, int64_t out, struct init init, int act)
{
	return linear(k, x, prefix, out, init, act, 0);
}

/* Of a block. The layers around the blocks, few and at the network's edges, where rounding costs most, are not PARAM_BULK. */
static struct tensor *bulk_linear(const struct trunk *k, struct tensor *x, const char *prefix, int64_t out, struct init init, int act)
{
	return linear(k, x, prefix, out, init, act, PARAM_BULK);
}

/* The fixed table of DiT: the first half of the width encodes the column, the second the row, each as sines then cosines of
 * scale pos / 10000^(k / (H / 4)), computed in double. */
void trunk_positions(float *out, const int64_t *shape, double scale)
{
	int64_t tokens = shape[1], hidden = shape[2], side = (int64_t)llround(sqrt((double)tokens)), quarter = hidden / 4;

	for (int64_t i = 0; i < tokens; i++)
		for (int64_t k = 0; k < quarter; k++) {
			double omega = scale * pow(10000, -(double)k / (double)quarter), col = (double)(i % side) * omega,
			       row = (double)(i / side) * omega;
			float *o = out + i * hidden;

			o[k] = (float)sin(col);
			o[quarter + k] = (float)cos(col);
			o[2 * quarter + k] = (float)sin(row);
			o[3 * quarter + k] = (float)cos(row);
		}
}

struct tensor *trunk_tokens(const struct trunk *k, struct tensor *x)
{
	const struct trunk_config *c = k->c;
	int64_t n = k->net->size / c->patch, p = c->patch, width = k->net->channels * p * p;
	int64_t split[6] = {x->shape[0], k->net->channels, n, p, n, p}, tokens[3] = {x->shape[0], n * n, width};
	int64_t conv[4] = {c->hidden, k->net->channels, p, p}, flat[2] = {c->hidden, width}, pos[3] = {1, n * n, c->hidden};
	static const int order[6] = {0, 2, 4, 1, 3, 5};
	struct tensor *w, *b, *h;

	w = param(k, k->names->patch, ".weight", 4, conv, PARAM_DECAY, init_xavier(width, c->hidden));
	b = param(k, k->names->patch, ".bias", 1, conv, 0, init_zero);
	h = op_reshape(k->t, op_permute(k->t, op_reshape(k->t, x, 6, split), order), 3, tokens);
	h = op_linear(k->t, h, op_reshape(k->t, w, 2, flat), b);
	return op_add(k->t, h, tape_param(k->t, k->p, "pos_embed", 3, pos, c->learned_positions ? 0 : PARAM_FROZEN,
	                                  (struct init){.kind = INIT_FILL, .a = c->position_scale > 0 ? c->position_scale : 1,
	                                                .fill = trunk_positions}));
}

struct tensor *trunk_time(const struct trunk *k, struct tensor *time)
{
	char name[96];
	double period = pow(10000, FREQUENCIES / 2 / (FREQUENCIES / 2 - k->c->time_shift));
	struct tensor *h = op_timestep(k->t, time, FREQUENCIES, period, k->net->time_scale);

	snprintf(name, sizeof name, "%s.0", k->names->time);
	h = trunk_linear(k, h, name, k->c->hidden, init_small, UNARY_SILU);
	snprintf(name, sizeof name, "%s.2", k->names->time);
	return trunk_linear(k, h, name, k->c->hidden, init_small, -1);
}

static const char *in_block(char *buf, size_t size, const char *format, int64_t block)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(buf, size, format, (int)block);
#pragma GCC diagnostic pop
	return buf;
}

static struct tensor *self_attention(const struct trunk *k, int64_t block, struct tensor *h)
{
	const struct trunk_config *c = k->c;
	int64_t width = c->hidden / c->heads, w_shape[2] = {3 * c->hidden, c->hidden};
	int64_t packed[5] = {h->shape[0], h->shape[1], 3, c->heads, width}, flat[3] = {h->shape[0], h->shape[1], c->hidden};
	struct tensor *w, *b, *qkv[3];
	char name[96];

	w = tape_param(k->t, k->p, in_block(name, sizeof name, k->names->qkv_weight, block), 2, w_shape, PARAM_DECAY | PARAM_BULK,
	               init_xavier(c->hidden, 3 * c->hidden));
	b = tape_param(k->t, k->p, in_block(name, sizeof name, k->names->qkv_bias, block), 1, w_shape, 0, init_zero);
	h = op_reshape(k->t, op_linear(k->t, h, w, b), 5, packed);
	op_unstack(k->t, h, 2, qkv);
	h = op_attention(k->t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)width), 0);
	in_block(name, sizeof name, k->names->proj, block);
	return bulk_linear(k, op_reshape(k->t, h, 3, flat), name, c->hidden, init_xavier(c->hidden, c->hidden), -1);
}

static struct tensor *mlp(const struct trunk *k, int64_t block, struct tensor *h)
{
	const struct trunk_config *c = k->c;
	int64_t wide = (int64_t)((double)c->hidden * c->mlp_ratio);
	char name[96];

	in_block(name, sizeof name, k->names->fc1, block);
	h = bulk_linear(k, h, name, wide, init_xavier(c->hidden, wide), UNARY_GELU_TANH);
	in_block(name, sizeof name, k->names->fc2, block);
	return bulk_linear(k, h, name, c->hidden, init_xavier(wide, c->hidden), -1);
}

struct tensor *trunk_block(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *act)
{
	struct tape *t = k->t;
	int64_t six[4] = {x->shape[0], 6, 1, k->c->hidden};
	struct tensor *m[6], *h; /* shift, scale, gate of attention; of the MLP: (B, 1, H) each */
	char name[96];

	tape_block_begin(t);
	in_block(name, sizeof name, k->names->modulation, block);
	op_unstack(t, op_reshape(t, bulk_linear(k, act, name, 6 * k->c->hidden, init_zero, -1), 4, six), 1, m);
	h = self_attention(k, block, op_norm(t, x, m[1], m[0], NORM_LAYER, trunk_eps(k->c), 1));
	x = op_gate(t, x, m[2], h);
	h = mlp(k, block, op_norm(t, x, m[4], m[3], NORM_LAYER, second_eps(k->c), 1));
	x = op_gate(t, x, m[5], h);
	tape_block_end(t);
	return x;
}

struct tensor *trunk_modulation(const struct trunk *k, struct tensor *time, const char *prefix)
{
	int64_t six[4] = {time->shape[0], 6, 1, k->c->hidden};
	struct tensor *h = op_unary(k->t, time, UNARY_SILU);

	return op_reshape(k->t, trunk_linear(k, h, prefix, 6 * k->c->hidden, init_small, -1), 4, six);
}

/* Queries, keys and values of a cross-attention whose three weights are one matrix, as torch.nn.MultiheadAttention has them. */
static void project_packed(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *text, struct tensor **qkv)
{
	int64_t h = k->c->hidden, w_shape[2] = {3 * h, h}, split[3] = {3, h, h}, bias[2] = {3, h};
	struct tensor *w, *b, *ws[3], *bs[3];
	char name[96];

	in_block(name, sizeof name, k->names->cross_weight, block);
	w = tape_param(k->t, k->p, name, 2, w_shape, PARAM_DECAY | PARAM_BULK | PARAM_THIRDS, init_xavier(h, 3 * h));
	in_block(name, sizeof name, k->names->cross_bias, block);
	b = tape_param(k->t, k->p, name, 1, w_shape, 0, init_zero);
	op_unstack(k->t, op_reshape(k->t, w, 3, split), 0, ws);
	op_unstack(k->t, op_reshape(k->t, b, 2, bias), 0, bs);
	for (int i = 0; i < 3; i++)
		qkv[i] = op_linear(k->t, i ? text : x, ws[i], bs[i]);
}

static void project_apart(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *text, struct tensor **qkv)
{
	int64_t h = k->c->hidden, split[4] = {text->shape[0], text->shape[1], 2, h};
	char name[96];

	in_block(name, sizeof name, k->names->cross_q, block);
	qkv[0] = bulk_linear(k, x, name, h, init_xavier(h, h), -1);
	in_block(name, sizeof name, k->names->cross_kv, block);
	text = bulk_linear(k, text, name, 2 * h, init_xavier(h, 2 * h), -1);
	op_unstack(k->t, op_reshape(k->t, text, 4, split), 2, qkv + 1);
}

static struct tensor *cross_attention(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *text,
                                      struct tensor *mask)
{
	const struct trunk_config *c = k->c;
	int64_t width = c->hidden / c->heads, one[4] = {text->shape[0], 1, 1, text->shape[1]};
	struct tensor *qkv[3], *h;
	char name[96];

	if (k->names->cross_weight)
		project_packed(k, block, x, text, qkv);
	else
		project_apart(k, block, x, text, qkv);
	for (int i = 0; i < 3; i++) {
		int64_t heads[4] = {x->shape[0], qkv[i]->shape[1], c->heads, width};

		qkv[i] = op_reshape(k->t, qkv[i], 4, heads);
	}
	h = op_attention_bias(k->t, qkv[0], qkv[1], qkv[2], mask ? op_reshape(k->t, mask, 4, one) : NULL, 1 / sqrt((double)width), 0);
	in_block(name, sizeof name, k->names->cross_proj, block);
	return bulk_linear(k, op_reshape(k->t, h, 3, x->shape), name, c->hidden, init_zero, -1);
}

/* Normal, of variance 1 / H. */
static struct tensor *modulation_table(const struct trunk *k, const char *name, int64_t rows)
{
	int64_t shape[2] = {rows, k->c->hidden};

	return tape_param(k->t, k->p, name, 2, shape, 0, (struct init){.kind = INIT_NORMAL, .a = 1 / sqrt((double)k->c->hidden)});
}

struct tensor *trunk_block_single(const struct trunk *k, int64_t block, struct tensor *x, struct tensor *modulation,
                                  struct tensor *text, struct tensor *mask)
{
	struct tape *t = k->t;
	int64_t six[3] = {6, 1, k->c->hidden};
	struct tensor *m[6], *h; /* as in trunk_block */
	char name[96];

	tape_block_begin(t);
	h = modulation_table(k, in_block(name, sizeof name, k->names->table, block), 6);
	op_unstack(t, op_add(t, modulation, op_reshape(t, h, 3, six)), 1, m);
	h = self_attention(k, block, op_norm(t, x, m[1], m[0], NORM_LAYER, trunk_eps(k->c), 1));
	x = op_gate(t, x, m[2], h);
	x = op_add(t, x, cross_attention(k, block, x, text, mask));
	h = mlp(k, block, op_norm(t, x, m[4], m[3], NORM_LAYER, second_eps(k->c), 1));
	x = op_gate(t, x, m[5], h);
	tape_block_end(t);
	return x;
}

struct tensor *trunk_final_single(const struct trunk *k, struct tensor *tokens, struct tensor *time)
{
	const struct trunk_config *c = k->c;
	int64_t one[3] = {time->shape[0], 1, c->hidden};
	struct tensor *row[2]; /* shift, scale */

	op_unstack(k->t, modulation_table(k, "final_layer.scale_shift_table", 2), 0, row);
	for (int i = 0; i < 2; i++)
		row[i] = op_reshape(k->t, op_add(k->t, time, row[i]), 3, one);
	tokens = op_norm(k->t, tokens, row[1], row[0], NORM_LAYER, trunk_eps(c), 1);
	return trunk_unpatchify(k, trunk_linear(k, tokens, "final_layer.linear", c->patch * c->patch * k->net->out_channels, init_zero, -1));
}

/* The channel is fastest here and slowest in the patch embedding. The copy is for patches of one pixel or of the whole picture,
 * which a view could express: the output is read as contiguous. */
struct tensor *trunk_unpatchify(const struct trunk *k, struct tensor *h)
{
	const struct trunk_config *c = k->c;
	int64_t n = k->net->size / c->patch, p = c->patch, b = h->shape[0];
	int64_t split[6] = {b, n, n, p, p, k->net->out_channels}, picture[4] = {b, k->net->out_channels, k->net->size, k->net->size};
	static const int order[6] = {0, 5, 1, 3, 2, 4};

	return op_reshape(k->t, op_copy(k->t, op_permute(k->t, op_reshape(k->t, h, 6, split), order)), 4, picture);
}
