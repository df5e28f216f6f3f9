/* Runs pretrained encoders on samples: latents and texts beside them, or a table of features; and latents back. */
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/pool.h"
#include "data/encoding.h"
#include "metric/encodejob.h"
#include "metric/netinput.h"

static struct encode_request request; /* from the library's defaults */
static const char *device_name = "auto";
static int64_t threads;
static int quiet;

static const struct option options[] = {
    OPTION_GROUP("Encoder"),
    {.name = "--model", .letter = 'm', .type = OPTION_TEXT, .value = &request.model, .arg = "DIR", .required = "which encoder?",
     .help = "autoencoder, text encoder, DINOv2 or CLIP, or a model with vae/ and text_encoder/", OPTION_ALWAYS},
    {.name = "--as", .type = OPTION_CHOICE, .value = &request.as, .arg = "WHAT", .choices = encode_parts,
     .help = "which part of what the folder holds to take (default auto)", OPTION_ALWAYS},
    {.name = "--decode", .letter = 'd', .type = OPTION_FLAG, .value = &request.decode, .help = "turn latents into pictures, by the autoencoder",
     OPTION_ALWAYS},
    {.name = "--captions", .type = OPTION_FLAG, .value = &request.captions,
     .help = "captions need no pictures: texts too are SAMPLES, one caption a line", .when = {{USE_INPUT, "a text encoder"}}},
    OPTION_GROUP("Latents"),
    {.name = "--size", .type = OPTION_INT, .value = &request.size, .lo = 1, .hi = 16384, .arg = "N",
     .help = "encode the centre square, resized to N x N (default: pictures as they are)",
     .when = {{USE_AGAINST, "--decode"}, {USE_INPUT, "an autoencoder"}}},
    {.name = "--posterior", .type = OPTION_CHOICE, .value = &request.posterior, .arg = "WHAT", .choices = encoding_posteriors,
     .help = "mean and deviation of a latent, the mean alone, or one draw (default std)",
     .when = {{USE_AGAINST, "--decode"}, {USE_INPUT, "an autoencoder"}}},
    {.name = "--seed", .type = OPTION_U64, .value = &request.seed, .arg = "S", .given = &request.seeded, .help = "of that draw (default 0)",
     .when = {{USE_NEEDS, "--posterior=sample"}}},
    {.name = "--flip", .type = OPTION_FLAG, .value = &request.flip, .help = "encode every picture mirrored, too",
     .when = {{USE_AGAINST, "--decode"}, {USE_INPUT, "an autoencoder"}}},
    {.name = "--no-pictures", .type = OPTION_FLAG, .value = &request.drop,
     .help = "leave out the pictures that became latents", .when = {{USE_AGAINST, "--decode"}, {USE_INPUT, "an autoencoder"}}},
    OPTION_GROUP("Texts and features"),
    {.name = "--tokens", .type = OPTION_INT, .value = &request.tokens, .lo = 1, .hi = 16384, .arg = "N",
     .help = "longest text of T5 in tokens (default 120)", .when = {{USE_INPUT, "a text encoder"}}},
    {.name = "--null-text", .type = OPTION_TEXT, .value = &request.null_text, .arg = "FILE", .help = "write the features of the empty text as .npy",
     .when = {{USE_INPUT, "a text encoder"}}},
    {.name = "--dtype", .type = OPTION_CHOICE, .value = &request.dtype, .arg = "TYPE", .choices = encode_dtypes,
     .help = "of latents and texts (default f16)", .when = {{USE_INPUT, "an autoencoder or a text encoder"}}},
    {.name = "--input", .type = OPTION_CHOICE, .value = &request.input, .arg = "NAME", .choices = netinput_names,
     .help = "how pictures are fed to DINOv2, CLIP or Inception (default: as is usual for it)",
     .when = {{USE_INPUT, "a network of features"}}},
    {.name = "--keys", .type = OPTION_TEXT, .value = &request.keys, .arg = "FILE", .help = "write the keys of the rows of features, one a line",
     .when = {{USE_INPUT, "a network of features"}}},
    OPTION_GROUP("Machine"),
    {.name = "--batch", .type = OPTION_INT, .value = &request.batch, .lo = 1, .hi = 64, .arg = "N",
     .help = "pictures or texts at a time (default 4 and 16); no result depends on it", OPTION_ALWAYS},
    {.name = "--weight-dtype", .type = OPTION_CHOICE, .value = &request.weights, .arg = "TYPE", .choices = encoder_weights,
     .help = "how the encoders' matrices are held and multiplied (default f32)", OPTION_ALWAYS, .was = "--weights"},
    {.name = "--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .help = "auto, cpu, cuda or cuda:N (default auto)",
     OPTION_ALWAYS},
    OPTION_GROUP("Reading and output"),
    {.name = "--skip-bad", .type = OPTION_FLAG, .value = &request.skip_bad, .help = "pass over samples that cannot be used, naming them",
     OPTION_ALWAYS},
    {.name = "--max-errors", .type = OPTION_INT, .value = &request.max_errors, .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit 3 when more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {.name = "--null", .letter = '0', .type = OPTION_FLAG, .value = &request.nul, .help = "paths on stdin end with NUL, not newline",
     .when = {{USE_NEEDS, "-"}}},
    {.name = "--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N",
     .help = "threads (default: what the machine has)", OPTION_ALWAYS},
    {.name = "--quiet", .letter = 'q', .type = OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &request.out, .arg = "FILE",
     .help = "tar of samples, or .npy of features (default: the tar to stdout)", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-encode",
    .operands = "SAMPLES...",
    .about = "runs pretrained encoders on samples: latents, features of captions, features of pictures",
    .options = options,
};

static void say(void *arg, const char *line)
{
	(void)arg;
	cmd_say("%s", line);
}

static void warn(void *arg, const char *line)
{
	(void)arg;
	cmd_warn("%s", line);
}

static void say_report(const struct encode_report *r)
{
	if (!r->written || quiet)
		return;
	cmd_say("%lld samples", (long long)r->samples);
	if (r->skipped)
		cmd_warn("%lld samples skipped", (long long)r->skipped);
	if (r->cut)
		cmd_warn("%lld captions were longer than the encoder reads, and were cut", (long long)r->cut);
}

static void encode(struct err *e)
{
	const struct encode_hooks hooks = {.say = quiet ? NULL : say, .warn = warn, .progress = cmd_progress()};
	struct encodejob *w = encodejob_new(&request, &hooks, e);
	struct encode_report report = {0};
	struct pool *pool = NULL;
	struct device *device = NULL;

	if (w && (encodejob_makes_features(w) || !cmd_binary(request.out, "-o FILE.tar or a pipe", e)) && (pool = pool_new((int)threads, e)) &&
	    (device = open_device(device_name, pool, e))) {
		cmd_catch_signals();
		encodejob_run(w, device, &report, e);
		say_report(&report);
	}
	encodejob_free(w);
	device_free(device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};

	request = encode_defaults();
	request.sources = cmd_start(&program, argc, argv, 1, -1);
	request.source = (const char *const *)argv + 1;
	request.spool = getenv("TMPDIR");
	encode(&e);
	return cmd_end(&e);
}
