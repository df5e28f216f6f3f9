/* AutoencoderKL: recording, and the names that its tensors have had. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "net/autoencoder.h"

static const double EPS = 1e-6;

enum { SILU = UNARY_SILU + 1 };

struct half {
	const struct layers *l;
	const struct autoencoder_config *c;
	const char *name; /* "encoder", "decoder" */
};

static const char *under(const struct half *k, char buf[96], const char *rest)
{
	snprintf(buf, 96, "%s.%s", k->name, rest);
	return buf;
}

static struct tensor *resnet(const struct half *k, struct tensor *x, const char *prefix, int64_t out)
{
	char name[96];
	struct tensor *h;

	snprintf(name, sizeof name, "%.80s.norm1", prefix);
	h = layer_groupnorm(k->l, x, name, k->c->groups, EPS, SILU);
	snprintf(name, sizeof name, "%.80s.conv1", prefix);
	h = layer_conv3(k->l, h, name, out, 0, NULL);
	snprintf(name, sizeof name, "%.80s.norm2", prefix);
	h = layer_groupnorm(k->l, h, name, k->c->groups, EPS, SILU);
	snprintf(name, sizeof name, "%.80s.conv_shortcut", prefix);
	if (x->shape[3] != out)
		x = layer_conv1(k->l, x, name, out, 0);
	snprintf(name, sizeof name, "%.80s.conv2", prefix);
	return layer_conv3(k->l, h, name, out, 0, x);
}

/* One head over all positions. */
static struct tensor *attention(const struct half *k, struct tensor *x)
{
	struct tape *t = k->l->t;
	int64_t c = x->shape[3], heads[4] = {x->shape[0], x->shape[1] * x->shape[2], 1, c};
	static const char *const parts[3] = {"to_q", "to_k", "to_v"};
	struct tensor *h, *qkv[3];
	char name[96], rest[64];

	h = layer_groupnorm(k->l, x, under(k, name, "mid_block.attentions.0.group_norm"), k->c->groups, EPS, 0);
	for (int i = 0; i < 3; i++) {
		snprintf(rest, sizeof rest, "mid_block.attentions.0.%s", parts[i]);
		qkv[i] = op_reshape(t, layer_linear(k->l, h, under(k, name, rest), c, 0), 4, heads);
	}
	h = op_reshape(t, op_attention(t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)c), 0), 4, x->shape);
	return op_add(t, layer_linear(k->l, h, under(k, name, "mid_block.attentions.0.to_out.0"), c, 0), x);
}

static struct tensor *middle(const struct half *k, struct tensor *x)
{
	char name[96];

	x = resnet(k, x, under(k, name, "mid_block.resnets.0"), x->shape[3]);
	if (k->c->attention)
		x = attention(k, x);
	return resnet(k, x, under(k, name, "mid_block.resnets.1"), x->shape[3]);
}

static struct tensor *last(const struct half *k, struct tensor *x, int64_t out)
{
	char name[96];

	x = layer_groupnorm(k->l, x, under(k, name, "conv_norm_out"), k->c->groups, EPS, SILU);
	return layer_conv3(k->l, x, under(k, name, "conv_out"), out, 0, NULL);
}

int autokl_encoder(const void *config, const struct layers *l, struct tensor *x, struct tensor **out)
{
	const struct autoencoder_config *c = config;
	struct half k = {l, c, "encoder"};
	char name[96];

	x = layer_conv3(l, channels_last(l->t, x), "encoder.conv_in", c->width[0], 0, NULL);
	for (int64_t i = 0; i < c->stages; i++) {
		for (int64_t j = 0; j < c->layers; j++) {
			snprintf(name, sizeof name, "encoder.down_blocks.%d.resnets.%d", (int)i, (int)j);
			x = resnet(&k, x, name, c->width[i]);
		}
		snprintf(name, sizeof name, "encoder.down_blocks.%d.downsamplers.0.conv", (int)i);
		if (i + 1 < c->stages)
			x = layer_conv(l, x, name, &(struct conv){.out = c->width[i], .kh = 3, .stride = 2, .pad = {0, 0, 1, 1}});
	}
	x = last(&k, middle(&k, x), 2 * c->latent_channels);
	if (c->quant_conv)
		x = layer_conv1(l, x, "quant_conv", 2 * c->latent_channels, 0);
	out[0] = channels_first(l->t, x);
	return 1;
}

