/* Records the layers that networks share. */
#include "net/layers.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FREQUENCIES = 256 };

const struct init init_zero = {.kind = INIT_ZERO}, init_one = {.kind = INIT_ONE}, init_small = {.kind = INIT_NORMAL, .a = .02};

struct init init_xavier(int64_t fan_in, int64_t fan_out)
{
	return (struct init){.kind = INIT_XAVIER, .a = (double)fan_in, .b = (double)fan_out};
}

struct layers layers_in(const struct layers *l, const char *format, ...)
{
	struct layers inner = *l;
	size_t n = strlen(l->scope);
	va_list ap;
	int more;

	va_start(ap, format);
	more = vsnprintf(inner.scope + n, sizeof inner.scope - n, format, ap);
	va_end(ap);
	assert(more >= 0 && (size_t)more < sizeof inner.scope - n);
	(void)more;
	return inner;
}

static struct tensor *make_param(const struct layers *l, const char *name, const char *suffix, int rank, const int64_t *shape, int flags,
                                 struct init init)
{
	char whole[sizeof((struct param *)0)->name];
	int n = snprintf(whole, sizeof whole, "%s%s%s", l->scope, name, suffix);

	assert(n >= 0 && (size_t)n < sizeof whole);
	(void)n;
	return tape_param(l->t, l->p, whole, rank, shape, flags, init);
}

static struct tensor *param(const struct layers *l, const char *name, const char *suffix, int rank, const int64_t *shape, int flags)
{
	return make_param(l, name, suffix, rank, shape, flags, (struct init){.kind = INIT_ZERO});
}

static struct tensor *scale(const struct layers *l, const char *name, const int64_t *channels)
{
	return make_param(l, name, ".weight", 1, channels, 0, (struct init){.kind = INIT_ONE});
}

struct tensor *layer_param(const struct layers *l, const char *name, int rank, const int64_t *shape)
{
	return param(l, name, "", rank, shape, 0);
}

struct tensor *layer_param_init(const struct layers *l, const char *name, int rank, const int64_t *shape, int flags, struct init init)
{
	return make_param(l, name, "", rank, shape, flags, init);
}

struct tensor *layer_linear(const struct layers *l, struct tensor *x, const char *name, const struct linear *o)
{
	int64_t shape[2] = {o->out, x->shape[x->rank - 1]};
	struct tensor *w = make_param(l, name, ".weight", 2, shape, PARAM_DECAY | (o->edge ? 0 : PARAM_BULK), o->init), *b = NULL;

	if (!o->no_bias)
		b = param(l, name, ".bias", 1, shape, 0);
	return o->act ? op_linear_act(l->t, x, w, b, (enum unary)(o->act - 1)) : op_linear(l->t, x, w, b);
}

struct tensor *layer_norm(const struct layers *l, struct tensor *x, const char *name, double eps)
{
	int64_t n = x->shape[x->rank - 1];
	struct tensor *w = scale(l, name, &n), *b = param(l, name, ".bias", 1, &n, 0);

	return op_norm(l->t, x, w, b, NORM_LAYER, eps, 0);
}

struct tensor *layer_rms(const struct layers *l, struct tensor *x, const char *name, double eps)
{
	return op_norm(l->t, x, scale(l, name, &x->shape[x->rank - 1]), NULL, NORM_RMS, eps, 0);
}

struct tensor *layer_groupnorm(const struct layers *l, struct tensor *x, const char *name, int64_t groups, double eps, int act)
{
	int64_t n = x->shape[x->rank - 1];
	struct tensor *w = scale(l, name, &n), *b = param(l, name, ".bias", 1, &n, 0);

	return op_groupnorm(l->t, x, w, b, groups, eps, act);
}

struct tensor *layer_patches(const struct layers *l, struct tensor *x, const char *name, int64_t patch, const struct linear *o)
{
	int64_t b = x->shape[0], c = x->shape[1], n = x->shape[2] / patch, width = c * patch * patch;
	int64_t split[6] = {b, c, n, patch, n, patch}, tokens[3] = {b, n * n, width}, shape[4] = {o->out, c, patch, patch};
	int64_t flat[2] = {o->out, width};
	static const int order[6] = {0, 2, 4, 1, 3, 5};
	struct tensor *w = make_param(l, name, ".weight", 4, shape, PARAM_DECAY, o->init), *v = NULL;

	if (!o->no_bias)
		v = param(l, name, ".bias", 1, shape, 0);
	x = op_reshape(l->t, op_permute(l->t, op_reshape(l->t, x, 6, split), order), 3, tokens);
	return op_linear(l->t, x, op_reshape(l->t, w, 2, flat), v);
}

struct tensor *layer_timestep(const struct layers *l, struct tensor *numbers, const char *name, int64_t width, double period, double scale)
{
	struct layers both = layers_in(l, "%s.", name);
	struct tensor *h = op_timestep(l->t, numbers, FREQUENCIES, period, scale);

	h = layer_linear(&both, h, "0", &(struct linear){.out = width, .act = UNARY_SILU + 1, .edge = 1, .init = init_small});
	return layer_linear(&both, h, "2", &(struct linear){.out = width, .edge = 1, .init = init_small});
}

