/* AutoencoderKL: recording, and the names that its tensors have had. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
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

/* One head over all positions. */
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
			x = layer_conv(&down, x, "downsamplers.0.conv", &(struct conv){.out = c->width[i], .kh = 3, .stride = 2, .pad = {0, 0, 1, 1}});
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
