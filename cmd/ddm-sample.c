/* Pictures from an ensemble of experts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/sample.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "core/version.h"
#include "data/textencoder.h"
#include "diffusion/ensemble.h"
#include "diffusion/gallery.h"
#include "diffusion/sampler.h"
#include "diffusion/solverchoice.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "kernels/profile.h"

enum { SHEET_LIMIT = 400, MOST = 1000000 };
static const double PARIS_LAST = .001;

static int64_t each, count, steps = 50, first_image, batch = 64, threads;
static uint64_t seed;
static double cfg = 1;
static int cfg_given, steps_given, times_given, tile, map, invariant;
static const char *route, *class_text, *labels_path, *grid_path, *report_path, *log_path, *timing_path, *out_path = "-", *device = "auto";
static const char *prompt_text, *prompts_path, *negative = "", *features_path, *away_path, *encoder_path, *vae_path;
static int times_choice, noise_choice, format_choice, preset_choice = -1;
static int64_t cfg_channels;
static const char *resident = "auto";
static const char *solver; /* once settled, never NULL */
static struct scheduler_solver scheduled;
static int convert_choice = -1, weights_choice = -1, encoders_choice, profile;
static const char *const times[] = {"even", "paris", NULL}, *const presets[] = {"paris", NULL}, *const noises[] = {"philox", "torch", NULL};
static const char *const formats[] = {[FORMAT_PNG] = "png", [FORMAT_WEBP] = "webp", [FORMAT_NPZ] = "npz", [FORMAT_LATENT] = "latent", NULL};
static const char *const converts[] = {"match", "native", NULL};
enum { WEIGHTS_F32, WEIGHTS_BF16, WEIGHTS_INT8, WEIGHTS_TF32 };
static const char *const weight_types[] = {"f32", "bf16", "int8", "tf32", NULL};
static const char *const residents[] = {"auto", NULL};
static const char *const routes[] = {"top-1", "top-2", "full", "threshold:", "switch:", "sample", "oracle", "prior", "expert:", NULL};

