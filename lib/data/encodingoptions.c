/* The options of encoding: the table that fills struct encoding_options, and the stamp of what was encoded. */
#include "core/option.h"
#include "data/encodingimpl.h"
#include "file/optionstamp.h"

#define REQUEST(member) OPTION_FIELD(struct encoding_options, member)
#define OF_LATENTS .when = {{USE_AGAINST, "--decode"}, {USE_INPUT, "an autoencoder"}}

const char *const encoding_posteriors[ENCODING_POSTERIORS + 1] = {"std", "mean", "sample", NULL};
const char *const encoding_dtypes[] = {"f16", "f32", NULL};

static int makes_latents(const void *request)
{
	const struct encoding_options *o = request;

	return o->vae && !o->decode;
}

static int draws_latents(const void *request)
{
	return makes_latents(request) && ((const struct encoding_options *)request)->posterior == ENCODING_SAMPLE;
}

static int makes_arrays(const void *request)
{
	return !((const struct encoding_options *)request)->decode;
}

static void put_flag(struct stamp *s, const char *key, const void *field)
{
	stamp_json(s, key, json_boolean(*(const int *)field));
}

static void put_opposite(struct stamp *s, const char *key, const void *field)
{
	stamp_json(s, key, json_boolean(!*(const int *)field));
}

const struct option encoding_option_rows[] = {
    OPTION_GROUP("Encoder"),
    {"--decode", 'd', OPTION_FLAG, REQUEST(decode), .help = "decode latents to pictures with the autoencoder", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--tile", .type = OPTION_FLAG, REQUEST(tile), .help = "encode or decode large pictures and clips in tiles, which takes less memory",
     .when = {{USE_INPUT, "an autoencoder"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "tile"},
    OPTION_GROUP("Latents"),
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = 1, .hi = 16384, .arg = "N", .help = "encode the centre square, resized to N x N",
     .said = "default: pictures as they are", OF_LATENTS, .stamp = STAMP_ALWAYS, .key = "size", .counts = makes_latents},
    {"--posterior", .type = OPTION_CHOICE, REQUEST(posterior), .arg = "WHAT", .choices = encoding_posteriors,
     .help = "keep mean and standard deviation of a latent, the mean alone, or one draw", .said = "default std", OF_LATENTS, .stamp = STAMP_ALWAYS,
     .key = "posterior", .counts = makes_latents},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the draw", .when = {{USE_NEEDS, "--posterior=sample"}},
     .stamp = STAMP_ALWAYS, .key = "seed", .counts = draws_latents},
    {"--flip", .type = OPTION_FLAG, REQUEST(flip), .help = "also encode every picture mirrored", OF_LATENTS, .stamp = STAMP_ALWAYS, .key = "flip",
     .put = put_flag, .counts = makes_latents},
    {"--no-pictures", .type = OPTION_FLAG, REQUEST(drop), .help = "leave out the pictures that became latents", OF_LATENTS, .stamp = STAMP_ALWAYS,
     .key = "pictures", .put = put_opposite, .counts = makes_latents},
    OPTION_GROUP("Texts and features"),
    {"--tokens", .type = OPTION_INT, REQUEST(tokens), .lo = 1, .hi = 16384, .arg = "N", .help = "longest text of T5 in tokens", .said = "default 120",
     .when = {{USE_INPUT, "a text encoder"}}, .stamp = STAMP_OTHERWISE},
    {"--pooled", .type = OPTION_FLAG, REQUEST(pooled), .help = "also keep the pooled vector of each caption, of CLIP",
     .when = {{USE_INPUT, "a text encoder"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "pooled", .put = put_flag},
    {"--dtype", .type = OPTION_CHOICE, REQUEST(wide), .arg = "TYPE", .choices = encoding_dtypes, .help = "type of latents and text features",
     .said = "default f16", .when = {{USE_INPUT, "an autoencoder or a text encoder"}}, .stamp = STAMP_ALWAYS, .key = "dtype", .counts = makes_arrays},
    OPTION_GROUP("Machine"),
    {"--batch", .type = OPTION_INT, REQUEST(batch), .lo = 1, .hi = 64, .arg = "N", .help = "pictures or texts at a time; no result depends on it",
     .said = "default 4 and 16", OPTION_ALWAYS},
    {"--weight-dtype", .type = OPTION_CHOICE, REQUEST(bulk), .arg = "TYPE", .choices = encoder_weights, .preset = "f32",
     .help = "type in which the encoders' matrices are held and multiplied", OPTION_ALWAYS, .was = "--weights", .stamp = STAMP_UNLESS_DEFAULT,
     .key = "weights"},
    {"--map", .type = OPTION_FLAG, REQUEST(map), .help = "leave f32 matrices in their files, mapped; changes no result",
     .when = {{USE_AGAINST, "--weight-dtype=bf16 --weight-dtype=int8"}}},
    {0},
};

struct encoding_options encoding_defaults(void)
{
	struct encoding_options o = {.posterior = -1, .wide = -1};

	option_presets(encoding_option_rows, &o);
	return o;
}

void encoding_stamp(const struct encoding *x, struct stamp *s)
{
	static const struct option *const tables[] = {encoding_option_rows, NULL};

	optionstamp_put(s, tables, &x->o, "dtype weights size posterior seed flip pictures tile pooled");
	if (x->vae)
		stamp_input(s, "vae", x->vae_hash);
	if (x->text) {
		stamp_i64(s, "tokens", textencoder_info(x->text)->tokens);
		stamp_input(s, "text", textencoder_info(x->text)->hash);
	}
}