int autokl_decoder(const void *config, const struct layers *l, struct tensor *z, struct tensor **out)
{
	const struct autoencoder_config *c = config;
	struct half k = {l, c, "decoder"};
	char name[96];

	z = channels_last(l->t, z);
	if (c->post_quant_conv)
		z = layer_conv1(l, z, "post_quant_conv", c->latent_channels, 0);
	z = middle(&k, layer_conv3(l, z, "decoder.conv_in", c->width[c->stages - 1], 0, NULL));
	for (int64_t i = 0; i < c->stages; i++) {
		int64_t width = c->width[c->stages - 1 - i];

		for (int64_t j = 0; j <= c->layers; j++) {
			snprintf(name, sizeof name, "decoder.up_blocks.%d.resnets.%d", (int)i, (int)j);
			z = resnet(&k, z, name, width);
		}
		snprintf(name, sizeof name, "decoder.up_blocks.%d.upsamplers.0.conv", (int)i);
		if (i + 1 < c->stages)
			z = layer_conv3(l, op_upsample_nearest(l->t, z), name, width, 0, NULL);
	}
	out[0] = channels_first(l->t, last(&k, z, c->out_channels));
	return 1;
}

/* ---- names ---- */

/* Parts of our names and what takes their place, in this order. */
struct part {
	const char *ours, *theirs;
};

static const struct part old_attention[] = {{".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}};

static const struct part single_file[] = {
    {".mid_block.resnets.0.", ".mid.block_1."}, {".mid_block.resnets.1.", ".mid.block_2."}, {".mid_block.attentions.0.", ".mid.attn_1."},
    {".group_norm.", ".norm."}, {".to_q.", ".q."}, {".to_k.", ".k."}, {".to_v.", ".v."}, {".to_out.0.", ".proj_out."},
    {".conv_norm_out.", ".norm_out."}, {".conv_shortcut.", ".nin_shortcut."}, {".down_blocks.", ".down."}, {".resnets.", ".block."},
    {".downsamplers.0.", ".downsample."}, {".upsamplers.0.", ".upsample."},
};

static void replace(struct str *name, const struct part *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *at = strstr(str_text(name), v[i].ours);
		char *rest;

		if (!at)
			continue;
		rest = str_new("%s%s", v[i].theirs, at + strlen(v[i].ours));
		name->len = (size_t)(at - name->p);
		str_puts(name, rest);
		mem_free(rest);
	}
}

/* A single file counts the decoder's stages from the picture's side. */
static void turn_stages(struct str *name, int64_t stages)
{
	static const char ours[] = "decoder.up_blocks.";
	char *rest;

	if (strncmp(str_text(name), ours, sizeof ours - 1))
		return;
	rest = str_new("decoder.up.%d%s", (int)(stages - 1) - (name->p[sizeof ours - 1] - '0'), name->p + sizeof ours);
	str_reset(name);
	str_puts(name, rest);
	mem_free(rest);
}

int autokl_fill(const void *config, struct weights *file, const struct param *p, float *out, struct err *e)
{
	static const char *const prefixes[] = {"", "first_stage_model.", "vae."};
	const struct autoencoder_config *c = config;
	struct str name = {0};
	int found = 0, rc;

	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes && !found; k++)
		for (int style = 0; style < 3 && !found; style++) {
			str_reset(&name);
			str_puts(&name, p->name);
			if (style == 1)
				replace(&name, old_attention, sizeof old_attention / sizeof *old_attention);
			if (style == 2) {
				turn_stages(&name, c->stages);
				replace(&name, single_file, sizeof single_file / sizeof *single_file);
			}
			if (prefixes[k][0]) {
				char *whole = str_new("%s%s", prefixes[k], str_text(&name));

				str_reset(&name);
				str_puts(&name, whole);
				mem_free(whole);
			}
			found = weights_has(file, str_text(&name));
		}
	rc = weights_take(file, found ? str_text(&name) : p->name, p, out, e);
	str_release(&name);
	return rc;
}
