/* Pictures from an ensemble of experts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/sample_run.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "core/version.h"
#include "diffusion/gallery.h"
#include "file/commit.h"
#include "file/standing.h"

static struct run run = {.ask = {.steps = 50, .batch = 64, .cfg = 1, .device = "auto", .negative = "", .resident = "auto",
                                 .preset = -1, .convert = -1, .weights = -1}};

static const char *const presets[] = {"paris", NULL}, *const residents[] = {"auto", NULL};
static const char *const routes[] = {"top-1", "top-2", "full", "threshold:", "switch:", "sample", "oracle", "prior", "expert:", NULL};

static const struct opt options[] = {
    OPT_GROUP("Pictures"),
    {"--count", 'n', OPT_INT, &run.ask.each, 1, SAMPLE_MOST, "N",
     "how many pictures; of every prompt, where there are prompts (default 1)", NULL, NULL},
    {"--prompt", 0, OPT_TEXT, &run.ask.prompt, 0, 0, "TEXT", "what the pictures show, for experts that read text", NULL, NULL},
    {"--prompts", 0, OPT_TEXT, &run.ask.prompts, 0, 0, "FILE",
     "prompts, one a line, or as JSON objects with a seed each; - is standard input", NULL, NULL},
    {"--negative", 0, OPT_TEXT, &run.ask.negative, 0, 0, "TEXT", "what guidance leads away from (default nothing)", NULL, NULL},
    OPT_GROUP("Sampling"),
    {"--preset", 0, OPT_CHOICE, &run.ask.preset, 0, 0, "NAME",
     "the released sampler of a model: for paris --route top-2 --steps 50 --timesteps paris --cfg 7.5", presets, NULL},
    {"--route", 0, OPT_TEXT, &run.ask.route, 0, 0, "HOW",
     "top-K, full, threshold:P, switch:T, sample, oracle, prior, expert:I", routes, NULL},
    {"--solver", 0, OPT_TEXT, &run.ask.solver, 0, 0, "NAME",
     "euler, heun; on the experts' own path ddpm, ddim, euler-discrete, dpm++1, dpm++2m and others; NAME,KEY=VALUE.. (default euler, or as a "
     "pipeline's scheduler says)",
     solver_names, NULL},
    {"--steps", 0, OPT_INT, &run.ask.steps, 1, 100000, "N", "steps from noise to picture (default 50)", NULL, &run.ask.steps_given},
    {"--timesteps", 0, OPT_CHOICE, &run.ask.times, 0, 0, "HOW",
     "steps of equal length (even), or to .001 and a last one to 0 (paris) (default even)", sample_times, &run.ask.times_given},
    {"--cfg", 0, OPT_REAL, &run.ask.cfg, -100, 100, "S", "classifier-free guidance; 1 is none (default 1)", NULL, &run.ask.cfg_given},
    {"--cfg-channels", 0, OPT_INT, &run.ask.cfg_channels, 1, 65536, "N", "guide the first N channels alone (default: all)", NULL, NULL},
    {"--class", 0, OPT_TEXT, &run.ask.class, 0, 0, "C",
     "class of all pictures by number or name, or several, taken in turns: pants,shirt; all: picture i has class i mod their "
     "number; labels: the cluster of an item of --labels", NULL, NULL},
    {"--seed", 0, OPT_U64, &run.ask.seed, 0, 0, "S", "seed; picture i depends on seed and i alone (default 0)", NULL, NULL},
    {"--step", 0, OPT_INT, &run.ask.step, 1, 1e15, "N",
     "sample the averages of the experts' checkpoints at step N (default: the weights; of a run in training its newest average)", NULL, NULL},
    {"--noise", 0, OPT_CHOICE, &run.ask.noise, 0, 0, "KIND",
     "philox, or torch: what torch.randn of a CPU gives for the seed (default philox)", sample_noises, NULL},
    {"--labels", 0, OPT_TEXT, &run.ask.labels, 0, 0, "FILE", "assignments of reference items, for --route oracle", NULL, NULL},
    OPT_GROUP("Reports"),
    {"--grid", 0, OPT_TEXT, &run.ask.grid, 0, 0, "FILE", "write a contact sheet of the first 400 pictures as PNG", NULL, NULL},
    {"--report", 0, OPT_TEXT, &run.ask.report, 0, 0, "FILE",
     "write the routing's statistics and GFLOP per picture as JSON", NULL, NULL},
    {"--log", 0, OPT_TEXT, &run.ask.log, 0, 0, "FILE", "write every picture's weights at every step as JSON lines", NULL, NULL},
    {"--timing", 0, OPT_TEXT, &run.ask.timing, 0, 0, "FILE", "write seconds and pictures per second as JSON", NULL, NULL},
    OPT_GROUP("Weights"),
    {"--expert-time", 0, OPT_CHOICE, &run.ask.convert, 0, 0, "HOW",
     "ask experts on another path at equal noise (match) or at equal time (native) (default match)", sample_converts, NULL},
    {"--weight-dtype", 0, OPT_CHOICE, &run.ask.weights, 0, 0, "TYPE",
     "how the experts' matrices are held and multiplied (default bf16 on a GPU, f32 on the CPU)", sample_weights, NULL},
    {"--encoder-weight-dtype", 0, OPT_CHOICE, &run.ask.encoders, 0, 0, "TYPE",
     "how the matrices of the text encoder and the autoencoder are held and multiplied (default f32)", encoder_weights, &run.ask.encoders_given},
    {"--map", 0, OPT_FLAG, &run.ask.map, 0, 0, NULL, "leave f32 matrices in their files, mapped; changes no result", NULL, NULL},
    OPT_GROUP("Decoding and text"),
    {"--format", 0, OPT_CHOICE, &run.ask.format, 0, 0, "NAME",
     "png, jpg, webp (lossless), npz (arr_0, of all pictures) or latent (what the experts make, as .npy) "
     "(default: as -o ends, else png)", sample_formats, &run.ask.format_given},
    {"--vae", 0, OPT_TEXT, &run.ask.vae, 0, 0, "DIR", "the autoencoder that decodes latents (default MODEL/vae)", NULL, NULL},
    {"--tile", 0, OPT_FLAG, &run.ask.tile, 0, 0, NULL, "decode large pictures by overlapping tiles, in less memory", NULL, NULL},
    {"--text-encoder", 0, OPT_TEXT, &run.ask.encoder, 0, 0, "DIR", "folder of a text encoder and its tokenizer (default MODEL)", NULL, NULL},
    {"--text-features", 0, OPT_TEXT, &run.ask.features, 0, 0, "FILE",
     "features of the prompts, .npy (n, tokens, width) or .npz, in place of an encoder", NULL, NULL},
    {"--negative-features", 0, OPT_TEXT, &run.ask.away, 0, 0, "FILE",
     "features of what guidance leads away from, .npy (tokens, width) or .npz", NULL, NULL},
    OPT_GROUP("Machine and output"),
    {"--resident", 0, OPT_TEXT, &run.ask.resident, 0, 0, "N",
     "experts that a GPU's memory holds at a time, or 20G: those that fit; changes no result (default auto, into what is free)", residents, NULL},
    {"--first", 0, OPT_INT, &run.ask.first, 0, SAMPLE_MOST - 1, "I", "number of the first picture (default 0)", NULL, NULL},
    {"--batch", 0, OPT_INT, &run.ask.batch, 1, 65536, "N", "pictures at once; changes no result on the CPU (default 64)", NULL, NULL},
    {"--batch-invariant", 0, OPT_FLAG, &run.ask.invariant, 0, 0, NULL, "nor on a GPU, which takes longer then", NULL, NULL},
    {"--threads", 0, OPT_INT, &run.ask.threads, 0, 1024, "N", "threads; changes no result (default: all there are)", NULL, NULL},
    {"--device", 0, OPT_TEXT, &run.ask.device, 0, 0, "NAME", "auto, cpu, cuda or cuda:N: where to compute (default auto)", NULL, NULL},
    {"--profile", 0, OPT_FLAG, &run.ask.profile, 0, 0, NULL, "time every operation and print a table at the end", NULL, NULL},
    {"--output", 'o', OPT_TEXT, &run.ask.out, 0, 0, "FILE",
     "one picture (.png, .jpg, .webp), a folder (DIR/), or else a tar (default -, standard output; none where --grid is all)", NULL, NULL},
    {"--quiet", 'q', OPT_FLAG, &run.ask.quiet, 0, 0, NULL, "no report on stderr", NULL, NULL},
    {0},
};

static const struct program program = {
    "ddm-sample",
    "[-n N] [--prompt TEXT] [--prompts FILE] [--negative TEXT] [--preset NAME] [--route HOW] [--solver NAME] "
    "[--steps N] [--timesteps HOW] [--cfg S] [--cfg-channels N] [--class C] [--seed S] [--step N] [--noise KIND] [--labels FILE] [--grid FILE] "
    "[--report FILE] "
    "[--log FILE] [--timing FILE] [--expert-time HOW] [--weight-dtype TYPE] [--encoder-weight-dtype TYPE] [--map] [--format NAME] [--vae DIR] "
    "[--tile] [--text-encoder DIR] [--text-features FILE] [--negative-features FILE] [--resident N] [--first I] [--batch N] [--batch-invariant] "
    "[--threads N] [--device NAME] [--profile] [-o FILE] [-q] MODEL",
    "Make pictures with an ensemble of experts, from noise and from words; a tar of NNNNNN.png, a folder, or one file",
    options,
};

/* Also checks that outputs can be written before any work is done. */
static int open_outputs(struct run *r, struct err *e)
{
	struct stamp *stamp = sample_stamp(r);
	char *line = stamp_line(stamp), *same = sample_resume_key(r, line);
	int on = -1, rc = -1;

	if (!(r->ask.grid && standing_check(r->ask.grid, stamp, 0, e)))
		on = output_start(&r->out, r->sink, r->ask.out, line, same, r->ask.count, e);
	if (on >= 0 && !sample_resume(r, on, line, e) && !(r->sink == SINK_NPZ && stamp_sidecar(stamp, r->ask.out, e)))
		rc = r->ask.log ? outfile_open(&r->log, r->ask.log, e) : 0;
	mem_free(line);
	mem_free(same);
	stamp_free(stamp);
	return rc;
}

