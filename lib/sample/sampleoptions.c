/* The option tables of sampling: they fill struct sample_request, give its defaults and select the options that go into stamps. A new option is one
 * row here and one field of the struct. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/option.h"
#include "diffusion/policy.h"
#include "diffusion/solverchoice.h"
#include "file/optionstamp.h"
#include "sample/sampling.h"

#define REQUEST(member) OPTION_FIELD(struct sample_request, member)
/* clang-format off */
#define OF_TEXTS {USE_INPUT, "a model that reads text"}
/* clang-format on */

const char *const sample_presets[] = {"paris", NULL}, *const sample_timesteps[] = {"even", "paris", NULL};
const char *const sample_noises[] = {"philox", "torch", NULL}, *const sample_converts[] = {"match", "native", NULL};
const char *const sample_formats[] = {[FORMAT_PNG] = "png",
                                      [FORMAT_WEBP] = "webp",
                                      [FORMAT_NPZ] = "npz",
                                      [FORMAT_LATENT] = "latent",
                                      [FORMAT_JPG] = "jpg",
                                      [FORMAT_CLIP] = "clip",
                                      NULL};
const char *const sample_dtypes[] = {[SAMPLE_F32] = "f32", [SAMPLE_BF16] = "bf16", [SAMPLE_INT8] = "int8", [SAMPLE_TF32] = "tf32", NULL};
const char *const sample_spreads[] = {[SPREAD_PICTURES] = "pictures", [SPREAD_EXPERTS] = "experts", [SPREAD_GUIDANCE] = "guidance", NULL};

static const char *const residents[] = {"auto", NULL};

static int is_guided(const void *request)
{
	return ((const struct sample_request *)request)->cfg != 1;
}

static int parse_guidance(void *field, const char *label, const char *text, struct err *e)
{
	return guidance_parse(field, text, e) ? err_prefix(e, "%s", label) : 0;
}

/* Left out for cfg, the default. */
static void put_guidance(struct stamp *s, const char *key, const void *field)
{
	char *text = guidance_text(field);

	if (strcmp(text, "cfg") != 0)
		stamp_text(s, key, text);
	mem_free(text);
}

/* True for the stamp of all pictures. The stamp of one picture (each = 0) has its own number, class and prompt instead of these options. */
static int of_all(const void *request)
{
	return ((const struct sample_request *)request)->each != 0;
}

static const char *const networks[] = {"inception:", "dinov2:", "clip:", NULL};

