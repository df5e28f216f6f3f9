/* The options of a run of encoders: the table that fills struct encode_request, and its defaults. */
#include "metric/encodejob.h"
#include "metric/netinput.h"

#define REQUEST(member) OPTION_FIELD(struct encode_request, member)
#define OF_FEATURES .when = {{USE_INPUT, "a network of features"}}

const char *const encode_parts[] = {"auto", "vae", "text", "vision", NULL};

const struct option encode_options[] = {
    OPTION_GROUP("Encoder"),
    {"--model", 'm', OPTION_TEXT, REQUEST(model), .arg = "DIR", .required = "the folder of the encoder",
     .help = "autoencoder, text encoder, DINOv2 or CLIP, or a model with vae/ and text_encoder/", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--as", .type = OPTION_CHOICE, REQUEST(as), .arg = "WHAT", .choices = encode_parts, .preset = "auto",
     .help = "which encoder of the folder to use", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--captions", .type = OPTION_FLAG, REQUEST(captions), .help = "encode captions without pictures; SAMPLES may be text files, one caption a line",
     .when = {{USE_INPUT, "a text encoder"}}, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Latents"),
    OPTION_GROUP("Texts and features"),
    {"--null-text", .type = OPTION_TEXT, REQUEST(null_text), .arg = "FILE", .help = "write the features of the empty text as .npy",
     .when = {{USE_INPUT, "a text encoder"}}},
    {"--null-pooled", .type = OPTION_TEXT, REQUEST(null_pooled), .arg = "FILE", .help = "write the pooled vector of the empty text as .npy",
     .when = {{USE_NEEDS, "--pooled"}}},
    {"--input", .type = OPTION_CHOICE, REQUEST(input), .arg = "NAME", .choices = netinput_names,
     .help = "preprocessing of pictures for DINOv2, CLIP or Inception", .said = "default: the usual one of the network", OF_FEATURES,
     .stamp = STAMP_OTHERWISE},
    {"--keys", .type = OPTION_TEXT, REQUEST(keys), .arg = "FILE", .help = "write the key of each row of features, one a line", OF_FEATURES},
    OPTION_GROUP("Machine"),
    OPTION_GROUP("Reading and output"),
    {"--shard", .type = OPTION_PARSED, REQUEST(share), .arg = "I/N", .parse = jobshare_parse, .example = "0/2",
     .help = "only the samples of job I of N, from 0", .said = "default: all", OPTION_ALWAYS},
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip samples that cannot be used, naming them", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .hi = 1e15, .arg = "N", .help = "exit with 3 if more were skipped; no limit by default",
     .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', OPTION_FLAG, REQUEST(nul), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .help = "tar of samples, or .npy of features",
     .said = "default: the tar to stdout", OPTION_ALWAYS},
    {0},
};

struct encode_request encode_defaults(void)
{
	struct encode_request q = {.encoding = encoding_defaults(), .input = -1, .max_errors = -1};

	option_presets(encode_options, &q);
	return q;
}
