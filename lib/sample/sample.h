/* Sampling: from a model and a request to pictures, as ddm-sample does it.
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
 * The pictures go to the hook, to a file, a folder or an archive, or to several of them. Nothing is printed: what there is to say goes to the
 * hooks. Picture i depends on the request, its seed and i alone: on the CPU neither the batch nor the number of threads changes it. */
#ifndef DDM_SAMPLE_SAMPLE_H
#define DDM_SAMPLE_SAMPLE_H

#include <signal.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "file/still.h"
#include "kernels/device.h"

enum { SAMPLE_MOST = 1000000 }; /* pictures: their names have six digits */

enum sample_format { FORMAT_PNG, FORMAT_WEBP, FORMAT_NPZ, FORMAT_LATENT, FORMAT_JPG };
enum sample_dtype { SAMPLE_F32, SAMPLE_BF16, SAMPLE_INT8, SAMPLE_TF32 };

/* The names of these choices, NULL-terminated, in the order of their numbers. */
extern const char *const sample_presets[];    /* "paris" */
extern const char *const sample_timesteps[];  /* "even", "paris" */
extern const char *const sample_noises[];     /* "philox", "torch" */
extern const char *const sample_formats[];    /* of enum sample_format */
extern const char *const sample_converts[];   /* "match", "native": enum convert_mode */
extern const char *const sample_dtypes[];     /* of enum sample_dtype */

/* What is asked for: ddm-sample(1) describes each. All strings are borrowed until sampling_free; NULL: not asked for. */
struct sample_request {
	const char *model; /* folder of experts and a router, or of one network */

	/* Pictures. */
	int64_t each;         /* how many; of every prompt, where there are prompts */
	const char *prompt;   /* of all pictures; for experts that read text */
	const char *prompts;  /* file of prompts, "-": standard input; or `prompt` */
	const char *negative; /* negative prompt, "" by default */
	const char *class;    /* number or name, several between commas, "all" or "labels" */
	const char *labels;   /* table of reference items, for route "oracle" and class "labels" */
	int64_t first;        /* number of the first picture */
	uint64_t seed;

	/* Sampling. */
	int preset;           /* into sample_presets; -1: none */
	const char *route;    /* routing policy (diffusion/route.h); needed unless the model is one network or a preset names it */
	const char *solver;   /* diffusion/solverchoice.h; NULL: that of the model's pipeline, else "euler" */
	int64_t steps;        /* 0: that of the preset, else 50 */
	int timesteps;        /* into sample_timesteps; -1: that of the preset, else even */
	double cfg;           /* scale of classifier-free guidance; 1: none; NAN: that of the preset, else 1 */
	int64_t cfg_channels; /* guide so many channels only; 0: all */
	int noise;            /* into sample_noises */
	int convert;          /* into sample_converts; -1: match */
	int64_t step;         /* of the experts' checkpoints whose averages are sampled; 0: the weights */

	/* Weights and encoders. */
	int dtype;                     /* enum sample_dtype of the experts' matrices; -1: BF16 where the device computes so, else F32 */
	int encoder_dtype;             /* into encoder_weights (kernels/compact.h); -1: f32 */
	int map;                       /* leave f32 matrices in their files: those of the experts and the text encoder */
	const char *resident;          /* how many experts a GPU's memory holds: "auto", a number, or a size like "20G" */
	const char *vae;               /* folder; NULL: that of the model, if it has one */
	int tile;                      /* decode by overlapping tiles */
	const char *text_encoder;      /* folder; NULL: that of the model */
	const char *text_features;     /* file, instead of an encoder */
	const char *negative_features; /* file, instead of encoding `negative` */

	/* Outputs. Each file appears whole or not at all; a file of the same request is left alone, one of another is an error. */
	const char *out; /* a picture (.png .jpg .webp .npy), an array (.npz), a folder (NAME/), else a tar; "-": tar on standard output */
	int format;      /* enum sample_format; -1: as `out` ends, else PNG */
	const char *grid, *report, *log, *timing; /* contact sheet, numbers of the run, weights of each picture, seconds */

	/* The machine: changes no result on the CPU. */
	int64_t batch; /* pictures at once */
	int invariant; /* nor on a GPU */
};

/* The tables that fill a request (core/option.h), and the defaults they give: 64 pictures at once, no guidance, one picture, seed 0; neither a
 * model nor a route. */
extern const struct option sample_options[], sample_output_options[], sample_machine_options[];
struct sample_request sample_defaults(void);

/* What a long run tells, each NULL where nobody listens. */
struct sample_hooks {
	void (*picture)(void *arg, int64_t index, const struct picture *p); /* each in order; p until it returns. Not with FORMAT_LATENT */
	void (*say)(void *arg, const char *line);     /* facts worth a line: what is gone on with, what was made */
	void (*warn)(void *arg, const char *line);    /* what the user should know although nothing failed */
	void (*profile)(void *arg, const char *line); /* a table of times by operation at the end; NULL: nothing is timed */
	void *arg;
	struct progress progress;    /* "pictures"; non-zero: stop with ERR_AGAIN */
	volatile sig_atomic_t *stop; /* non-zero: progress will ask to stop, and what a tar holds by then is kept for the same request */
};

struct sampling;

/* Checks all of the request that can be checked without the model, claims its outputs and reads prompts and labels. NULL: ERR_USAGE names the
 * option of ddm-sample that is wrong; ERR_DATA, ERR_NOINPUT, ERR_EXISTS. hooks may be NULL; *hooks is copied, *q too. */
struct sampling *sampling_new(const struct sample_request *q, const struct sample_hooks *hooks, struct err *e);

/* Draws and writes all pictures, once. The device is borrowed and its precision is set; its pool encodes the pictures. Where all outputs stand
 * already, says so and returns 0. ERR_AGAIN: stopped; ERR_USAGE where the model cannot do what is asked for. */
int sampling_run(struct sampling *s, struct device *device, struct err *e);

/* Also gives up the claims on outputs that were not written. NULL is allowed. Before the device is freed. */
void sampling_free(struct sampling *s);

#endif
