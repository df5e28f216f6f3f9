/* The configuration of an autoencoder: parses config.json, and answers what follows from it. */
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/str.h"
#include "net/autoencoder.h"

enum { WAN_CHANNELS = 16 }; /* of Wan 2.1's latents, whose scales diffusers knows */

/* Whether the object has the key with a value other than null. */
static int given(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return v && !json_is_null(v);
}

/* Read a list of `stages` numbers; if *stages is 0, of any length, which *stages becomes. */
static int read_list(const json_t *o, const char *key, int64_t hi, int64_t *stages, int64_t *out, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, key);
	size_t n = json_array_size(v);

	if (!given(o, key))
		return 0;
	if (!json_is_array(v) || !n || n > AUTOENCODER_STAGES || (*stages && (int64_t)n != *stages))
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a list of %d to %d numbers", where, key, *stages ? (int)*stages : 1,
		               *stages ? (int)*stages : AUTOENCODER_STAGES);
	for (size_t i = 0; i < n; i++) {
		out[i] = json_integer_value(json_array_get(v, i));
		if (!json_is_integer(json_array_get(v, i)) || out[i] < 1 || out[i] > hi)
			return err_set(e, ERR_DATA, "%s: \"%s\"[%zu] is not a number in 1..%lld", where, key, i, (long long)hi);
	}
	*stages = (int64_t)n;
	return 0;
}

static int read_i64(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *out, const char *where, struct err *e)
{
	return given(o, key) ? jsonio_i64(o, key, 1, lo, hi, out, where, e) : 0;
}

static int read_bool(const json_t *o, const char *key, int *out, const char *where, struct err *e)
{
	return given(o, key) ? jsonio_bool(o, key, 1, out, where, e) : 0;
}

/* Check an entry of which only one value is supported. */
static int must_be(const json_t *o, const char *key, const char *value, const char *where, struct err *e)
{
	const char *v = value;

	if (given(o, key) && jsonio_str(o, key, 1, &v, where, e))
		return -1;
	return strcmp(v, value) ? err_set(e, ERR_DATA, "%s: \"%s\" is \"%s\"; only \"%s\" is supported", where, key, v, value) : 0;
}

/* Check that every block of a list has the one supported type. */
static int must_all_be(const json_t *o, const char *key, const char *value, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, key);

	for (size_t i = 0; i < json_array_size(v); i++) {
		const char *type = json_string_value(json_array_get(v, i));

		if (!type || strcmp(type, value))
			return err_set(e, ERR_DATA, "%s: \"%s\" names \"%s\"; only \"%s\" is supported", where, key, type ? type : "?", value);
	}
	return 0;
}

static int parse_kl(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e)
{
	static const char *const silent[] = {"latents_mean", "latents_std"};
	const json_t *size = json_object_get(o, "sample_size");

	if (read_list(o, "block_out_channels", 16384, &c->stages, c->width, where, e) ||
	    read_i64(o, "layers_per_block", 1, 64, &c->layers, where, e) || read_i64(o, "norm_num_groups", 1, 4096, &c->groups, where, e) ||
	    (!json_is_array(size) && read_i64(o, "sample_size", 1, 65536, &c->sample_size, where, e)) ||
	    read_bool(o, "use_quant_conv", &c->quant_conv, where, e) || read_bool(o, "use_post_quant_conv", &c->post_quant_conv, where, e) ||
	    read_bool(o, "mid_block_add_attention", &c->attention, where, e) || must_be(o, "act_fn", "silu", where, e) ||
	    must_all_be(o, "down_block_types", "DownEncoderBlock2D", where, e) || must_all_be(o, "up_block_types", "UpDecoderBlock2D", where, e))
		return -1;
	for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
		if (given(o, silent[i]))
			return err_set(e, ERR_DATA, "%s: \"%s\" is not supported", where, silent[i]);
	if (json_is_array(size) && json_is_integer(json_array_get(size, 0)))
		c->sample_size = json_integer_value(json_array_get(size, 0));
	if (c->sample_size < autoencoder_factor(c) || c->sample_size > 65536)
		return err_set(e, ERR_DATA, "%s: \"sample_size\" %lld is out of range", where, (long long)c->sample_size);
	for (int64_t i = 0; i < c->stages; i++)
		if (c->width[i] % c->groups)
			return err_set(e, ERR_DATA, "%s: %lld channels are not a multiple of %lld groups", where, (long long)c->width[i],
			               (long long)c->groups);
	return 0;
}

