/* Makes pictures with an ensemble of experts. */
#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/pool.h"
#include "diffusion/route.h"
#include "diffusion/solverchoice.h"
#include "sample/sample.h"

static struct sample_request request; /* from the library's defaults */
static const char *device_name = "auto";
static int64_t threads;
static int profile, quiet;

static const char *const residents[] = {"auto", NULL};

static const struct option options[] = {
    OPTION_GROUP("Pictures"),
    {"--count", 'n', OPTION_INT, &request.each, 1, SAMPLE_MOST, "N",
     "how many pictures; of every prompt, where there are prompts (default 1)", OPTION_ALWAYS},
    {"--prompt", 0, OPTION_TEXT, &request.prompt, 0, 0, "TEXT", "what the pictures show, for experts that read text",
     .when = {{USE_INPUT, "a model that reads text"}}},
    {"--prompts", 0, OPTION_TEXT, &request.prompts, 0, 0, "FILE",
     "prompts, one a line, or as JSON objects with a seed each; - is standard input", .when = {{USE_INPUT, "a model that reads text"}}},
    {"--negative", 0, OPTION_TEXT, &request.negative, 0, 0, "TEXT", "what guidance leads away from (default nothing)",
     .when = {{USE_NEEDS, "--cfg --preset"}, {USE_AGAINST, "--negative-features"}, {USE_INPUT, "a model that reads text"}}},
    OPTION_GROUP("Sampling"),
    {"--preset", 0, OPTION_CHOICE, &request.preset, 0, 0, "NAME",
     "the released sampler of a model: for paris --route top-2 --steps 50 --timesteps paris --cfg 7.5", sample_presets, OPTION_ALWAYS},
    {"--route", 0, OPTION_TEXT, &request.route, 0, 0, "HOW", POLICY_FORMS, policy_words, OPTION_ALWAYS},
    {"--solver", 0, OPTION_TEXT, &request.solver, 0, 0, "NAME",
     "euler, heun; on the experts' own path ddpm, ddim, euler-discrete, dpm++1, dpm++2m and others; NAME,KEY=VALUE.. (default euler, or as a "
     "pipeline's scheduler says)",
     solver_names, OPTION_ALWAYS},
    {"--steps", 0, OPTION_INT, &request.steps, 1, 100000, "N", "steps from noise to picture (default 50)", OPTION_ALWAYS},
    {"--timesteps", 0, OPTION_CHOICE, &request.timesteps, 0, 0, "HOW",
     "steps of equal length (even), or to .001 and a last one to 0 (paris) (default even)", sample_timesteps,
     .when = {{USE_INPUT, "euler or heun"}}, .was = "--times"},
    {"--cfg", 0, OPTION_REAL, &request.cfg, -100, 100, "S", "classifier-free guidance; 1 is none (default 1)", OPTION_ALWAYS},
    {"--cfg-channels", 0, OPTION_INT, &request.cfg_channels, 1, 65536, "N", "guide the first N channels alone (default: all)",
     .when = {{USE_NEEDS, "--cfg --preset"}}},
    {"--class", 0, OPTION_TEXT, &request.class, 0, 0, "C",
     "class of all pictures by number or name, or several, taken in turns: pants,shirt; all: picture i has class i mod their "
     "number; labels: the cluster of an item of --labels", OPTION_ALWAYS},
    {"--seed", 0, OPTION_U64, &request.seed, 0, 0, "S", "seed; picture i depends on seed and i alone (default 0)", OPTION_ALWAYS},
    {"--step", 0, OPTION_INT, &request.step, 1, 1e15, "N",
     "sample the averages of the experts' checkpoints at step N (default: the weights; of a run in training its newest average)",
     OPTION_ALWAYS},
    {"--noise", 0, OPTION_CHOICE, &request.noise, 0, 0, "KIND",
     "philox, or torch: what torch.randn of a CPU gives for the seed (default philox)", sample_noises, OPTION_ALWAYS},
    {"--labels", 0, OPTION_TEXT, &request.labels, 0, 0, "FILE", "assignments of reference items, for --route oracle",
     .when = {{USE_NEEDS, "--route=oracle --class=labels"}}},
    OPTION_GROUP("Reports"),
    {"--grid", 0, OPTION_TEXT, &request.grid, 0, 0, "FILE", "write a contact sheet of the first 400 pictures as PNG", OPTION_ALWAYS},
    {"--report", 0, OPTION_TEXT, &request.report, 0, 0, "FILE",
     "write the routing's statistics and GFLOP per picture as JSON", OPTION_ALWAYS},
    {"--log", 0, OPTION_TEXT, &request.log, 0, 0, "FILE", "write every picture's weights at every step as JSON lines", OPTION_ALWAYS},
    {"--timing", 0, OPTION_TEXT, &request.timing, 0, 0, "FILE", "write seconds and pictures per second as JSON", OPTION_ALWAYS},
    OPTION_GROUP("Weights"),
    {"--expert-time", 0, OPTION_CHOICE, &request.convert, 0, 0, "HOW",
     "ask experts on another path at equal noise (match) or at equal time (native) (default match)", sample_converts,
     .when = {{USE_INPUT, "euler or heun"}}, .was = "--convert"},
    {"--weight-dtype", 0, OPTION_CHOICE, &request.dtype, 0, 0, "TYPE",
     "how the experts' matrices are held and multiplied (default bf16 on a GPU, f32 on the CPU)", sample_dtypes,
     OPTION_ALWAYS, .was = "--weights"},
    {"--encoder-weight-dtype", 0, OPTION_CHOICE, &request.encoder_dtype, 0, 0, "TYPE",
     "how the matrices of the text encoder and the autoencoder are held and multiplied (default f32)", encoder_weights,
     .when = {{USE_INPUT, "a text encoder or an autoencoder"}}, .was = "--encoder-weights"},
    {"--map", 0, OPTION_FLAG, &request.map, 0, 0, NULL, "leave f32 matrices in their files, mapped; changes no result", OPTION_ALWAYS},
    OPTION_GROUP("Decoding and text"),
    {"--format", 0, OPTION_CHOICE, &request.format, 0, 0, "NAME",
     "png, jpg, webp (lossless), npz (arr_0, of all pictures) or latent (what the experts make, as .npy) "
     "(default: as -o ends, else png)", sample_formats, OPTION_ALWAYS},
    {"--vae", 0, OPTION_TEXT, &request.vae, 0, 0, "DIR", "the autoencoder that decodes latents (default MODEL/vae)",
     .when = {{USE_AGAINST, "--format=latent"}}},
    {"--tile", 0, OPTION_FLAG, &request.tile, 0, 0, NULL, "decode large pictures by overlapping tiles, in less memory",
     .when = {{USE_AGAINST, "--format=latent"}, {USE_INPUT, "an autoencoder"}}},
    {"--text-encoder", 0, OPTION_TEXT, &request.text_encoder, 0, 0, "DIR", "folder of a text encoder and its tokenizer (default MODEL)",
     .when = {{USE_AGAINST, "--text-features"}, {USE_INPUT, "a model that reads text"}}},
    {"--text-features", 0, OPTION_TEXT, &request.text_features, 0, 0, "FILE",
     "features of the prompts, .npy (n, tokens, width) or .npz, in place of an encoder",
     .when = {{USE_INPUT, "a model that reads text"}}},
    {"--negative-features", 0, OPTION_TEXT, &request.negative_features, 0, 0, "FILE",
     "features of what guidance leads away from, .npy (tokens, width) or .npz",
     .when = {{USE_NEEDS, "--cfg --preset"}, {USE_INPUT, "a model that reads text"}}},
    OPTION_GROUP("Machine and output"),
    {"--resident", 0, OPTION_TEXT, &request.resident, 0, 0, "N",
     "experts that a GPU's memory holds at a time, or 20G: those that fit; changes no result (default auto, into what is free)", residents,
     OPTION_ALWAYS},
    {"--first", 0, OPTION_INT, &request.first, 0, SAMPLE_MOST - 1, "I", "number of the first picture (default 0)", OPTION_ALWAYS},
    {"--batch", 0, OPTION_INT, &request.batch, 1, 65536, "N", "pictures at once; changes no result on the CPU (default 64)", OPTION_ALWAYS},
    {"--batch-invariant", 0, OPTION_FLAG, &request.invariant, 0, 0, NULL, "nor on a GPU, which takes longer then", OPTION_ALWAYS},
    {"--threads", 0, OPTION_INT, &threads, 0, 1024, "N", "threads; changes no result (default: all there are)", OPTION_ALWAYS},
    {"--device", 0, OPTION_TEXT, &device_name, 0, 0, "NAME", "auto, cpu, cuda or cuda:N: where to compute (default auto)", OPTION_ALWAYS},
    {"--profile", 0, OPTION_FLAG, &profile, 0, 0, NULL, "time every operation and print a table at the end", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, &request.out, 0, 0, "FILE",
     "one picture (.png, .jpg, .webp), a folder (DIR/), or else a tar (default -, standard output; none where --grid is all)",
     OPTION_ALWAYS},
    {"--quiet", 'q', OPTION_FLAG, &quiet, 0, 0, NULL, "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-sample",
    .operands = "MODEL",
    .about = "Make pictures with an ensemble of experts, from noise and from words; a tar of NNNNNN.png, a folder, or one file",
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

static void sample(struct err *e)
{
	const struct sample_hooks hooks = {
	    .say = quiet ? NULL : say, .warn = warn, .profile = profile ? say : NULL, .progress = cmd_progress(), .stop = &cmd_signal};
	struct sampling *s;
	struct pool *pool = NULL;
	struct device *device = NULL;

	if (cmd_binary(request.out, "-o FILE.png, -o FILE.tar, -o DIR/ or a pipe takes pictures", e) || cmd_binary(request.grid, "--grid FILE.png", e))
		return;
	s = sampling_new(&request, &hooks, e);
	if (s && (pool = pool_new((int)threads, e)) && (device = open_device(device_name, pool, e)))
		sampling_run(s, device, e);
	sampling_free(s);
	device_free(device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};

	request = sample_defaults();
	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	request.model = argv[1];
	if (!request.out && !request.grid)
		request.out = "-";
	sample(&e);
	return cmd_end(&e);
}
