/* Records the autoencoder of Wan 2.1 (diffusers' AutoencoderKLWan), whose convolutions in time see only the past.
 *
 * Frames are (T, H, W, C) tensors. The first frame of a clip is a frame of latents by itself, each later frame of latents stands for t frames, so
 * there are two stages: the first frame, and n frames of latents after it. A convolution over three frames keeps the last two frames of its input as
 * a state. What the networks do in time consists of these convolutions alone, so the pieces are exact. */
#include <math.h>
#include <stdio.h>

#include "net/autoencoder.h"

enum { SILU = UNARY_SILU + 1, STATES = RUNNER_INPUTS };

/* A network in recording. The second stage meets the states in the order in which the first one made them. */
struct wan {
	struct recording *c;
	int later; /* 0: the first stage */
	int states;
	struct tensor *state[STATES];
};

/* The next state, of `frames` frames like those of x. */
static struct tensor *next_state(struct wan *n, const struct tensor *x, int64_t frames)
{
	if (!n->later)
		n->state[n->states] = recording_state(n->c, 4, (int64_t[]){frames, x->shape[1], x->shape[2], x->shape[3]});
	return n->state[n->states++];
}

/* The state (1, k, H, W, C) and after it the frames of x: (1, k + T, H, W, C). */
static struct tensor *after(struct wan *n, struct tensor *state, struct tensor *x)
{
	int64_t clip[5] = {1, x->shape[0], x->shape[1], x->shape[2], x->shape[3]};
	struct tape *t = n->c->l.t;

	return op_concat(t, 1, 2, (struct tensor *[]){state, op_reshape(t, x, 5, clip)});
}

/* Frames [from, from + count) of (1, .., H, W, C), as (count, H, W, C). */
static struct tensor *frames(struct tape *t, struct tensor *all, int64_t from, int64_t count)
{
	int64_t shape[4] = {count, all->shape[2], all->shape[3], all->shape[4]};

	return op_reshape(t, op_slice(t, all, 1, from, count), 4, shape);
}

/* The weights of NAME by frame of the kernel, and its bias. */
static struct tensor *kernel(const struct layers *l, const char *name, int64_t out, int64_t side, int64_t in, struct tensor *w[3])
{
	char weight[64], bias[64];

	snprintf(weight, sizeof weight, "%s.weight", name);
	snprintf(bias, sizeof bias, "%s.bias", name);
	op_unstack(l->t, layer_param_init(l, weight, 5, (int64_t[]){3, out, side, side, in}, PARAM_CONV3D, init_zero), 0, w);
	return layer_param(l, bias, 1, &out);
}

/* A convolution of 3 x side x side. It is three convolutions of side x side that add to each other: the frames need not be stacked, which would take
 * three times their memory, and with 3 x 3 they run as Winograd's. In the first stage the frames before are zeros, and two of them are left out. */
static struct tensor *causal(struct wan *n, const struct layers *l, struct tensor *x, const char *name, int64_t out, int64_t side, struct tensor *add)
{
	const struct padding pad = {side / 2, side / 2, side / 2, side / 2};
	int64_t t = x->shape[0];
	struct tensor *w[3], *bias = kernel(l, name, out, side, x->shape[3], w), *state = next_state(n, x, 2), *all = after(n, state, x), *y = add;

	recording_carry(n->c, state, op_slice(l->t, all, 1, t, 2));
	for (int64_t k = n->later ? 0 : 2; k < 2; k++)
		y = op_conv(l->t, frames(l->t, all, k, t), w[k], NULL, y, 1, pad, 0);
	return op_conv(l->t, x, w[2], bias, y, 1, pad, 0);
}

/* x / |x| sqrt(C) gamma, where |x| is at least 1e-12. */
static struct tensor *norm(const struct layers *l, struct tensor *x, const char *name)
{
	int64_t width = x->shape[3];
	char gamma[64];

	snprintf(gamma, sizeof gamma, "%s.gamma", name);
	return op_norm(l->t, x, layer_param_init(l, gamma, 1, &width, 0, init_one), NULL, NORM_RMS, 1e-24 / (double)width, 0);
}

static struct tensor *activated(const struct layers *l, struct tensor *x, const char *name)
{
	return op_unary(l->t, norm(l, x, name), UNARY_SILU);
}

static struct tensor *resnet(struct wan *n, const struct layers *l, struct tensor *x, int64_t out)
{
	struct tensor *h = causal(n, l, activated(l, x, "norm1"), "conv1", out, 3, NULL);

