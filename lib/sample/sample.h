/* Samples pictures from a model: the library interface of ddm-sample.
 *
 *	struct sample_request q = sample_defaults();
 *	struct sample_hooks hooks = {.picture = show};
 *	struct sampling *s;
 *
 *	q.model = "MODEL";
 *	q.prompt = "a red bicycle";
 *	q.route = "top-2";
 *	if (!(s = sampling_new(&q, &hooks, &e)) || sampling_run(s, device, &e))
 *		fprintf(stderr, "%s\n", e.msg);
 *	sampling_free(s);
 *
 * Pictures go to the hook, and to a file, a folder or an archive if the request names one. Nothing is printed: messages go to the hooks. Picture i
 * depends only on the request, its seed and i; on the CPU the batch size and the number of threads do not change it. */
#ifndef DDM_SAMPLE_SAMPLE_H
#define DDM_SAMPLE_SAMPLE_H

#include <signal.h>
#include <stdint.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "diffusion/guidance.h"
#include "file/still.h"
#include "kernels/device.h"

enum { SAMPLE_MOST = 1000000 }; /* pictures; file names have six digits */

enum sample_format { FORMAT_PNG, FORMAT_WEBP, FORMAT_NPZ, FORMAT_LATENT, FORMAT_JPG, FORMAT_CLIP };
enum sample_spread { SPREAD_PICTURES, SPREAD_EXPERTS, SPREAD_GUIDANCE };
enum sample_dtype { SAMPLE_F32, SAMPLE_BF16, SAMPLE_INT8, SAMPLE_TF32 };

/* Names of choices, in the order of their numbers; NULL at the end. */
extern const char *const sample_presets[];   /* "paris" */
extern const char *const sample_timesteps[]; /* "even", "paris" */
extern const char *const sample_noises[];    /* "philox", "torch" */
extern const char *const sample_formats[];   /* of enum sample_format */
extern const char *const sample_converts[];  /* "match", "native": enum convert_mode */
extern const char *const sample_dtypes[];    /* of enum sample_dtype */
extern const char *const sample_spreads[];   /* of enum sample_spread */

/* A request; ddm-sample(1) describes each option. All strings are borrowed until sampling_free; NULL: not given. */
struct sample_request {
	const char *model; /* folder with experts and a router, or with one network */

	/* Pictures. */
	int64_t each;            /* number of pictures; with prompts, per prompt */
	const char *prompt;      /* one prompt for all pictures, for experts that read text */
	const char *prompts;     /* file of prompts, "-": standard input; excludes `prompt` */
	const char *negative;    /* negative prompt, "" by default */
	const char *class;       /* number or name, a list separated by commas, "all" or "labels" */
	const char *centroids;   /* file: centroids of ddm-cluster, for routes with the weights "distance" */
	const char *features;    /* KIND:PATH as in metric/extractor.h: the network of the centroids' features; NULL: they need none */
	const char *first_frame; /* samples whose first frames the clips begin with: one for all, or one of each clip; NULL: none */
	const char *labels;      /* file: table of reference items, for route "oracle" and class "labels" */
	int64_t first;           /* number of the first picture */
	uint64_t seed;

	/* Sampling. */
	int preset;               /* into sample_presets; -1: none */
	const char *route;        /* routing policy (diffusion/policy.h); optional for a model of one network and with a preset */
	const char *solver;       /* diffusion/solverchoice.h; NULL: the model's pipeline decides, else "euler" */
	int64_t steps;            /* 0: the preset's, else 50 */
	int timesteps;            /* into sample_timesteps; -1: the preset's, else even */
	double cfg;               /* scale of classifier-free guidance; 1: none; NAN: the preset's, else 1 */
	int64_t cfg_channels;     /* guide only the first so many channels; 0: all */
	struct guidance guidance; /* how to guide; zeroed: classifier-free guidance inside each expert at all times */
	const char *guide;        /* model folder: guide away from its predictions, with the scale `cfg`; NULL: from those without the condition */
	int64_t guide_step;       /* as `step`, for the guide */
	int noise;                /* into sample_noises */
	int convert;              /* into sample_converts; -1: match */
	int64_t step;             /* use the averaged weights of the experts' checkpoints of this step; 0: the final weights */

