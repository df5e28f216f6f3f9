/* Records the tiny autoencoders: 3 x 3 convolutions, numbered in order (https://github.com/madebyollin/taesd). Their pictures are in [0, 1]. The
 * caller scales to and from [-1, 1], so that the zero padding of the first convolution means black. */
#include <string.h>

#include "net/autoencoder.h"

enum { RELU = UNARY_RELU + 1, POOL_GROUPS = 4, POOL_WIDTH = 4 };

struct row {                /* a sequence of numbered layers */
	struct layers half; /* the scope of the encoder or decoder */
	int at;             /* number of the next layer */
};

static struct tensor *conv(struct row *r, struct tensor *x, int64_t out, int64_t stride, int bias, int act)
{
	return layer_conv_next(&r->half, &r->at, x, out, stride, bias, act);
}

/* x + conv(ReLU(group norm(conv(x)))), where the inner convolution widens x. In the middle of FLUX.2's tiny autoencoder. */
static struct tensor *normalised(const struct layers *l, struct tensor *x)
{
	int64_t n = x->shape[3];
	struct tensor *h;

	h = layer_conv(l, x, "pool.0", &(struct conv){.out = POOL_WIDTH * n, .kh = 1, .no_bias = 1});
	h = layer_groupnorm(l, h, "pool.1", POOL_GROUPS, 1e-5, RELU);
	return layer_conv(l, h, "pool.3", &(struct conv){.out = n, .kh = 1, .no_bias = 1, .add = x});
}

static struct tensor *block(struct row *r, struct tensor *x, int pool)
{
	struct layers l = layers_in(&r->half, "%d.", r->at++);
	int64_t n = x->shape[3];
	struct tensor *h;

	if (pool)
		x = normalised(&l, x);
	h = layer_conv3(&l, x, "conv.0", n, RELU, NULL);
	h = layer_conv3(&l, h, "conv.2", n, RELU, NULL);
	return layer_conv3(&l, h, "conv.4", n, RELU, x);
}

void autotiny_encoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;
	struct row r = {layers_in(&c->l, "encoder.layers."), 0};
	struct tensor *x = channels_last(c->l.t, recording_input(c, DT_F32, 3, size, 1));

	for (int64_t i = 0; i < a->stages; i++) {
		x = conv(&r, x, a->width[i], i ? 2 : 1, !i, 0);
		for (int64_t j = 0; j < a->encoder_blocks[i]; j++)
			x = block(&r, x, a->middle_norm && i + 1 == a->stages);
	}
	recording_output(c, channels_first(c->l.t, conv(&r, x, a->latent_channels, 1, 1, 0)));
}

/* The latent is first clamped to 3 tanh(z / 3). */
void autotiny_decoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;
	struct row r = {layers_in(&c->l, "decoder.layers."), 0};
	struct tape *t = c->l.t;
	struct tensor *z = channels_last(t, recording_input(c, DT_F32, 3, size, 1));

	z = op_scale(t, op_unary(t, op_scale(t, z, 1. / 3), UNARY_TANH), 3);
	z = conv(&r, z, a->width[0], 1, 1, RELU);
	r.at++;
	for (int64_t i = 0; i < a->stages; i++) {
		int last = i + 1 == a->stages;

		for (int64_t j = 0; j < a->decoder_blocks[i]; j++)
			z = block(&r, z, a->middle_norm && !i);
		if (!last) {
			z = op_upsample_nearest(t, z);
			r.at++;
		}
		z = conv(&r, z, last ? a->out_channels : a->width[i], 1, last, 0);
	}
	recording_output(c, channels_first(t, z));
}

/* ---- names ---- */

/* A file of taesd.py holds the encoder or the decoder, without a prefix. Its decoder counts the clamp as layer 0; diffusers does not count it. */
static const struct rename plain_encoder[] = {{"encoder.layers.#.*", {"#.*"}, 0}}, plain_decoder[] = {{"decoder.layers.#.*", {"~.*"}, 0}};
static const char *const own_encoder[] = {"encoder.*", NULL}, *const own_decoder[] = {"decoder.*", NULL};
static const struct renames families[2][2] = {
    {{.sign = "encoder.layers.0.weight", .own = own_encoder}, {.sign = "0.weight", .v = plain_encoder, .n = 1}},
    {{.sign = "decoder.layers.0.weight", .own = own_decoder}, {.sign = "1.weight", .v = plain_decoder, .n = 1, .first = 1, .step = 1}},
};

int autotiny_names(const struct autoencoder_config *c, int half, struct renames *out)
{
	(void)c;
	memcpy(out, families[half == AUTOENCODER_DECODE], sizeof *families);
	return 2;
}