static const struct opt options[] = {
    OPT_GROUP("Pictures"),
    {"--count", 'n', OPT_INT, &each, 1, MOST, "N", "how many pictures; of every prompt, where there are prompts (default 1)", NULL, NULL},
    {"--prompt", 0, OPT_TEXT, &prompt_text, 0, 0, "TEXT", "what the pictures show, for experts that read text", NULL, NULL},
    {"--prompts", 0, OPT_TEXT, &prompts_path, 0, 0, "FILE",
     "prompts, one a line, or as JSON objects with a seed each; - is standard input", NULL, NULL},
    {"--negative", 0, OPT_TEXT, &negative, 0, 0, "TEXT", "what guidance leads away from (default nothing)", NULL, NULL},
    OPT_GROUP("Sampling"), {"--preset", 0, OPT_CHOICE, &preset_choice, 0, 0, "NAME",
     "the released sampler of a model: for paris --route top-2 --steps 50 --timesteps paris --cfg 7.5", presets, NULL},
    {"--route", 0, OPT_TEXT, &route, 0, 0, "HOW",
     "top-K, full, threshold:P, switch:T, sample, oracle, prior, expert:I", routes, NULL},
    {"--solver", 0, OPT_TEXT, &solver, 0, 0, "NAME",
     "euler, heun; on the experts' own path ddpm, ddim, euler-discrete, dpm++1, dpm++2m and others; NAME,KEY=VALUE.. (default euler, or as a "
     "pipeline's scheduler says)",
     solver_names, NULL},
    {"--steps", 0, OPT_INT, &steps, 1, 100000, "N", "steps from noise to picture (default 50)", NULL, &steps_given},
    {"--timesteps", 0, OPT_CHOICE, &times_choice, 0, 0, "HOW",
     "steps of equal length (even), or to .001 and a last one to 0 (paris) (default even)", times, &times_given},
    {"--cfg", 0, OPT_REAL, &cfg, -100, 100, "S", "classifier-free guidance; 1 is none (default 1)", NULL, &cfg_given},
    {"--cfg-channels", 0, OPT_INT, &cfg_channels, 1, 65536, "N", "guide the first N channels alone (default: all)", NULL, NULL},
    {"--class", 0, OPT_TEXT, &class_text, 0, 0, "C",
     "class of all pictures; all: picture i has class i mod their number; labels: the cluster of an item of --labels", NULL, NULL},
    {"--seed", 0, OPT_U64, &seed, 0, 0, "S", "seed; picture i depends on seed and i alone (default 0)", NULL, NULL},
    {"--noise", 0, OPT_CHOICE, &noise_choice, 0, 0, "KIND",
     "philox, or torch: what torch.randn of a CPU gives for the seed (default philox)", noises, NULL},
    {"--labels", 0, OPT_TEXT, &labels_path, 0, 0, "FILE", "assignments of reference items, for --route oracle", NULL, NULL},
    OPT_GROUP("Reports"), {"--grid", 0, OPT_TEXT, &grid_path, 0, 0, "FILE", "write a contact sheet of the first 400 pictures as PNG", NULL, NULL},
    {"--report", 0, OPT_TEXT, &report_path, 0, 0, "FILE",
     "write the routing's statistics and GFLOP per picture as JSON", NULL, NULL},
    {"--log", 0, OPT_TEXT, &log_path, 0, 0, "FILE", "write every picture's weights at every step as JSON lines", NULL, NULL},
    {"--timing", 0, OPT_TEXT, &timing_path, 0, 0, "FILE", "write seconds and pictures per second as JSON", NULL, NULL},
    OPT_GROUP("Weights"), {"--expert-time", 0, OPT_CHOICE, &convert_choice, 0, 0, "HOW",
     "ask experts on another path at equal noise (match) or at equal time (native) (default match)", converts, NULL},
    {"--weight-dtype", 0, OPT_CHOICE, &weights_choice, 0, 0, "TYPE",
     "how the experts' matrices are held and multiplied (default bf16 on a GPU, f32 on the CPU)", weight_types, NULL},
    {"--encoder-weight-dtype", 0, OPT_CHOICE, &encoders_choice, 0, 0, "TYPE",
     "how the matrices of the text encoder and the autoencoder are held and multiplied (default f32)", encoder_weights, NULL},
    {"--map", 0, OPT_FLAG, &map, 0, 0, NULL, "leave f32 matrices in their files, mapped; changes no result", NULL, NULL},
    OPT_GROUP("Decoding and text"), {"--format", 0, OPT_CHOICE, &format_choice, 0, 0, "NAME",
     "png, webp (lossless), npz (arr_0, of all pictures) or latent (what the experts make, as .npy) (default png)", formats, NULL},
    {"--vae", 0, OPT_TEXT, &vae_path, 0, 0, "DIR", "the autoencoder that decodes latents (default MODEL/vae)", NULL, NULL},
    {"--tile", 0, OPT_FLAG, &tile, 0, 0, NULL, "decode large pictures by overlapping tiles, in less memory", NULL, NULL},
    {"--text-encoder", 0, OPT_TEXT, &encoder_path, 0, 0, "DIR", "folder of a text encoder and its tokenizer (default MODEL)", NULL, NULL},
    {"--text-features", 0, OPT_TEXT, &features_path, 0, 0, "FILE",
     "features of the prompts, .npy (n, tokens, width) or .npz, in place of an encoder", NULL, NULL},
    {"--negative-features", 0, OPT_TEXT, &away_path, 0, 0, "FILE",
     "features of what guidance leads away from, .npy (tokens, width) or .npz", NULL, NULL},
    OPT_GROUP("Machine and output"), {"--resident", 0, OPT_TEXT, &resident, 0, 0, "N",
     "experts that a GPU's memory holds at a time, or 20G: those that fit; changes no result (default auto, into what is free)", residents, NULL},
    {"--first", 0, OPT_INT, &first_image, 0, MOST - 1, "I", "number of the first picture (default 0)", NULL, NULL},
    {"--batch", 0, OPT_INT, &batch, 1, 65536, "N", "pictures at once; changes no result on the CPU (default 64)", NULL, NULL},
    {"--batch-invariant", 0, OPT_FLAG, &invariant, 0, 0, NULL, "nor on a GPU, which takes longer then", NULL, NULL},
    {"--threads", 0, OPT_INT, &threads, 0, 1024, "N", "threads; changes no result (default: all there are)", NULL, NULL},
    {"--device", 0, OPT_TEXT, &device, 0, 0, "NAME", "auto, cpu, cuda or cuda:N: where to compute (default auto)", NULL, NULL},
    {"--profile", 0, OPT_FLAG, &profile, 0, 0, NULL, "time every operation and print a table at the end", NULL, NULL},
    {"--output", 'o', OPT_TEXT, &out_path, 0, 0, "FILE", "where the samples go (default -, standard output)", NULL, NULL},
    {0},
};