	/* Weights and encoders. */
	int dtype;                     /* enum sample_dtype of the experts' matrices; -1: BF16 if the device's precision is BF16, else F32 */
	int encoder_dtype;             /* into encoder_weights (kernels/compact.h); -1: f32 */
	int map;                       /* map f32 matrices of the experts and the text encoder from their files */
	const char *resident;          /* experts in GPU memory at a time: "auto", a number, or a size like "20G" */
	const char *vae;               /* folder; NULL: the model's, if it has one */
	int tile;                      /* decode by overlapping tiles */
	const char *text_encoder;      /* folder; NULL: the model's */
	const char *text_features;     /* file of features; replaces the encoder */
	const char *negative_features; /* file of features; replaces `negative` */

	/* Outputs. Each file appears complete or not at all. An existing file of the same request is left alone; of another one it is an error. */
	const char *out; /* a picture (.png .jpg .webp .npy), an array (.npz), a folder (NAME/), else a tar; "-": tar on standard output */
	int64_t frames;  /* of clips; 0: as many as the experts were trained on */
	int format;      /* enum sample_format; -1: by the ending of `out`, else PNG, or of clips in a tar FORMAT_CLIP */
	const char *grid, *report, *log, *timing; /* files: contact sheet, statistics, routing weights of each picture, timing */

	/* The machine: no effect on results on the CPU. */
	int64_t batch;     /* pictures at once */
	struct comm *comm; /* ranks that share the work, each with the same request; NULL: this process alone. Borrowed */
	int spread;        /* enum sample_spread: what the ranks share */
	int invariant;     /* 1: `batch` does not affect results on a GPU either, which is slower */
};

/* The option tables of a request (core/option.h), and a request with their defaults: one picture, seed 0, no guidance, batches of 64; no model, no
 * route. */
extern const struct option sample_options[], sample_output_options[], sample_machine_options[];
struct sample_request sample_defaults(void);

/* Callbacks of a run; each may be NULL. */
struct sample_hooks {
	void (*picture)(void *arg, int64_t index, const struct picture *p); /* in order; p is borrowed for the call; not with FORMAT_LATENT */
	void (*say)(void *arg, const char *line);                           /* a line of information: what is resumed, what was made */
	void (*warn)(void *arg, const char *line);                          /* a warning */
	void (*profile)(void *arg, const char *line); /* a line of the table of times by operation, at the end; NULL: no profiling */
	void *arg;
	struct progress progress;    /* called with "pictures"; non-zero: stop with ERR_AGAIN */
	volatile sig_atomic_t *stop; /* non-zero: progress will ask for a stop, and the saved part of a tar is kept to be resumed */
};

struct sampling;

/* Check the request as far as possible without the model, claim its outputs and read prompts and labels. Copies *q and *hooks; hooks may be NULL.
 * On failure NULL: ERR_USAGE names the wrong option of ddm-sample; also ERR_DATA, ERR_NOINPUT, ERR_EXISTS. Caller frees with sampling_free. */
struct sampling *sampling_new(const struct sample_request *q, const struct sample_hooks *hooks, struct err *e);

/* With a comm, rank 0 does what is said above, and the others draw pictures or run experts for it until it is done; they call no hook, and claim and
 * write nothing.
 * ERR_EXISTS if the ranks were given other options or models, or are of another build; ERR_UNAVAILABLE names a rank that is lost.
 *
 * Draw and write all pictures; call it once. Borrows the device and sets its precision; the device's pool encodes the pictures. If all outputs of
 * this request exist, it says so and returns 0. ERR_AGAIN: stopped; ERR_USAGE: the model does not support the request. */
int sampling_run(struct sampling *s, struct device *device, struct err *e);

/* Free everything and give up the claims on outputs that were not written. NULL is allowed. Call before the device is freed. */
void sampling_free(struct sampling *s);

#endif
