/* Records AutoencoderKL, and holds the names that its tensors have in files of different origin. */
#include <math.h>

#include "net/autoencoder.h"

static const double EPS = 1e-6;

enum { SILU = UNARY_SILU + 1 };

static struct tensor *resnet(const struct layers *l, struct tensor *x, int64_t out, int64_t groups)
{
	struct tensor *h;

	h = layer_groupnorm(l, x, "norm1", groups, EPS, SILU);
	h = layer_conv3(l, h, "conv1", out, 0, NULL);
	h = layer_groupnorm(l, h, "norm2", groups, EPS, SILU);
	if (x->shape[3] != out)
		x = layer_conv1(l, x, "conv_shortcut", out, 0);
	return layer_conv3(l, h, "conv2", out, 0, x);
}

/* Self-attention with one head over all positions, with a norm before it and a residual. */
static struct tensor *attention(const struct layers *l, struct tensor *x, int64_t groups)
{
	struct tape *t = l->t;
	int64_t c = x->shape[3], heads[4] = {x->shape[0], x->shape[1] * x->shape[2], 1, c};
	static const char *const parts[3] = {"to_q", "to_k", "to_v"};
	struct linear same = {.out = c, .edge = 1};
	struct tensor *h, *qkv[3];

	h = layer_groupnorm(l, x, "group_norm", groups, EPS, 0);
	for (int i = 0; i < 3; i++)
		qkv[i] = op_reshape(t, layer_linear(l, h, parts[i], &same), 4, heads);
	h = op_reshape(t, op_attention(t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)c), 0), 4, x->shape);
	return op_add(t, layer_linear(l, h, "to_out.0", &same), x);
}

static struct tensor *middle(const struct layers *half, struct tensor *x, const struct autoencoder_config *c)
{
	struct layers first = layers_in(half, "mid_block.resnets.0."), look = layers_in(half, "mid_block.attentions.0.");
	struct layers second = layers_in(half, "mid_block.resnets.1.");

	x = resnet(&first, x, x->shape[3], c->groups);
	if (c->attention)
		x = attention(&look, x, c->groups);
	return resnet(&second, x, x->shape[3], c->groups);
}

static struct tensor *last(const struct layers *half, struct tensor *x, int64_t groups, int64_t out)
{
	x = layer_groupnorm(half, x, "conv_norm_out", groups, EPS, SILU);
	return layer_conv3(half, x, "conv_out", out, 0, NULL);
}

void autokl_encoder(struct recording *r, const void *config, const int64_t *size)
{
	const struct autoencoder_config *c = config;
	struct layers encoder = layers_in(&r->l, "encoder.");
	struct tensor *x = channels_last(r->l.t, recording_input(r, DT_F32, 3, size, 1));

	x = layer_conv3(&encoder, x, "conv_in", c->width[0], 0, NULL);
	for (int64_t i = 0; i < c->stages; i++) {
		struct layers down = layers_in(&encoder, "down_blocks.%d.", (int)i);

		for (int64_t j = 0; j < c->layers; j++) {
			struct layers l = layers_in(&down, "resnets.%d.", (int)j);

			x = resnet(&l, x, c->width[i], c->groups);
		}
		if (i + 1 < c->stages)
			x = layer_conv(&down, x, "downsamplers.0.conv",
			               &(struct conv){.out = c->width[i], .kh = 3, .stride = 2, .pad = {0, 0, 1, 1}});
	}
	x = last(&encoder, middle(&encoder, x, c), c->groups, 2 * c->latent_channels);
	if (c->quant_conv)
		x = layer_conv1(&r->l, x, "quant_conv", 2 * c->latent_channels, 0);
	recording_output(r, channels_first(r->l.t, x));
}

void autokl_decoder(struct recording *r, const void *config, const int64_t *size)
{
	const struct autoencoder_config *c = config;
	struct layers decoder = layers_in(&r->l, "decoder.");
	struct tensor *z = channels_last(r->l.t, recording_input(r, DT_F32, 3, size, 1));

	if (c->post_quant_conv)
		z = layer_conv1(&r->l, z, "post_quant_conv", c->latent_channels, 0);
	z = middle(&decoder, layer_conv3(&decoder, z, "conv_in", c->width[c->stages - 1], 0, NULL), c);
	for (int64_t i = 0; i < c->stages; i++) {
		struct layers up = layers_in(&decoder, "up_blocks.%d.", (int)i);
		int64_t width = c->width[c->stages - 1 - i];

		for (int64_t j = 0; j <= c->layers; j++) {
			struct layers l = layers_in(&up, "resnets.%d.", (int)j);

			z = resnet(&l, z, width, c->groups);
		}
		if (i + 1 < c->stages)
			z = layer_conv3(&up, op_upsample_nearest(r->l.t, z), "upsamplers.0.conv", width, 0, NULL);
	}
	recording_output(r, channels_first(r->l.t, last(&decoder, z, c->groups, c->out_channels)));
}