static int parse_tiny(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e)
{
	static const char *const lists[] = {"encoder_block_out_channels", "decoder_block_out_channels", "num_encoder_blocks", "num_decoder_blocks"};
	int64_t other[AUTOENCODER_STAGES], up = 2;
	int n = 0;

	for (int i = 0; i < 4; i++)
		n += given(o, lists[i]);
	if (n == 4)
		c->stages = 0;
	if (read_list(o, "encoder_block_out_channels", 16384, &c->stages, c->width, where, e))
		return -1;
	memcpy(other, c->width, sizeof other);
	if (read_list(o, "decoder_block_out_channels", 16384, &c->stages, other, where, e) ||
	    read_list(o, "num_encoder_blocks", 64, &c->stages, c->encoder_blocks, where, e) ||
	    read_list(o, "num_decoder_blocks", 64, &c->stages, c->decoder_blocks, where, e) ||
	    read_bool(o, "use_midblock_gn", &c->middle_norm, where, e) || must_be(o, "act_fn", "relu", where, e) ||
	    must_be(o, "upsample_fn", "nearest", where, e) || read_i64(o, "upsampling_scaling_factor", 2, 2, &up, where, e))
		return -1;
	for (int64_t i = 0; i < c->stages; i++)
		if (c->width[i] != c->width[0] || other[i] != c->width[0])
			return err_set(e, ERR_DATA, "%s: the stages of a tiny autoencoder have different widths", where);
	return 0;
}

/* The numbers of a list with one for each channel of the latent; if it is absent, out[] stays. */
static int read_channels(const json_t *o, const char *key, int64_t channels, int positive, double *out, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, key);

	if (!given(o, key))
		return channels == WAN_CHANNELS ? 0 : err_set(e, ERR_DATA, "%s: \"%s\" is missing", where, key);
	if (!json_is_array(v) || (int64_t)json_array_size(v) != channels)
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a list of %lld numbers, one for each channel", where, key, (long long)channels);
	for (int64_t i = 0; i < channels; i++) {
		out[i] = json_number_value(json_array_get(v, (size_t)i));
		if (!json_is_number(json_array_get(v, (size_t)i)) || !(fabs(out[i]) < 1e9) || (positive && !(out[i] > 1e-9)))
			return err_set(e, ERR_DATA, "%s: \"%s\"[%lld] is not a%s number", where, key, (long long)i,
			               positive ? " positive" : " finite");
	}
	return 0;
}

/* Which stages of the encoder join two frames, and which of the decoder, in reverse, make two of one. */
static int read_times(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e)
{
	static const int usual[] = {0, 1, 1};
	const json_t *v = json_object_get(o, "temperal_downsample"); /* so spelt */

	if ((given(o, "temperal_downsample") || c->stages != 4) && (!json_is_array(v) || (int64_t)json_array_size(v) != c->stages - 1))
		return err_set(e, ERR_DATA, "%s: \"temperal_downsample\" is not a list of %lld values, one for each stage but the last", where,
		               (long long)c->stages - 1);
	for (int64_t i = 0; i + 1 < c->stages; i++) {
		const json_t *one = v ? json_array_get(v, (size_t)i) : NULL;

		if (v && !json_is_boolean(one))
			return err_set(e, ERR_DATA, "%s: \"temperal_downsample\"[%lld] is neither true nor false", where, (long long)i);
		c->pool[i] = 1 + (v ? json_is_true(one) : usual[i]);
		c->grow[c->stages - 2 - i] = c->pool[i];
	}
	return 0;
}

/* AutoencoderKLWan of Wan 2.1. That of Wan 2.2 has residual stages and patches, and is refused. */
static int parse_wan(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e)
{
	int64_t base = 96, decoder_base, factor[AUTOENCODER_STAGES] = {1, 2, 4, 4}, patch = 1;
	int residual = 0;

	c->stages = given(o, "dim_mult") ? 0 : 4;
	if (read_i64(o, "base_dim", 1, 4096, &base, where, e))
		return -1;
	decoder_base = base;
	if (read_i64(o, "decoder_base_dim", 1, 4096, &decoder_base, where, e) || read_list(o, "dim_mult", 64, &c->stages, factor, where, e) ||
	    read_i64(o, "z_dim", 1, AUTOENCODER_CHANNELS, &c->latent_channels, where, e) ||
	    read_i64(o, "num_res_blocks", 1, 64, &c->layers, where, e) || read_bool(o, "is_residual", &residual, where, e) ||
	    read_i64(o, "patch_size", 1, 1024, &patch, where, e) || read_times(o, where, c, e) ||
	    read_channels(o, "latents_mean", c->latent_channels, 0, c->latents_mean, where, e) ||
	    read_channels(o, "latents_std", c->latent_channels, 1, c->latents_std, where, e))
		return -1;
	if (residual || patch != 1)
		return err_set(e, ERR_DATA, "%s: \"%s\" is set, as in the autoencoder of Wan 2.2; only that of Wan 2.1 is supported", where,
		               residual ? "is_residual" : "patch_size");
	if (c->in_channels != 3 || c->out_channels != 3)
		return err_set(e, ERR_DATA, "%s: its clips have %lld and %lld channels; only 3 are supported", where, (long long)c->in_channels,
		               (long long)c->out_channels);
	if (json_array_size(json_object_get(o, "attn_scales")))
		return err_set(e, ERR_DATA, "%s: \"attn_scales\" is not empty; attention is supported in the middle alone", where);
	for (int64_t i = 0; i < c->stages; i++) {
		c->width[i] = base * factor[i];
		c->decoder_width[i] = decoder_base * factor[i];
		if (i && c->decoder_width[i] % 2)
			return err_set(e, ERR_DATA, "%s: the decoder halves channels, and %lld are not even", where, (long long)c->decoder_width[i]);
	}
	return 0;
}