	if (x->shape[3] != out)
		x = layer_linear(l, x, "conv_shortcut", &(struct linear){.out = out, .edge = 1});
	return causal(n, l, activated(l, h, "norm2"), "conv2", out, 3, x);
}

/* Self-attention with one head over the positions of each frame, with a norm before it and a residual. */
static struct tensor *attention(const struct layers *l, struct tensor *x)
{
	struct tape *t = l->t;
	int64_t width = x->shape[3], packed[5] = {x->shape[0], x->shape[1] * x->shape[2], 3, 1, width};
	struct tensor *qkv[3], *h = layer_linear(l, norm(l, x, "norm"), "to_qkv", &(struct linear){.out = 3 * width});

	op_unstack(t, op_reshape(t, h, 5, packed), 2, qkv);
	h = op_reshape(t, op_attention(t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)width), 0), 4, x->shape);
	return op_add(t, layer_linear(l, h, "proj", &(struct linear){.out = width}), x);
}

static struct tensor *middle(struct wan *n, const struct layers *half, struct tensor *x)
{
	struct layers first = layers_in(half, "mid_block.resnets.0."), look = layers_in(half, "mid_block.attentions.0.");
	struct layers second = layers_in(half, "mid_block.resnets.1.");

	x = attention(&look, resnet(n, &first, x, x->shape[3]));
	return resnet(n, &second, x, x->shape[3]);
}

/* Halve the height and width, and, with `time`, join two frames to one by a convolution of three frames at every second one. The first frame of a
 * clip stays. */
static struct tensor *downsample(struct wan *n, const struct layers *l, struct tensor *x, int time)
{
	struct tape *t = l->t;
	int64_t c = x->shape[3], half[6] = {1, x->shape[0] / 2, 2, 0, 0, c};
	struct tensor *w[3], *bias, *state, *all, *even[2], *odd[2], *y;

	x = layer_conv(l, x, "resample.1", &(struct conv){.out = c, .kh = 3, .stride = 2, .pad = {0, 0, 1, 1}});
	if (!time)
		return x;
	state = next_state(n, x, 1);
	if (!n->later) {
		recording_carry(n->c, state, op_reshape(t, x, 5, state->shape));
		return x;
	}
	bias = kernel(l, "time_conv", c, 1, c, w);
	half[3] = x->shape[1];
	half[4] = x->shape[2];
	all = after(n, state, x);
	recording_carry(n->c, state, op_slice(t, all, 1, x->shape[0], 1));
	op_unstack(t, op_reshape(t, op_slice(t, all, 1, 0, x->shape[0]), 6, half), 2, even);
	op_unstack(t, op_reshape(t, x, 6, half), 2, odd);
	y = op_conv(t, op_reshape(t, even[0], 4, (int64_t[]){half[1], half[3], half[4], c}), w[0], NULL, NULL, 1, (struct padding){0}, 0);
	y = op_conv(t, op_reshape(t, even[1], 4, (int64_t[]){half[1], half[3], half[4], c}), w[1], NULL, y, 1, (struct padding){0}, 0);
	return op_conv(t, op_reshape(t, odd[1], 4, (int64_t[]){half[1], half[3], half[4], c}), w[2], bias, y, 1, (struct padding){0}, 0);
}

/* Make two frames of each, with `time`, but of the first frame of a clip one; then double the height and width, and halve the channels. */
static struct tensor *upsample(struct wan *n, const struct layers *l, struct tensor *x, int time)
{
	static const int order[5] = {0, 3, 1, 2, 4};
	struct tape *t = l->t;
	int64_t c = x->shape[3], apart[5] = {x->shape[0], x->shape[1], x->shape[2], 2, c}, grown[4] = {2 * x->shape[0], x->shape[1], x->shape[2], c};

	/* The state is not carried in the first stage: the convolution sees zeros in place of the first frame, too. */
	if (time && n->later) {
		x = causal(n, l, x, "time_conv", 2 * c, 1, NULL);
		x = op_reshape(t, op_permute(t, op_reshape(t, x, 5, apart), order), 4, grown);
	} else if (time) {
		next_state(n, x, 2);
	}
	return layer_conv3(l, op_upsample_nearest(t, x), "resample.1", c / 2, 0, NULL);
}

/* (T, C, H, W) of the next input, (1, T, C, H, W). */
static struct tensor *clip_in(struct recording *c, int64_t count, int64_t channels, const int64_t *size)
{
	return recording_input(c, DT_F32, 4, (int64_t[]){count, channels, size[1], size[2]}, 1);
}