/* ---- names ---- */

#define ATTENTION(half) half ".mid_block.attentions.0."
/* clang-format off */
#define MATRIX(half, ours, theirs) \
	{ATTENTION(half) ours ".weight", {half theirs ".weight"}, RENAME_POINTWISE}, {ATTENTION(half) ours ".bias", {half theirs ".bias"}, 0}
/* clang-format on */
#define MATRICES(half, under, q, k, v, out) \
	MATRIX(half, "to_q", under q), MATRIX(half, "to_k", under k), MATRIX(half, "to_v", under v), MATRIX(half, "to_out.0", under out)

/* The names in diffusers' files, of newer and older versions. */
#define NEW(half) MATRICES(half, ".mid_block.attentions.0.", "to_q", "to_k", "to_v", "to_out.0")
#define OLD(half) MATRICES(half, ".mid_block.attentions.0.", "query", "key", "value", "proj_attn")
/* The names in a single file of latent-diffusion. */
/* clang-format off */
#define SINGLE(half) \
	MATRICES(half, ".mid.attn_1.", "q", "k", "v", "proj_out"), {ATTENTION(half) "group_norm.*", {half ".mid.attn_1.norm.*"}, 0}, \
	{half ".mid_block.resnets.0.*", {half ".mid.block_1.*"}, 0}, {half ".mid_block.resnets.1.*", {half ".mid.block_2.*"}, 0}, \
	{half ".conv_norm_out.*", {half ".norm_out.*"}, 0}
/* clang-format on */

static const struct rename new_encoder[] = {NEW("encoder")}, old_encoder[] = {OLD("encoder")};
static const struct rename new_decoder[] = {NEW("decoder")}, old_decoder[] = {OLD("decoder")};
static const struct rename single_encoder[] = {
    SINGLE("encoder"),
    {"encoder.down_blocks.#.resnets.#.conv_shortcut.*", {"encoder.down.#.block.#.nin_shortcut.*"}, 0},
    {"encoder.down_blocks.#.resnets.#.*", {"encoder.down.#.block.#.*"}, 0},
    {"encoder.down_blocks.#.downsamplers.0.*", {"encoder.down.#.downsample.*"}, 0},
};
/* In these files the decoder's stage 0 is the one next to the picture. */
static const struct rename single_decoder[] = {
    SINGLE("decoder"),
    {"decoder.up_blocks.#.resnets.#.conv_shortcut.*", {"decoder.up.~.block.#.nin_shortcut.*"}, 0},
    {"decoder.up_blocks.#.resnets.#.*", {"decoder.up.~.block.#.*"}, 0},
    {"decoder.up_blocks.#.upsamplers.0.*", {"decoder.up.~.upsample.*"}, 0},
};

static const char *const own_encoder[] = {"encoder.*", "quant_conv.*", NULL}, *const own_decoder[] = {"decoder.*", "post_quant_conv.*", NULL};

/* clang-format off */
#define FAMILY(signed_by, rules, owned) {.sign = signed_by, .v = rules, .n = sizeof rules / sizeof *rules, .own = owned}
/* clang-format on */
static const struct renames families[2][3] = {
    {FAMILY("encoder.mid_block.attentions.0.query.weight", old_encoder, own_encoder),
     FAMILY("encoder.mid.block_1.norm1.weight", single_encoder, own_encoder), FAMILY("encoder.conv_in.weight", new_encoder, own_encoder)},
    {FAMILY("decoder.mid_block.attentions.0.query.weight", old_decoder, own_decoder),
     FAMILY("decoder.mid.block_1.norm1.weight", single_decoder, own_decoder), FAMILY("decoder.conv_in.weight", new_decoder, own_decoder)},
};

int autokl_names(const struct autoencoder_config *c, int half, struct renames *out)
{
	static const char *const prefixes[] = {"", "first_stage_model.", "vae."};
	int n = 0;

	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
		for (int i = 0; i < 3; i++) {
			out[n] = families[half == AUTOENCODER_DECODE][i];
			out[n].prefix = prefixes[k];
			out[n].first = c->stages - 1;
			out[n++].step = -1;
		}
	return n;
}