/* What diffusers assumes if the file does not say. */
static const struct autoencoder_config wan = {
    .kind = AUTOENCODER_WAN,
    .in_channels = 3,
    .out_channels = 3,
    .latent_channels = WAN_CHANNELS,
    .layers = 2,
    .sample_size = 256, /* of tiles */
    .scale = 1,
    .by_channel = 1,
    .latents_mean = {-.7571, -.7089, -.9113, .1075, -.1745, .9653, -.1517, 1.5508, .4134, -.0715, .5517, -.3632, -.1922, -.9497, .2503, -.2921},
    .latents_std = {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160},
};

int autoencoder_parse(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e)
{
	const char *class = NULL;

	if (jsonio_str(o, "_class_name", 1, &class, where, e))
		return -1;
	*c = (struct autoencoder_config){.kind = AUTOENCODER_KL,
	                                 .in_channels = 3,
	                                 .out_channels = 3,
	                                 .latent_channels = 4,
	                                 .stages = 0,
	                                 .layers = 1,
	                                 .groups = 32,
	                                 .sample_size = 32,
	                                 .quant_conv = 1,
	                                 .post_quant_conv = 1,
	                                 .attention = 1,
	                                 .scale = 0.18215};
	if (!strcmp(class, "AutoencoderTiny")) {
		*c = (struct autoencoder_config){.kind = AUTOENCODER_TINY,
		                                 .in_channels = 3,
		                                 .out_channels = 3,
		                                 .latent_channels = 4,
		                                 .stages = 4,
		                                 .width = {64, 64, 64, 64},
		                                 .encoder_blocks = {1, 3, 3, 3},
		                                 .decoder_blocks = {3, 3, 3, 1},
		                                 .scale = 1};
	} else if (!strcmp(class, "AutoencoderKLWan")) {
		*c = wan;
	} else if (strcmp(class, "AutoencoderKL")) {
		return err_set(e, ERR_DATA,
		               "%s: _class_name \"%s\" is not an autoencoder this program knows (AutoencoderKL, AutoencoderTiny, AutoencoderKLWan)",
		               where, class);
	} else if (!given(o, "block_out_channels")) {
		c->stages = 1;
		c->width[0] = 64;
	}
	if (read_i64(o, "in_channels", 1, 1024, &c->in_channels, where, e) || read_i64(o, "out_channels", 1, 1024, &c->out_channels, where, e) ||
	    read_i64(o, "latent_channels", 1, 1024, &c->latent_channels, where, e) ||
	    (given(o, "scaling_factor") && jsonio_f64(o, "scaling_factor", 1, 1e-9, 1e9, &c->scale, where, e)) ||
	    (given(o, "shift_factor") && jsonio_f64(o, "shift_factor", 1, -1e9, 1e9, &c->shift, where, e)))
		return -1;
	return (c->kind == AUTOENCODER_KL ? parse_kl : c->kind == AUTOENCODER_WAN ? parse_wan : parse_tiny)(o, where, c, e);
}

/* ---- what follows from it ---- */

int64_t autoencoder_factor(const struct autoencoder_config *c)
{
	return ((int64_t)1 << (c->stages - 1)) * (c->patch ? c->patch : 1);
}

int autoencoder_has_posterior(const struct autoencoder_config *c)
{
	return c->kind == AUTOENCODER_KL || c->kind == AUTOENCODER_WAN;
}

int64_t autoencoder_moments(const struct autoencoder_config *c)
{
	return autoencoder_has_posterior(c) ? 2 * c->latent_channels : c->latent_channels;
}

int autoencoder_joins_frames(const struct autoencoder_config *c)
{
	return c->kind == AUTOENCODER_TAEHV || c->kind == AUTOENCODER_WAN;
}