/* Queries of the first `queries` tokens, and keys and values of all tokens, each by its third of the packed matrix. */
static void project_apart(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *b, int64_t heads, int64_t queries, struct tensor **qkv)
{
	int64_t h = x->shape[2], split[3] = {3, h, h}, bias[2] = {3, h};
	struct tensor *ws[3], *bs[3];

	op_unstack(t, op_reshape(t, w, 3, split), 0, ws);
	op_unstack(t, op_reshape(t, b, 2, bias), 0, bs);
	for (int i = 0; i < 3; i++) {
		struct tensor *rows = i ? x : op_slice(t, x, 1, 0, queries);
		int64_t of_heads[4] = {x->shape[0], rows->shape[1], heads, h / heads};

		qkv[i] = op_reshape(t, op_linear(t, rows, ws[i], bs[i]), 4, of_heads);
	}
}

/* Turn queries and keys by the positions of their tokens. Put tokens of one place in a frame together: (B, frames, T / frames heads, width). */
static void arrange(struct tape *t, const struct attention *a, struct tensor **qkv)
{
	const int64_t *had = qkv[0]->shape;
	int64_t across[4] = {had[0], a->frames, a->frames ? had[1] / a->frames * had[2] : 0, had[3]};

	for (int i = 0; i < 2 && a->cosine; i++)
		qkv[i] = op_rotary(t, qkv[i], a->cosine, a->sine, ROTARY_ADJACENT);
	for (int i = 0; i < 3 && a->frames; i++)
		qkv[i] = op_reshape(t, qkv[i], 4, across);
}

struct tensor *layer_attention(const struct layers *l, struct tensor *x, const struct attention *a)
{
	struct tape *t = l->t;
	int64_t h = x->shape[2], width = h / a->heads, shape[2] = {3 * h, h}, packed[5] = {x->shape[0], x->shape[1], 3, a->heads, width};
	int64_t queries = a->queries ? a->queries : x->shape[1], out[3] = {x->shape[0], queries, h};
	int apart = queries < x->shape[1];
	struct tensor *w = make_param(l, a->weight, "", 2, shape, PARAM_DECAY | PARAM_BULK | PARAM_QKV | (apart ? PARAM_THIRDS : 0), a->init);
	struct tensor *b = param(l, a->bias, "", 1, shape, 0), *qkv[3], *y;

	assert(!apart || !(a->causal || a->cosine || a->frames));
	if (apart)
		project_apart(t, x, w, b, a->heads, queries, qkv);
	else
		op_unstack(t, op_reshape(t, op_linear(t, x, w, b), 5, packed), 2, qkv);
	arrange(t, a, qkv);
	y = op_attention(t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)width), a->causal);
	return layer_linear(l, op_reshape(t, y, 3, out), a->out, &(struct linear){.out = h, .init = a->out_init});
}

struct tensor *layer_conv(const struct layers *l, struct tensor *x, const char *name, const struct conv *c)
{
	int64_t shape[4] = {c->out, c->kh, c->kw ? c->kw : c->kh, x->shape[3]};
	struct tensor *w = make_param(l, name, ".weight", 4, shape, PARAM_DECAY | PARAM_CONV, c->init), *b = NULL;

	if (!c->no_bias)
		b = param(l, name, ".bias", 1, shape, 0);
	return (c->many ? op_conv_many : op_conv)(l->t, x, w, b, c->add, c->stride ? c->stride : 1, c->pad, c->act);
}

struct tensor *layer_conv3(const struct layers *l, struct tensor *x, const char *name, int64_t out, int act, struct tensor *add)
{
	return layer_conv(l, x, name, &(struct conv){.out = out, .kh = 3, .pad = {1, 1, 1, 1}, .act = act, .add = add});
}

struct tensor *layer_conv1(const struct layers *l, struct tensor *x, const char *name, int64_t out, int act)
{
	return layer_conv(l, x, name, &(struct conv){.out = out, .kh = 1, .act = act});
}

struct tensor *layer_conv_next(const struct layers *l, int *at, struct tensor *x, int64_t out, int64_t stride, int bias, int act)
{
	char name[24];

	snprintf(name, sizeof name, "%d", (*at)++);
	return layer_conv(l, x, name, &(struct conv){.out = out, .kh = 3, .stride = stride, .pad = {1, 1, 1, 1}, .no_bias = !bias, .act = act});
}

struct tensor *channels_last(struct tape *t, struct tensor *x)
{
	static const int order[4] = {0, 2, 3, 1};

	return op_copy(t, op_permute(t, x, order));
}

struct tensor *channels_first(struct tape *t, struct tensor *x)
{
	static const int order[4] = {0, 3, 1, 2};

	return op_copy(t, op_permute(t, x, order));
}

struct tensor *patches_last(struct tape *t, struct tensor *x, int64_t p)
{
	int64_t b = x->shape[0], c = x->shape[1], n = x->shape[2] / p, split[6] = {b, c, n, p, n, p}, folded[4] = {b, n, n, p * p * c};
	static const int order[6] = {0, 2, 4, 3, 5, 1};

	if (p == 1)
		return channels_last(t, x);
	return op_reshape(t, op_copy(t, op_permute(t, op_reshape(t, x, 6, split), order)), 4, folded);
}

struct tensor *patches_first(struct tape *t, struct tensor *x, int64_t p)
{
	int64_t b = x->shape[0], n = x->shape[1], c = x->shape[3] / (p * p), split[6] = {b, n, n, p, p, c}, whole[4] = {b, c, n * p, n * p};
	static const int order[6] = {0, 5, 1, 3, 2, 4};

	if (p == 1)
		return channels_first(t, x);
	return op_reshape(t, op_copy(t, op_permute(t, op_reshape(t, x, 6, split), order)), 4, whole);
}