static int write_sheet(struct run *r, struct err *e)
{
	struct stamp *stamp = sample_stamp(r);
	char *line = stamp_line(stamp);
	struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", line}};
	uint8_t *data = NULL;
	size_t len;
	int rc = still_encode_png(&r->sheet, text, 2, &data, &len, e);

	if (!rc)
		rc = commit_bytes(r->ask.grid, data, len, e);
	mem_free(data);
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static int write_reports(struct run *r, double seconds, struct err *e)
{
	int64_t bytes = 0;

	sample_count_bytes(r);
	for (int i = 0; i <= r->ensemble.k; i++)
		bytes += r->bytes[i];
	return sample_report(&(struct sample_summary){.count = r->ask.count,
	                                              .steps = r->ask.steps,
	                                              .evaluations = sampler_evaluations(&r->sampler),
	                                              .bytes = bytes,
	                                              .route = r->ask.route,
	                                              .solver = r->ask.solver,
	                                              .weights = sample_weights[r->ask.weights],
	                                              .seconds = seconds,
	                                              .device = r->device,
	                                              .mixture = &r->mixture,
	                                              .stats = &r->stats,
	                                              .assigned = r->assigned,
	                                              .pager = r->ensemble.pager,
	                                              .quiet = r->ask.quiet},
	                     r->ask.report, r->ask.timing, e);
}

static void say_line(void *arg, const char *text)
{
	(void)arg;
	cmd_say("%s", text);
}

static int load_prompts(struct run *r, struct err *e)
{
	if (r->ask.prompt)
		prompts_add(&r->prompts, r->ask.prompt);
	return r->ask.prompts ? prompts_load(&r->prompts, r->ask.prompts, e) : 0;
}

/* The encoder is gone before any expert's weights are read, and before the autoencoder comes. */
static int encode_texts(struct run *r, struct err *e)
{
	int64_t cut;

	if (r->text && text_encode(r->text, &cut, e))
		return -1;
	if (r->text && cut)
		cmd_warn("%lld prompts are longer than the experts read: their ends are lost", (long long)cut);
	return *r->vae_hash ? output_vae(&r->out, r->vae, (enum compact_type)r->ask.encoders, r->device, r->ask.batch, e) : 0;
}

/* The samples come last: where they are, everything else is. */
static int work(struct run *r, const char *dir, struct err *e)
{
	int done;

	if (sample_request(r, dir, e) || (r->ask.labels && reference_load(&r->labels, r->ask.labels, e)) || load_prompts(r, e))
		return -1;
	if (!(r->pool = pool_new((int)r->ask.threads, e)) || !(r->device = open_device(r->ask.device, r->pool, e)))
		return -1;
	r->ask.invariant &= !r->device->host; /* there it changes nothing */
	device_set_invariant(r->device, r->ask.invariant);
	if (r->ask.weights < 0)
		r->ask.weights = device_precision(r->device) == PRECISION_BF16 ? SAMPLE_BF16 : SAMPLE_F32;
	if (sample_open_model(r, dir, e))
		return -1;
	sample_rows(r);
	if ((done = sample_finished(r, e)) < 0)
		return -1;
	if (done) {
		if (!r->ask.quiet)
			cmd_say("%s: complete, nothing to do", r->ask.out ? r->ask.out : r->ask.grid);
		return 0;
	}
	if (encode_texts(r, e) || sample_prepare(r, e) || open_outputs(r, e))
		return -1;
	if (r->ask.profile)
		r->profile = profile_new(r->device);
	r->started = clock_seconds();
	if (sample_all(r, e) || write_reports(r, r->before + clock_seconds() - r->started, e))
		return -1;
	if (r->ask.profile)
		profile_table(r->profile, say_line, NULL);
	if ((r->sheet_n && write_sheet(r, e)) || (r->ask.log && outfile_commit(&r->log, e)))
		return -1;
	return output_finish(&r->out, e);
}

static void release(struct run *r, int keep)
{
	output_release(&r->out, keep);
	outfile_abort(&r->log);
	text_free(r->text);
	prompts_release(&r->prompts);
	mem_free(r->encoder);
	mem_free(r->vae);
	mem_free(r->classes);
	mem_free(r->class_text);
	picture_release(&r->sheet);
	profile_free(r->profile);
	sampler_free(r->state);
	mixture_stats_release(&r->stats);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	pool_free(r->pool);
	reference_release(&r->labels);
	mem_free(r->assigned);
	mem_free(r->bytes);
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
	struct err e = {0};

	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	if (work(&run, argv[1], &e))
		ensemble_blame(&run.ensemble, argv[1], &e);
	release(&run, sample_keep(&run, &e));
	return cmd_end(&e);
}