int64_t autoencoder_time_factor(const struct autoencoder_config *c)
{
	int64_t t = 1;

	for (int64_t i = 0; i < AUTOENCODER_STAGES; i++)
		t *= c->pool[i] ? c->pool[i] : 1;
	return t;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t autoencoder_latent_frames(const struct autoencoder_config *c, int64_t frames)
{
	enum { FRAMES = AUTOENCODER_CHUNK_FRAMES, LATENTS = AUTOENCODER_CHUNK_LATENTS, DROPPED = AUTOENCODER_CHUNK_DROPPED };

	if (c->timing == TIMING_CHUNKS)
		return (frames + FRAMES - 1) / FRAMES * LATENTS - DROPPED;
	return 1 + (frames - 1) / autoencoder_time_factor(c);
}

int64_t autoencoder_clip_frames(const struct autoencoder_config *c, int64_t latents)
{
	enum { FRAMES = AUTOENCODER_CHUNK_FRAMES, LATENTS = AUTOENCODER_CHUNK_LATENTS, DROPPED = AUTOENCODER_CHUNK_DROPPED };
	int64_t t = autoencoder_time_factor(c), whole = (latents + LATENTS - 1) / LATENTS;

	if (c->timing == TIMING_COGVIDEOX && latents % 2 == 0)
		return latents * t;
	if (c->timing == TIMING_CHUNKS) /* what was decoded, without the first t - 1 of each chunk; of that no more than the encoder had coded */
		return least(whole * FRAMES - DROPPED * t, latents * t - whole * (t - 1));
	return 1 + (latents - 1) * t;
}

void autoencoder_describe(struct str *s, const struct autoencoder_config *c)
{
	static const char *const kinds[] = {
	    [AUTOENCODER_KL] = "kl", [AUTOENCODER_TINY] = "tiny", [AUTOENCODER_TAEHV] = "taehv", [AUTOENCODER_WAN] = "wan"};

	str_printf(s, "autoencoder %s %lld %lld %lld", kinds[c->kind], (long long)c->in_channels, (long long)c->latent_channels,
	           (long long)c->out_channels);
	for (int64_t i = 0; i < c->stages; i++)
		str_printf(s, " %lld:%lld:%lld", (long long)c->width[i], (long long)c->encoder_blocks[i], (long long)c->decoder_blocks[i]);
	str_printf(s, " layers %lld groups %lld quant %d %d attention %d middle %d scale %.17g shift %.17g", (long long)c->layers,
	           (long long)c->groups, c->quant_conv, c->post_quant_conv, c->attention, c->middle_norm, c->scale, c->shift);
	if (!autoencoder_joins_frames(c))
		return;
	str_printf(s, " timing %d patch %lld super %d", (int)c->timing, (long long)c->patch, c->super);
	for (int64_t i = 0; i < c->stages; i++)
		str_printf(s, " %lld:%lld:%lld", (long long)c->pool[i], (long long)c->grow[i], (long long)c->decoder_width[i]);
	for (int64_t i = 0; c->by_channel && i < c->latent_channels; i++)
		str_printf(s, " %.17g:%.17g", c->latents_mean[i], c->latents_std[i]);
}

/* ---- latents ---- */

/* The shift and the scale of a channel. */
static double shift_of(const struct autoencoder_config *c, int64_t channel)
{
	return c->by_channel ? c->latents_mean[channel] : c->shift;
}

static double scale_of(const struct autoencoder_config *c, int64_t channel)
{
	return c->by_channel ? 1 / c->latents_std[channel] : c->scale;
}

void autoencoder_latent(const struct autoencoder_config *c, const float *moments, const float *noise, int64_t area, float *out)
{
	int64_t n = c->latent_channels * area;

	for (int64_t i = 0; i < n; i++) {
		double z = (double)moments[i];

		if (noise && autoencoder_has_posterior(c))
			z += exp(.5 * fmin(fmax((double)moments[n + i], -30), 20)) * (double)noise[i];
		out[i] = (float)((z - shift_of(c, i / area)) * scale_of(c, i / area));
	}
}

void autoencoder_deviation(const struct autoencoder_config *c, const float *moments, int64_t area, float *out)
{
	int64_t n = c->latent_channels * area;

	for (int64_t i = 0; i < n; i++)
		out[i] = (float)(exp(.5 * fmin(fmax((double)moments[n + i], -30), 20)) * scale_of(c, i / area));
}

void autoencoder_unscale(const struct autoencoder_config *c, const float *latent, int64_t n, int64_t area, float *z)
{
	for (int64_t i = 0; i < n * c->latent_channels * area; i++)
		z[i] = (float)((double)latent[i] / scale_of(c, i / area % c->latent_channels) + shift_of(c, i / area % c->latent_channels));
}