static struct tensor *last_first(struct tape *t, struct tensor *x)
{
	return channels_last(t, op_reshape(t, x, 4, x->shape + 1));
}

static struct tensor *head(struct wan *n, const struct layers *half, struct tensor *x, int64_t out)
{
	return causal(n, half, activated(half, x, "norm_out"), "conv_out", out, 3, NULL);
}

static void encode(struct wan *n, const struct autoencoder_config *a, struct tensor *in)
{
	struct layers half = layers_in(&n->c->l, "encoder.");
	struct tensor *x = causal(n, &half, last_first(half.t, in), "conv_in", a->width[0], 3, NULL);
	int at = 0;

	for (int64_t i = 0; i < a->stages; i++) {
		for (int64_t j = 0; j < a->layers; j++) {
			struct layers l = layers_in(&half, "down_blocks.%d.", at++);

			x = resnet(n, &l, x, a->width[i]);
		}
		if (i + 1 < a->stages) {
			struct layers l = layers_in(&half, "down_blocks.%d.", at++);

			x = downsample(n, &l, x, a->pool[i] == 2);
		}
	}
	x = head(n, &half, middle(n, &half, x), 2 * a->latent_channels);
	x = layer_linear(&n->c->l, x, "quant_conv", &(struct linear){.out = 2 * a->latent_channels, .edge = 1});
	recording_output(n->c, channels_first(half.t, x));
	recording_stage(n->c);
}

static void decode(struct wan *n, const struct autoencoder_config *a, struct tensor *in)
{
	struct layers half = layers_in(&n->c->l, "decoder.");
	int64_t top = a->decoder_width[a->stages - 1];
	struct tensor *x = layer_linear(&n->c->l, last_first(half.t, in), "post_quant_conv", &(struct linear){.out = a->latent_channels, .edge = 1});

	x = middle(n, &half, causal(n, &half, x, "conv_in", top, 3, NULL));
	for (int64_t i = 0; i < a->stages; i++) {
		struct layers block = layers_in(&half, "up_blocks.%d.", (int)i), up = layers_in(&block, "upsamplers.0.");

		for (int64_t j = 0; j <= a->layers; j++) {
			struct layers l = layers_in(&block, "resnets.%d.", (int)j);

			x = resnet(n, &l, x, a->decoder_width[a->stages - 1 - i]);
		}
		if (i + 1 < a->stages)
			x = upsample(n, &up, x, a->grow[i] == 2);
	}
	recording_output(n->c, channels_first(half.t, head(n, &half, x, a->out_channels)));
	recording_stage(n->c);
}

static void record(struct recording *c, const struct autoencoder_config *a, int64_t channels, int64_t each, const int64_t *size,
                   void (*half)(struct wan *n, const struct autoencoder_config *a, struct tensor *in))
{
	struct tensor *first = clip_in(c, 1, channels, size), *others = clip_in(c, size[0] * each, channels, size);
	struct wan n = {.c = c};

	half(&n, a, first);
	n.later = 1;
	n.states = 0;
	half(&n, a, others);
}

void wanvae_encoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;

	record(c, a, a->in_channels, autoencoder_time_factor(a), size, encode);
}

void wanvae_decoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;

	record(c, a, a->latent_channels, 1, size, decode);
}

/* ---- names ---- */

int wanvae_names(const struct autoencoder_config *c, int half, struct renames *out)
{
	static const struct rename rules[] = {
	    {"*.gamma", {"*.gamma"}, RENAME_FLAT},
	    {"*.conv_shortcut.weight", {"*.conv_shortcut.weight"}, RENAME_POINTWISE},
	    {"*.to_qkv.weight", {"*.to_qkv.weight"}, RENAME_POINTWISE},
	    {"*.proj.weight", {"*.proj.weight"}, RENAME_POINTWISE},
	    {"quant_conv.weight", {"quant_conv.weight"}, RENAME_POINTWISE},
	    {"post_quant_conv.weight", {"post_quant_conv.weight"}, RENAME_POINTWISE},
	};
	static const char *const own[2][3] = {{"encoder.*", "quant_conv.*", NULL}, {"decoder.*", "post_quant_conv.*", NULL}};

	(void)c;
	*out = (struct renames){.v = rules, .n = sizeof rules / sizeof *rules, .own = own[half == AUTOENCODER_DECODE]};
	return 1;
}