static const struct program program = {
    "ddm-sample",
    "[-n N] [--prompt TEXT] [--prompts FILE] [--negative TEXT] [--preset NAME] [--route HOW] [--solver NAME] "
    "[--steps N] [--timesteps HOW] [--cfg S] [--cfg-channels N] [--class C] [--seed S] [--noise KIND] [--labels FILE] [--grid FILE] [--report FILE] "
    "[--log FILE] [--timing FILE] [--expert-time HOW] [--weight-dtype TYPE] [--encoder-weight-dtype TYPE] [--map] [--format NAME] [--vae DIR] "
    "[--tile] [--text-encoder DIR] [--text-features FILE] [--negative-features FILE] [--resident N] [--first I] [--batch N] [--batch-invariant] "
    "[--threads N] [--device NAME] [--profile] [-o FILE] MODEL",
    "Make pictures with an ensemble of experts, from noise and from words; a tar of NNNNNN.png",
    options,
};

/* Everything a run needs; zeroed is nothing yet. */
struct run {
	struct policy policy;
	struct solver_choice solver;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct mixture mixture;
	struct sampler sampler;
	double *grid; /* (steps + 1), or NULL */
	struct sampler_state *state;
	struct reference labels;
	int64_t class; /* or one of CLASS_ */
	int labelled;  /* --class labels */
	struct mixture_stats stats;
	int64_t *assigned; /* (k) pictures whose heaviest expert at the end is k */
	struct outfile log;
	struct output out;
	struct prompts prompts;
	struct text_request words;
	struct text_source *text; /* NULL: the experts read none */
	char *encoder, *vae;      /* folders, or NULL */
	char vae_hash[65];
	struct picture sheet;
	int64_t sheet_n;
	struct profile *profile; /* NULL: not asked for */
	struct progress show, tell; /* of the terminal; of the sampler */
	/* one batch */
	float *x;         /* (batch, d) */
	int64_t at, rows; /* pictures before it, and in it */
	int64_t *index, *prompt, *draw, *of; /* (batch): number, prompt, number of the noise of its seed, and of how many */
	uint64_t *seeds;  /* (batch) */
	int32_t *wanted, *away; /* (batch) rows of the texts */
	int32_t *label, *chosen, *heaviest; /* (batch) */
	double *weights;  /* (batch, steps, k), with --log */
	struct output_item *item; /* (batch) */
};

enum { CLASS_NONE = -1, CLASS_ALL = -2, CLASS_LABELS = -3 };

static int check_outputs(struct err *e)
{
	const char *const paths[] = {out_path, grid_path, report_path, log_path, timing_path};

	return output_claim(paths, sizeof paths / sizeof *paths, e);
}

/* That of the command, or what a pipeline of diffusers says, where nothing is asked for that is of the flow alone. */
static int settle_solver(struct run *r, const char *dir, struct err *e)
{
	int rc = solver || times_given || convert_choice >= 0 || preset_choice >= 0 ? 0 : ensemble_solver(&scheduled, dir, e);

	if (rc < 0)
		return -1;
	if (rc > 0) {
		solver = scheduled.text;
		times_choice = scheduled.last_is_small;
	} else if (!solver) {
		solver = "euler";
	}
	return solver_parse(solver, &r->solver, e) ? err_prefix(e, "--solver") : 0;
}

static int check_request(struct run *r, const char *dir, struct err *e)
{
	if (prompt_text && prompts_path)
		return err_set(e, ERR_USAGE, "--prompt and --prompts: one of them");
	if (!each && !prompt_text && !prompts_path && !features_path)
		return err_set(e, ERR_USAGE, "-n is missing: how many pictures");
	if (preset_choice == 0) {
		route = route ? route : "top-2";
		steps = steps_given ? steps : 50;
		times_choice = times_given ? times_choice : 1;
		cfg = cfg_given ? cfg : 7.5;
	}
	if (!route)
		return err_set(e, ERR_USAGE, "--route is missing: top-K, full, threshold:P, switch:T, sample, oracle, prior or expert:I");
	if (policy_parse(route, &r->policy, e))
		return err_prefix(e, "--route");
	if (settle_solver(r, dir, e))
		return -1;
	if (r->solver.discrete && convert_choice >= 0)
		return err_set(e, ERR_USAGE, "--expert-time is for euler and heun: %s asks experts on their own path", r->solver.name);
	if (r->solver.discrete && times_choice)
		return err_set(e, ERR_USAGE, "--timesteps is for euler and heun: %s takes spacing=HOW", r->solver.name);
	convert_choice = convert_choice < 0 ? 0 : convert_choice;
	r->labelled = class_text && !strcmp(class_text, "labels");
	if (r->labelled && !labels_path)
		return err_set(e, ERR_USAGE, "--class labels needs --labels, a table with a column 'cluster'");
	if (r->policy.kind == POLICY_ORACLE && !labels_path)
		return err_set(e, ERR_USAGE, "--route oracle needs --labels, a table with a column 'cluster'");
	if (r->policy.kind != POLICY_ORACLE && !r->labelled && labels_path)
		return err_set(e, ERR_USAGE, "--labels is for --route oracle or --class labels");
	if (format_choice == FORMAT_NPZ && !strcmp(out_path, "-"))
		return err_set(e, ERR_USAGE, "--format npz goes to a file: -o FILE");
	return check_outputs(e);
}

