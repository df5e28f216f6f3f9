/* The tiny autoencoders: convolutions of 3 x 3 numbered in a row (https://github.com/madebyollin/taesd). Their own pictures are in
 * [0, 1]; x / 2 + 1 / 2 and its way back are done outside, where a picture's edge is still an edge. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "net/autoencoder.h"

enum { RELU = UNARY_RELU + 1, POOL_GROUPS = 4, POOL_WIDTH = 4 };

struct row {
	const struct layers *l;
	const char *half;
	int at; /* number of the next layer */
};

static const char *layer_name(char buf[96], const struct row *r, const char *rest)
{
	snprintf(buf, 96, "%s.layers.%d%s", r->half, r->at, rest);
	return buf;
}

static struct tensor *conv(struct row *r, struct tensor *x, int64_t out, int64_t stride, int bias, int act)
{
	char name[96];

	x = layer_conv(r->l, x, layer_name(name, r, ""),
	               &(struct conv){.out = out, .kh = 3, .stride = stride, .pad = {1, 1, 1, 1}, .no_bias = !bias, .act = act});
	r->at++;
	return x;
}

/* x + what a norm over groups makes of a wider x: the middle of FLUX.2's. */
static struct tensor *normalised(const struct row *r, struct tensor *x)
{
	int64_t n = x->shape[3];
	struct tensor *h;
	char name[96];

	h = layer_conv(r->l, x, layer_name(name, r, ".pool.0"), &(struct conv){.out = POOL_WIDTH * n, .kh = 1, .no_bias = 1});
	h = layer_groupnorm(r->l, h, layer_name(name, r, ".pool.1"), POOL_GROUPS, 1e-5, RELU);
	return layer_conv(r->l, h, layer_name(name, r, ".pool.3"), &(struct conv){.out = n, .kh = 1, .no_bias = 1, .add = x});
}

static struct tensor *block(struct row *r, struct tensor *x, int pool)
{
	int64_t n = x->shape[3];
	struct tensor *h;
	char name[96];

	if (pool)
		x = normalised(r, x);
	h = layer_conv3(r->l, x, layer_name(name, r, ".conv.0"), n, RELU, NULL);
	h = layer_conv3(r->l, h, layer_name(name, r, ".conv.2"), n, RELU, NULL);
	h = layer_conv3(r->l, h, layer_name(name, r, ".conv.4"), n, RELU, x);
	r->at++;
	return h;
}

int autotiny_encoder(const void *config, const struct layers *l, struct tensor *x, struct tensor **out)
{
	const struct autoencoder_config *c = config;
	struct row r = {l, "encoder", 0};

	x = channels_last(l->t, x);
	for (int64_t i = 0; i < c->stages; i++) {
		x = conv(&r, x, c->width[i], i ? 2 : 1, !i, 0);
		for (int64_t j = 0; j < c->encoder_blocks[i]; j++)
			x = block(&r, x, c->middle_norm && i + 1 == c->stages);
	}
	out[0] = channels_first(l->t, conv(&r, x, c->latent_channels, 1, 1, 0));
	return 1;
}

/* Clamped to 3 tanh(z / 3) first. */
int autotiny_decoder(const void *config, const struct layers *l, struct tensor *z, struct tensor **out)
{
	const struct autoencoder_config *c = config;
	struct row r = {l, "decoder", 0};

	z = op_scale(l->t, op_unary(l->t, op_scale(l->t, channels_last(l->t, z), 1. / 3), UNARY_TANH), 3);
	z = conv(&r, z, c->width[0], 1, 1, RELU);
	r.at++;
	for (int64_t i = 0; i < c->stages; i++) {
		int last = i + 1 == c->stages;

		for (int64_t j = 0; j < c->decoder_blocks[i]; j++)
			z = block(&r, z, c->middle_norm && !i);
		if (!last) {
			z = op_upsample_nearest(l->t, z);
			r.at++;
		}
		z = conv(&r, z, last ? c->out_channels : c->width[i], 1, last, 0);
	}
	out[0] = channels_first(l->t, z);
	return 1;
}

/* taesd.py's files hold a half each, without a prefix, and its decoder begins with the clamp, a layer that diffusers does not count. */
int autotiny_fill(const void *config, struct weights *file, const struct param *p, float *out, struct err *e)
{
	char *name, *end;
	long at = strtol(p->name + strlen("encoder.layers."), &end, 10);
	int rc;

	(void)config;
	if (weights_has(file, p->name))
		return weights_take(file, p->name, p, out, e);
	name = str_new("%ld%s", at + (p->name[0] == 'd'), end);
	rc = weights_take(file, weights_has(file, name) ? name : p->name, p, out, e);
	mem_free(name);
	return rc;
}
