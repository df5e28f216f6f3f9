/* One run of ddm-sample: what was asked for, and everything that the parts of the program work with. ddm-sample.c fills `ask` from the
 * command line and draws; sample_request.c and sample_model.c settle what is asked for, without and with the model; sample_stamp.c says what
 * the pictures depend on. */
#ifndef DDM_CMD_SAMPLE_RUN_H
#define DDM_CMD_SAMPLE_RUN_H

#include "cmd/sample.h"
#include "core/clock.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "diffusion/scheduler.h"
#include "diffusion/solverchoice.h"
#include "file/stamp.h"
#include "kernels/profile.h"

enum { SAMPLE_MOST = 1000000 }; /* pictures, numbered by six digits */

/* The options. Paths are NULL where nothing was said. */
struct sample_ask {
	int64_t each, count; /* pictures of every prompt, and in all */
	int64_t steps, first, batch, threads, cfg_channels;
	uint64_t seed;
	double cfg;
	int cfg_given, steps_given, times_given, tile, map, invariant, profile;
	const char *route, *class, *labels, *grid, *report, *log, *timing, *out, *device;
	const char *prompt, *prompts, *negative, *features, *away, *encoder, *vae, *resident;
	const char *solver;                /* once settled, never NULL */
	struct scheduler_solver scheduled; /* that of a pipeline, where `solver` is its text */
	int times, noise, format;          /* into sample_times, sample_noises, sample_formats */
	int preset, convert, weights;      /* -1: not given; sample_converts, sample_weights */
	int encoders;                      /* into encoder_weights */
};

enum { SAMPLE_F32, SAMPLE_BF16, SAMPLE_INT8, SAMPLE_TF32 };
extern const char *const sample_times[], *const sample_noises[], *const sample_formats[], *const sample_converts[], *const sample_weights[];

/* Everything a run needs; zeroed is nothing yet. */
struct run {
	struct sample_ask ask;
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

/* The options among themselves, before the model is read: sets policy, solver and what a preset fills in. */
int sample_request(struct run *r, const char *dir, struct err *e);
/* Opens the model, finds what reads texts and what decodes latents, and counts the pictures. */
int sample_open_model(struct run *r, const char *dir, struct err *e);

/* What the output depends on; caller frees with stamp_free. Of picture i of the batch, as a line that mem_free frees. */
struct stamp *sample_stamp(const struct run *r);
char *sample_picture_stamp(const struct run *r, int64_t i);
/* 1 when -o and everything else that was asked for is there from the same command, 0 when there is work, -1 when the name is taken. */
int sample_finished(const struct run *r, struct err *e);

#endif