static int check_classes(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->class = CLASS_NONE;
	if (class_text && !s->classes)
		return err_set(e, ERR_USAGE, "--class %s: the model knows no classes", class_text);
	if (class_text && !strcmp(class_text, "all"))
		r->class = CLASS_ALL;
	else if (r->labelled)
		r->class = CLASS_LABELS;
	else if (class_text && parse_i64(class_text, 0, s->classes - 1, &r->class))
		return err_set(e, ERR_USAGE, "--class %s: neither 'all' nor 'labels' nor in 0..%d, the classes of the model", class_text, s->classes - 1);
	if (!class_text && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--class is missing: this model was trained without the null label");
	if (cfg != 1 && r->class == CLASS_NONE && !s->text_tokens)
		return err_set(e, ERR_USAGE, "--cfg %g without --class: there is nothing to guide towards", cfg);
	if (cfg != 1 && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--cfg %g: this model was trained without the null label", cfg);
	return 0;
}

/* What decodes the latents: that of the command, else the model's own. */
static int find_vae(struct run *r, const char *dir, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const char *published = s->channels == 4 ? "sd-vae-ft-mse" : NULL;
	char *own = path_join(dir, "vae");

	r->out = (struct output){.format = (enum sample_format)format_choice,
	                         .channels = s->channels,
	                         .size = s->size,
	                         .picture_channels = s->channels,
	                         .picture_size = s->size,
	                         .tile = tile, .pool = r->pool};
	if (vae_path)
		r->vae = mem_strdup(vae_path);
	else if (path_exists(own))
		r->vae = mem_strdup(own);
	mem_free(own);
	if (format_choice == FORMAT_LATENT)
		return grid_path ? err_set(e, ERR_USAGE, "--grid is of pictures, not of --format latent") : 0;
	if (r->vae)
		return autoencoder_hash(r->vae, AUTOENCODER_DECODE, r->vae_hash, e) ? err_lacking(e, published) : 0;
	if (s->channels != 1 && s->channels != 3)
		return err_set(e, ERR_USAGE,
		               "%s: makes %lld channels, which is not a picture; --vae DIR (fetch-weights %s) decodes them, --format latent keeps them",
		               dir, (long long)s->channels, published ? published : "--list");
	return 0;
}

static int open_text(struct run *r, const char *dir, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const char *published = textencoder_published(s->text_width);

	if (!s->text_tokens && (prompt_text || prompts_path || features_path || away_path))
		return err_set(e, ERR_USAGE, "%s: reads no text", dir);
	if (!s->text_tokens)
		return 0;
	if (!prompt_text && !prompts_path && !features_path)
		return err_set(e, ERR_USAGE, "%s: reads text: --prompt, --prompts or --text-features tells which", dir);
	if (features_path && cfg != 1 && !away_path)
		return err_set(e, ERR_USAGE, "--text-features with --cfg %g needs --negative-features: what guidance leads away from", cfg);
	r->encoder = encoder_path ? mem_strdup(encoder_path) : path_join(dir, "text_encoder");
	if (!features_path && !encoder_path && !path_exists(r->encoder))
		return err_set(e, ERR_USAGE, "%s: has no text_encoder; --text-encoder (fetch-weights %s) or --text-features stands for it", dir,
		               published ? published : "--list");
	r->words = (struct text_request){.prompts = &r->prompts,
	                                 .negative = negative,
	                                 .encoder = r->encoder,
	                                 .features = features_path,
	                                 .away = away_path,
	                                 .tokens = s->text_tokens,
	                                 .width = s->text_width,
	                                 .masked = s->masked,
	                                 .lower = s->lower,
	                                 .guided = cfg != 1,
	                                 .bulk = (enum compact_type)encoders_choice,
	                                 .device = r->device};
	return (r->text = text_open(&r->words, e)) ? 0 : -1;
}

static int count_pictures(struct run *r, struct err *e)
{
	int64_t of = r->text ? text_count(r->text) : 1;

	each = each ? each : 1;
	if (of > MOST || first_image + each * of > MOST)
		return err_set(e, ERR_USAGE, "pictures are numbered up to %d: --first %lld and %lld pictures go beyond", MOST - 1, (long long)first_image,
		               (long long)each * (of < MOST ? of : MOST));
	count = each * of;
	return 0;
}

static int parse_resident(struct resident *r, struct err *e)
{
	if (!strcmp(resident, "auto") || !parse_i64(resident, 1, 4096, &r->experts) || (!parse_size(resident, &r->bytes) && r->bytes))
		return 0;
	return err_set(e, ERR_USAGE, "--resident %s: neither 'auto' nor a number of experts nor a size like 20G", resident);
}

static int open_model(struct run *r, const char *dir, struct err *e)
{
	static const enum compact_type bulk[] = {COMPACT_NONE, COMPACT_BF16, COMPACT_INT8, COMPACT_NONE};
	struct ensemble_options o = {.policy = r->policy,
	                             .mode = (enum convert_mode)convert_choice,
	                             .own = r->solver.discrete,
	                             .capacity = batch * (cfg == 1 ? 1 : 2),
	                             .bulk = map ? COMPACT_VIEW : bulk[weights_choice],
	                             .device = r->device};
	struct ensemble *s = &r->ensemble;

	if (map && weights_choice != WEIGHTS_F32)
		return err_set(e, ERR_USAGE, "--map is for --weight-dtype f32: %s are made of what is in the files", weight_types[weights_choice]);
	if (device_set_precision(r->device, weights_choice == WEIGHTS_TF32 ? PRECISION_TF32 : PRECISION_F32, e))
		return -1;
	if (parse_resident(&o.resident, e))
		return -1;
	if (ensemble_open(s, dir, &o, e))
		return err_lacking(e, NULL);
	if (check_classes(r, e))
		return -1;
	if (find_vae(r, dir, e) || open_text(r, dir, e) || count_pictures(r, e))
		return -1;
	for (int64_t i = 0; i < r->labels.n; i++) {
		if (r->labelled && r->labels.cluster[i] >= s->classes)
			return err_set(e, ERR_DATA, "%s: an item of cluster %d, but %s knows %d classes", labels_path,
			               r->labels.cluster[i], dir, s->classes);
		if (r->policy.kind == POLICY_ORACLE &&
		    (r->labels.cluster[i] >= s->k || !s->expert[r->labels.cluster[i]].velocity))
			return err_set(e, ERR_DATA, "%s: an item of cluster %d, but %s has no such expert", labels_path,
			               r->labels.cluster[i], dir);
	}
	r->mixture = (struct mixture){.k = s->k,
	                              .d = s->d,
	                              .expert = s->expert,
	                              .router = s->router.logits ? &s->router : NULL,
	                              .policy = r->policy,
	                              .cfg = cfg,
	                              .seed = seed,
	                              .device = r->device};
	if (r->solver.discrete) {
		r->mixture.out = s->out;
		r->mixture.own = &s->schedule->path;
	}
	if (cfg_channels > s->channels)
		return err_set(e, ERR_USAGE, "--cfg-channels %lld: %s has %lld", (long long)cfg_channels, dir, (long long)s->channels);
	r->mixture.guided = cfg_channels * s->size * s->size;
	return 0;
}

/* What determines a picture, apart from its index. */
static struct stamp *stamp_base(uint64_t of)
{
	struct stamp *s = stamp_new("ddm-sample");

	stamp_text(s, "route", route);
	stamp_text(s, "solver", solver);
	if (times_choice)
		stamp_text(s, "times", times[times_choice]);
	if (noise_choice)
		stamp_text(s, "noise", noises[noise_choice]);
	stamp_i64(s, "steps", steps);
	stamp_u64(s, "seed", of);
	if (cfg != 1)
		stamp_f64(s, "cfg", cfg);
	if (cfg_channels)
		stamp_i64(s, "cfg_channels", cfg_channels);
	if (convert_choice)
		stamp_text(s, "convert", converts[convert_choice]);
	if (weights_choice)
		stamp_text(s, "weights", weight_types[weights_choice]);
	if (encoders_choice)
		stamp_text(s, "encoder_weights", encoder_weights[encoders_choice]);
	if (invariant)
		stamp_i64(s, "batch_invariant", 1);
	return s;
}

/* What the experts read and what becomes of their numbers. */
static void stamp_output(const struct run *r, struct stamp *s)
{
	if (format_choice)
		stamp_text(s, "format", formats[format_choice]);
	if (tile && *r->vae_hash)
		stamp_i64(s, "tile", 1);
	if (*r->vae_hash)
		stamp_input(s, "vae", r->vae_hash);
	if (r->text)
		text_stamp(r->text, s);
}

static struct stamp *stamp_run(const struct run *r)
{
	struct stamp *s = stamp_base(seed);
	char hash[65];

	if (class_text)
		stamp_text(s, "class", class_text);
	stamp_i64(s, "first", first_image);
	stamp_i64(s, "n", each);
	stamp_output(r, s);
	if (r->prompts.n == 1 && !r->prompts.v->negative && !r->prompts.v->seeded) {
		stamp_text(s, "prompt", r->prompts.v->text);
	} else if (r->prompts.n) {
		prompts_hash(&r->prompts, hash);
		stamp_input(s, "prompts", hash);
	}
	if (r->text && cfg != 1 && !away_path)
		stamp_text(s, "negative", negative);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	return s;
}

static char *stamp_picture(const struct run *r, int64_t i)
{
	struct stamp *s = stamp_base(r->seeds[i]);
	const struct prompt *p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;
	char *line;

	stamp_i64(s, "index", r->index[i]);
	if (r->draw[i] != r->index[i])
		stamp_i64(s, "draw", r->draw[i]);
	if (p)
		stamp_text(s, "prompt", p->text);
	else if (r->text)
		stamp_i64(s, "text", r->prompt[i]);
	if (r->text && cfg != 1 && !away_path)
		stamp_text(s, "negative", p && p->negative ? p->negative : negative);
	if (r->label)
		stamp_i64(s, "class", r->label[i]);
	if (r->policy.kind == POLICY_ORACLE)
		stamp_i64(s, "expert", r->chosen[i]);
	stamp_output(r, s);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_input(s, "model", r->ensemble.hash);
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

static int missing_reports(void)
{
	return (grid_path && !path_exists(grid_path)) || (report_path && !path_exists(report_path)) || (log_path && !path_exists(log_path));
}

/* 1 when -o and everything else that was asked for is there from the same command, 0 when there is work, -1 when the name is
 * taken. */
static int finished(const struct run *r, struct err *e)
{
	struct stat st;
	struct tar_reader *t;
	struct tar_member m;
	struct stamp *stamp;
	struct str what = {0};
	struct err bad = {0};
	int more, rc = -1;

	if (!strcmp(out_path, "-") || stat(out_path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	stamp = stamp_run(r);
	if (format_choice == FORMAT_NPZ) {
		rc = standing_check(out_path, stamp, 0, e) ? -1 : 1;
		stamp_free(stamp);
		return rc == 1 && missing_reports() ? 0 : rc;
	}
	t = tar_open(out_path, NULL, &bad);
	more = t ? tar_next(t, &m, &bad) : -1;
	if (more < 0 || !tar_stamp(t) || (rc = stamp_differs(stamp, tar_stamp(t), &what)) < 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and is not an output of this program", out_path);
	else if (rc > 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and was made with other options: %s", out_path, str_text(&what));
	else
		rc = 1;
	while (rc == 1 && more > 0)
		more = tar_next(t, &m, &bad);
	if (rc == 1 && more < 0)
		rc = err_set(e, bad.code, "%s", bad.msg);
	tar_close(t);
	stamp_free(stamp);
	str_release(&what);
	return rc == 1 && missing_reports() ? 0 : rc;
}

static void observe(void *arg, int64_t step, double t, int64_t n, const double *w)
{
	struct run *r = arg;
	int k = r->ensemble.k;

	(void)t;
	for (int64_t i = 0; i < n; i++)
		memcpy(r->weights + (i * steps + step) * k, w + i * k, (size_t)k * sizeof *w);
}

static int tell(void *arg, const char *what, int64_t done, int64_t total)
{
	struct run *r = arg;

	(void)what;
	return progress_tell(&r->show, "pictures", r->at + r->rows * done / total, count);
}

static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)batch;

	r->grid = r->solver.discrete ? NULL : flow_grid_new(&r->solver.grid, steps, times_choice);
	r->sampler = (struct sampler){.mixture = &r->mixture,
	                              .solver = {r->solver.kind, steps, 1, 0, times_choice ? PARIS_LAST : 0, r->grid},
	                              .discrete = r->solver.discrete ? &r->solver.how : NULL,
	                              .schedule = s->schedule,
	                              .kind = s->kind,
	                              .seed = seed,
	                              .batch = batch,
	                              .torch = noise_choice,
	                              .shares = s->shares,
	                              .class_shares = s->class_shares,
	                              .classes = s->classes,
	                              .observe = log_path ? observe : NULL,
	                              .observe_arg = r,
	                              .order = ensemble_order,
	                              .order_arg = &r->ensemble,
	                              .progress = &r->tell};
	r->show = cmd_progress();
	r->tell = (struct progress){tell, r};
	if (!(r->state = sampler_new(&r->sampler, e)) || !(r->x = mem_try(n * (size_t)s->d, sizeof *r->x, "pictures", e)))
		return -1;
	if (log_path && !(r->weights = mem_try(n * (size_t)steps * (size_t)s->k, sizeof *r->weights, "router weights", e)))
		return -1;
	r->index = mem_zalloc(n, sizeof *r->index);
	r->chosen = mem_zalloc(n, sizeof *r->chosen);
	r->heaviest = mem_zalloc(n, sizeof *r->heaviest);
	if (r->class != CLASS_NONE)
		r->label = mem_zalloc(n, sizeof *r->label);
	r->prompt = mem_zalloc(n, sizeof *r->prompt);
	r->draw = mem_zalloc(n, sizeof *r->draw);
	r->of = mem_zalloc(n, sizeof *r->of);
	r->seeds = mem_zalloc(n, sizeof *r->seeds);
	r->wanted = mem_zalloc(n, sizeof *r->wanted);
	r->away = mem_zalloc(n, sizeof *r->away);
	r->item = mem_zalloc(n, sizeof *r->item);
	r->assigned = mem_zalloc((size_t)s->k, sizeof *r->assigned);
	mixture_stats_init(&r->stats, s->k, steps);
	r->sheet_n = grid_path ? (count < SHEET_LIMIT ? count : SHEET_LIMIT) : 0;
	return r->sheet_n ? gallery_sheet(&r->sheet, r->sheet_n, 0, r->out.picture_channels, r->out.picture_size, e) : 0;
}

/* Also checks that outputs can be written before any work is done. */
static int open_outputs(struct run *r, struct err *e)
{
	struct stamp *stamp = stamp_run(r);
	char *line = stamp_line(stamp);
	int rc = -1;

	if (!(grid_path && standing_check(grid_path, stamp, 0, e)) && !output_start(&r->out, out_path, line, count, e) &&
	    !(format_choice == FORMAT_NPZ && stamp_sidecar(stamp, out_path, e)))
		rc = log_path ? outfile_open(&r->log, log_path, e) : 0;
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static void put_on_sheet(void *arg, int64_t i, const struct picture *p)
{
	struct run *r = arg;
	int64_t place = r->index[i] - first_image;

	if (place < r->sheet_n)
		gallery_put(&r->sheet, place, r->sheet_n, 0, p);
}

static int write_batch(struct run *r, int64_t n, struct err *e)
{
	int rc;

	for (int64_t i = 0; i < n; i++)
		r->item[i] = (struct output_item){str_new("%06lld", (long long)r->index[i]), stamp_picture(r, i),
		                                  r->prompts.n ? r->prompts.v[r->prompt[i]].text : NULL};
	rc = output_write(&r->out, n, r->x, r->item, put_on_sheet, r, e);
	for (int64_t i = 0; i < n; i++) {
		if (!rc && log_path)
			rc = sample_log(&r->log, r->index[i], r->weights + i * steps * r->ensemble.k, steps, r->ensemble.k, e);
		r->assigned[r->heaviest[i]]++;
	}
	return rc;
}

static int32_t class_of(const struct run *r, int64_t i)
{
	if (r->class == CLASS_LABELS)
		return r->chosen[i];
	return (int32_t)(r->class == CLASS_ALL ? r->index[i] % r->ensemble.classes : r->class);
}

/* Picture i of the batch: its number, prompt and noise. A prompt with a seed of its own has the same pictures wherever it stands. */
static void choose(struct run *r, int64_t i)
{
	int64_t at = r->at + i;
	const struct prompt *p;

	r->index[i] = first_image + at;
	r->prompt[i] = at / each;
	p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;
	r->seeds[i] = p && p->seeded ? p->seed : seed;
	r->draw[i] = p && p->seeded ? at % each : r->index[i];
	r->of[i] = p && p->seeded ? each : first_image + count;
	if (r->labels.n)
		r->chosen[i] = reference_cluster(&r->labels, r->index[i], seed);
	if (r->label)
		r->label[i] = class_of(r, i);
}

static int sample_batch(struct run *r, int64_t n, struct err *e)
{
	struct sampler_call c = {
	    .n = n, .index = r->draw, .seed = r->seeds, .of = r->of, .label = r->label, .chosen = r->chosen, .text = r->wanted, .away = r->away};

	for (int64_t i = 0; i < n; i++)
		choose(r, i);
	if (r->text && text_batch(r->text, n, r->prompt, r->wanted, r->away, &c.texts, e))
		return -1;
	return sampler_run(r->state, r->x, &c, r->heaviest, &r->stats, e) || write_batch(r, n, e) ? -1 : 0;
}

static int sample_all(struct run *r, struct err *e)
{
	for (r->at = 0; r->at < count; r->at += batch) {
		r->rows = count - r->at < batch ? count - r->at : batch;
		if (sample_batch(r, r->rows, e))
			return -1;
	}
	progress_tell(&r->show, "pictures", count, count);
	return 0;
}

static int write_sheet(struct run *r, struct err *e)
{
	struct stamp *stamp = stamp_run(r);
	char *line = stamp_line(stamp);
	struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", line}};
	uint8_t *data = NULL;
	size_t len;
	int rc = still_encode_png(&r->sheet, text, 2, &data, &len, e);

	if (!rc)
		rc = commit_bytes(grid_path, data, len, e);
	mem_free(data);
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static int write_reports(struct run *r, double seconds, struct err *e)
{
	return sample_report(&(struct sample_summary){.count = count,
	                                              .steps = steps,
	                                              .evaluations = sampler_evaluations(&r->sampler),
	                                              .bytes = ensemble_bytes(&r->ensemble),
	                                              .route = route,
	                                              .solver = solver,
	                                              .weights = weight_types[weights_choice],
	                                              .seconds = seconds,
	                                              .device = r->device,
	                                              .mixture = &r->mixture,
	                                              .stats = &r->stats,
	                                              .assigned = r->assigned,
	                                              .pager = r->ensemble.pager},
	                     report_path, timing_path, e);
}

static void say_line(void *arg, const char *text)
{
	(void)arg;
	cmd_say("%s", text);
}

static int load_prompts(struct run *r, struct err *e)
{
	if (prompt_text)
		prompts_add(&r->prompts, prompt_text);
	return prompts_path ? prompts_load(&r->prompts, prompts_path, e) : 0;
}

/* The encoder is gone before any expert's weights are read, and before the autoencoder comes. */
static int encode_texts(struct run *r, struct err *e)
{
	int64_t cut;

	if (r->text && text_encode(r->text, &cut, e))
		return -1;
	if (r->text && cut)
		cmd_warn("%lld prompts are longer than the experts read: their ends are lost", (long long)cut);
	return *r->vae_hash ? output_vae(&r->out, r->vae, (enum compact_type)encoders_choice, r->device, batch, e) : 0;
}

/* The samples come last: where they are, everything else is. */
static int work(struct run *r, const char *dir, struct err *e)
{
	double start;
	int done;

	if (check_request(r, dir, e) || (labels_path && reference_load(&r->labels, labels_path, e)) || load_prompts(r, e))
		return -1;
	if (!(r->pool = pool_new((int)threads, e)) || !(r->device = open_device(device, r->pool, e)))
		return -1;
	invariant &= !r->device->host; /* there it changes nothing */
	device_set_invariant(r->device, invariant);
	if (weights_choice < 0)
		weights_choice = device_precision(r->device) == PRECISION_BF16 ? WEIGHTS_BF16 : WEIGHTS_F32;
	if (open_model(r, dir, e) || (done = finished(r, e)) < 0)
		return -1;
	if (done) {
		cmd_say("%s: complete, nothing to do", out_path);
		return 0;
	}
	if (encode_texts(r, e) || prepare(r, e) || open_outputs(r, e))
		return -1;
	if (profile)
		r->profile = profile_new(r->device);
	start = clock_seconds();
	if (sample_all(r, e) || write_reports(r, clock_seconds() - start, e))
		return -1;
	if (profile)
		profile_table(r->profile, say_line, NULL);
	if ((r->sheet_n && write_sheet(r, e)) || (log_path && outfile_commit(&r->log, e)))
		return -1;
	return output_finish(&r->out, e);
}

static void release(struct run *r)
{
	output_release(&r->out);
	outfile_abort(&r->log);
	text_free(r->text);
	prompts_release(&r->prompts);
	mem_free(r->encoder);
	mem_free(r->vae);
	picture_release(&r->sheet);
	profile_free(r->profile);
	sampler_free(r->state);
	mixture_stats_release(&r->stats);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	pool_free(r->pool);
	reference_release(&r->labels);
	mem_free(r->assigned);
	mem_free(r->grid);
	mem_free(r->x);
	mem_free(r->index);
	mem_free(r->label);
	mem_free(r->chosen);
	mem_free(r->heaviest);
	mem_free(r->weights);
	mem_free(r->item);
	mem_free(r->prompt);
	mem_free(r->draw);
	mem_free(r->of);
	mem_free(r->seeds);
	mem_free(r->wanted);
	mem_free(r->away);
}

int main(int argc, char **argv)
{
	static struct run r;
	struct err e = {0};

	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	work(&r, argv[1], &e);
	release(&r);
	return cmd_end(&e);
}