const struct option sample_options[] = {
    OPTION_GROUP("Pictures"),
    {"--count", 'n', OPTION_INT, REQUEST(each), .lo = 1, .hi = SAMPLE_MOST, .arg = "N", .preset = "1",
     .help = "how many pictures; of every prompt, where there are prompts", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "n", .counts = of_all},
    {"--prompt", .type = OPTION_TEXT, REQUEST(prompt), .arg = "TEXT", .help = "what the pictures show, for experts that read text",
     .when = {OF_TEXTS}, .stamp = STAMP_OTHERWISE},
    {"--prompts", .type = OPTION_TEXT, REQUEST(prompts), .arg = "FILE",
     .help = "prompts, one a line, or as JSON objects with a seed each; - is standard input", .when = {OF_TEXTS}, .stamp = STAMP_OTHERWISE},
    {"--negative-prompt", .type = OPTION_TEXT, REQUEST(negative), .arg = "TEXT", .preset = "", .said = "default nothing",
     .help = "what guidance leads away from", .was = "--negative",
     .when = {{USE_NEEDS, "--cfg --preset"}, {USE_AGAINST, "--negative-features"}, OF_TEXTS}, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Sampling"),
    {"--preset", .type = OPTION_CHOICE, REQUEST(preset), .arg = "NAME", .choices = sample_presets,
     .help = "the released sampler of a model: for paris --route top-2 --steps 50 --timesteps paris --cfg 7.5", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--route", .type = OPTION_TEXT, REQUEST(route), .arg = "HOW", .choices = policy_words, .help = POLICY_FORMS, OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "route"},
    {"--solver", .type = OPTION_TEXT, REQUEST(solver), .arg = "NAME", .choices = solver_names,
     .help = SOLVER_FLOW_NAMES "or on the experts' own path " SOLVER_DISCRETE_NAMES "each with keys as NAME,KEY=VALUE..",
     .said = "default euler, or as a pipeline's scheduler says", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "solver"},
    {"--steps", .type = OPTION_INT, REQUEST(steps), .lo = 1, .hi = 100000, .arg = "N", .help = "steps from noise to picture", .said = "default 50",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "steps"},
    {"--timesteps", .type = OPTION_CHOICE, REQUEST(timesteps), .arg = "HOW", .choices = sample_timesteps,
     .help = "steps of equal length (even), or to .001 and a last one to 0 (paris)", .said = "default even", .when = {{USE_INPUT, "a flow solver"}},
     .was = "--times", .stamp = STAMP_UNLESS_DEFAULT, .key = "times"},
    {"--cfg", .type = OPTION_REAL, REQUEST(cfg), .lo = -100, .hi = 100, .arg = "S", .help = "classifier-free guidance; 1 is none",
     .said = "default 1", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "cfg", .counts = is_guided},
    {"--cfg-channels", .type = OPTION_INT, REQUEST(cfg_channels), .lo = 1, .hi = 65536, .arg = "N", .help = "guide the first N channels alone",
     .said = "default: all", .when = {{USE_NEEDS, "--cfg --preset"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "cfg_channels"},
    {"--cfg-interval", .type = OPTION_PARSED, REQUEST(guidance.interval), .arg = "A..B", .parse = time_range_option, .put = time_range_stamp,
     .help = "guide only at times from A to B; 1 is noise", .preset = "0..1", .when = {{USE_NEEDS, "--cfg --preset"}}, .stamp = STAMP_ALWAYS,
     .key = "cfg_interval", .counts = is_guided},
    {"--cfg-rescale", .type = OPTION_REAL, REQUEST(guidance.rescale), .hi = 1, .arg = "PHI", .preset = "0",
     .help = "scale the guided prediction towards the deviation of the unguided one", .when = {{USE_NEEDS, "--cfg --preset"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "cfg_rescale", .counts = is_guided},
    {"--cfg-after-mixing", .type = OPTION_FLAG, REQUEST(guidance.mixed), .help = "guide the mixture of the experts instead of each expert",
     .when = {{USE_NEEDS, "--cfg --preset"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "cfg_after_mixing", .counts = is_guided},
    {"--guidance", .type = OPTION_PARSED, REQUEST(guidance), .arg = "METHOD", .choices = guidance_words, .parse = parse_guidance, .put = put_guidance,
     .help = "how --cfg guides: " GUIDANCE_FORMS, .preset = "cfg", .when = {{USE_NEEDS, "--cfg --preset"}}, .stamp = STAMP_ALWAYS, .key = "guidance",
     .counts = is_guided},
    {"--guide", .type = OPTION_TEXT, REQUEST(guide), .arg = "MODEL",
     .help = "guide away from what this weaker model predicts, not from what the experts predict without class or prompt",
     .when = {{USE_NEEDS, "--cfg --preset"}, {USE_AGAINST, "--negative-prompt --negative-features"}}, .stamp = STAMP_OTHERWISE},
    {"--guide-step", .type = OPTION_INT, REQUEST(guide_step), .lo = 1, .hi = 1e15, .arg = "N",
     .help = "guide by the averages of the guide's checkpoints at step N", .said = "default: as without --step", .when = {{USE_NEEDS, "--guide"}},
     .stamp = STAMP_OTHERWISE},
    {"--class", .type = OPTION_TEXT, REQUEST(class), .arg = "C",
     .help = "class of all pictures by number or name, or several, taken in turns: pants,shirt; all: picture i has class i mod their "
             "number; labels: the cluster of an item of --labels",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "class", .counts = of_all},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed; picture i depends on seed and i alone", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "seed"},
    {"--step", .type = OPTION_INT, REQUEST(step), .lo = 1, .hi = 1e15, .arg = "N",
     .help = "sample the averages of the experts' checkpoints at step N", .said = "default: the weights; of a run in training its newest average",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--noise", .type = OPTION_CHOICE, REQUEST(noise), .arg = "KIND", .choices = sample_noises, .preset = "philox",
     .help = "philox, or torch: what torch.randn of a CPU gives for the seed", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "noise"},
    {"--frames", .type = OPTION_INT, REQUEST(frames), .lo = 1, .hi = 65536, .arg = "F", .help = "frames of a clip",
     .said = "default: those of the training's clips", .when = {{USE_INPUT, "experts of clips"}}, .stamp = STAMP_OTHERWISE},
    {"--first-frame", .type = OPTION_TEXT, REQUEST(first_frame), .arg = "SAMPLES",
     .help = "begin the clips with this picture, or with those of a tar or folder, one for each clip",
     .when = {{USE_INPUT, "experts that read a first frame"}}, .stamp = STAMP_OTHERWISE},
    {"--labels", .type = OPTION_TEXT, REQUEST(labels), .arg = "FILE", .help = "assignments of reference items, for --route oracle",
     .when = {{USE_NEEDS, "--route=*oracle* --class=labels"}}, .stamp = STAMP_OTHERWISE},
    {"--centroids", .type = OPTION_TEXT, REQUEST(centroids), .arg = "FILE", .help = "centroids of ddm-cluster, for --route distance",
     .when = {{USE_NEEDS, "--route=*distance*"}}, .stamp = STAMP_OTHERWISE},
    {"--features", .type = OPTION_TEXT, REQUEST(features), .arg = "KIND", .choices = networks,
     .help = "the network of the centroids, as ddm-cluster's: dinov2:PATH, clip:PATH or inception:PATH", .when = {{USE_NEEDS, "--centroids"}},
     .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Reports"),
    {"--grid", .type = OPTION_TEXT, REQUEST(grid), .arg = "FILE", .help = "write a contact sheet of the first 400 pictures as PNG", OPTION_ALWAYS},
    {"--report", .type = OPTION_TEXT, REQUEST(report), .arg = "FILE", .help = "write the routing's statistics and GFLOP per picture as JSON",
     OPTION_ALWAYS},
    {"--log", .type = OPTION_TEXT, REQUEST(log), .arg = "FILE", .help = "write every picture's weights at every step as JSON lines", OPTION_ALWAYS},
    {"--timing", .type = OPTION_TEXT, REQUEST(timing), .arg = "FILE", .help = "write seconds and pictures per second as JSON", OPTION_ALWAYS},
    OPTION_GROUP("Weights"),
    {"--expert-time", .type = OPTION_CHOICE, REQUEST(convert), .arg = "HOW", .choices = sample_converts,
     .help = "ask experts on another path at equal noise (match) or at equal time (native)", .said = "default match",
     .when = {{USE_INPUT, "a flow solver"}}, .was = "--convert", .stamp = STAMP_UNLESS_DEFAULT, .key = "convert"},
    {"--weight-dtype", .type = OPTION_CHOICE, REQUEST(dtype), .arg = "TYPE", .choices = sample_dtypes,
     .help = "how the experts' matrices are held and multiplied", .said = "default bf16 on a GPU, f32 on the CPU", OPTION_ALWAYS, .was = "--weights",
     .stamp = STAMP_UNLESS_DEFAULT, .key = "weights"},
    {"--encoder-weight-dtype", .type = OPTION_CHOICE, REQUEST(encoder_dtype), .arg = "TYPE", .choices = encoder_weights,
     .help = "how the matrices of the text encoder and the autoencoder are held and multiplied", .said = "default f32",
     .when = {{USE_INPUT, "a text encoder or an autoencoder"}}, .was = "--encoder-weights", .stamp = STAMP_UNLESS_DEFAULT, .key = "encoder_weights"},
    {"--map", .type = OPTION_FLAG, REQUEST(map), .help = "leave f32 matrices in their files, mapped; changes no result", OPTION_ALWAYS},
    {0},
};

const struct option sample_output_options[] = {
    OPTION_GROUP("Decoding and text"),
    {"--format", .type = OPTION_CHOICE, REQUEST(format), .arg = "NAME", .choices = sample_formats,
     .help = "png, jpg, webp (lossless), npz (arr_0, of all pictures), clip (of clips, as .npy of bytes) or latent (what the experts make, as .npy)",
     .said = "default: as -o ends, else clip for clips in a tar, else png", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "format"},
    {"--vae", .type = OPTION_TEXT, REQUEST(vae), .arg = "DIR", .help = "the autoencoder that decodes latents", .said = "default MODEL/vae",
     .when = {{USE_AGAINST, "--format=latent"}}, .stamp = STAMP_OTHERWISE},
    {"--tile", .type = OPTION_FLAG, REQUEST(tile), .help = "decode large pictures by overlapping tiles, in less memory",
     .when = {{USE_AGAINST, "--format=latent"}, {USE_INPUT, "an autoencoder"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "tile"},
    {"--text-encoder", .type = OPTION_TEXT, REQUEST(text_encoder), .arg = "DIR", .help = "folder of a text encoder and its tokenizer",
     .said = "default MODEL", .when = {{USE_AGAINST, "--text-features"}, OF_TEXTS}, .stamp = STAMP_OTHERWISE},
    {"--text-features", .type = OPTION_TEXT, REQUEST(text_features), .arg = "FILE",
     .help = "features of the prompts, .npy (n, tokens, width) or .npz, in place of an encoder", .when = {OF_TEXTS}, .stamp = STAMP_OTHERWISE},
    {"--negative-features", .type = OPTION_TEXT, REQUEST(negative_features), .arg = "FILE",
     .help = "features of the negative prompt, .npy (tokens, width) or .npz", .when = {{USE_NEEDS, "--cfg --preset"}, OF_TEXTS},
     .stamp = STAMP_OTHERWISE},
    {0},
};

const struct option sample_machine_options[] = {
    OPTION_GROUP("Machine and output"),
    {"--resident", .type = OPTION_TEXT, REQUEST(resident), .arg = "N", .choices = residents, .preset = "auto",
     .help = "experts that a GPU's memory holds at a time, or 20G: those that fit; changes no result", .said = "default auto, into what is free",
     OPTION_ALWAYS},
    {"--first", .type = OPTION_INT, REQUEST(first), .hi = SAMPLE_MOST - 1, .arg = "I", .preset = "0", .help = "number of the first picture",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "first", .counts = of_all},
    {"--batch", .type = OPTION_INT, REQUEST(batch), .lo = 1, .hi = 65536, .arg = "N", .preset = "64",
     .help = "pictures at once; changes no result on the CPU", OPTION_ALWAYS},
    {"--batch-invariant", .type = OPTION_FLAG, REQUEST(invariant), .help = "nor on a GPU, which takes longer then", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "batch_invariant"},
    {"--spread", .type = OPTION_CHOICE, REQUEST(spread), .arg = "WHAT", .choices = sample_spreads, .preset = "pictures",
     .help = "what several ranks share: the pictures, the experts, or both branches of guidance and the experts", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .help = "one picture (.png, .jpg, .webp), a folder (DIR/), or else a tar",
     .said = "default -, standard output; none where --grid is all", OPTION_ALWAYS},
    {0},
};

struct sample_request sample_defaults(void)
{
	struct sample_request q = {.preset = -1, .timesteps = -1, .cfg = NAN, .convert = -1, .dtype = -1, .encoder_dtype = -1, .format = -1};

	option_presets(sample_options, &q);
	option_presets(sample_output_options, &q);
	option_presets(sample_machine_options, &q);
	return q;
}

void sampleoptions_stamp(struct stamp *s, const struct sample_request *settled)
{
	static const struct option *const tables[] = {sample_options, sample_machine_options, NULL};

	optionstamp_put(s, tables, settled,
	                "route solver times noise steps seed cfg cfg_channels cfg_interval cfg_rescale cfg_after_mixing guidance convert weights "
	                "encoder_weights batch_invariant class first n");
}

void sampleoptions_stamp_output(struct stamp *s, const struct sample_request *settled)
{
	static const struct option *const tables[] = {sample_output_options, NULL};

	optionstamp_put(s, tables, settled, "format tile");
}
