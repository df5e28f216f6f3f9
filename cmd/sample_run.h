/* One run of ddm-sample: what was asked for, and everything that the parts of the program work with. ddm-sample.c fills `ask` from the
 * command line and draws; sample_request.c and sample_model.c settle what is asked for, without and with the model; sample_stamp.c says what
 * the pictures depend on; sample_draw.c draws them; sample_resume.c goes on after a process that was killed. */
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
	int64_t steps, step, first, batch, threads, cfg_channels;
	uint64_t seed;
	double cfg;
	int cfg_given, steps_given, times_given, format_given, encoders_given, tile, map, invariant, profile, quiet;
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
	int32_t *classes; /* (class_count) of CLASS_LIST */
	int64_t class_count;
	char *class_text; /* by number, as stamps have it */
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
	char lone_route[24];    /* of a model that is one network */
	enum sink_kind sink;    /* where the samples go */
	int64_t kept;           /* pictures that a process which went before has finished */
	int64_t *bytes;         /* (k + 1) of the weights that were in memory */
	double started, before; /* clock_seconds at the first picture; seconds that were spent on those kept */
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

enum { CLASS_NONE = -1, CLASS_ALL = -2, CLASS_LABELS = -3, CLASS_LIST = -4 };

/* The options among themselves, before the model is read: sets policy, solver and what a preset fills in. */
int sample_request(struct run *r, const char *dir, struct err *e);
/* Opens the model, finds what reads texts and what decodes latents, and counts the pictures. */
int sample_open_model(struct run *r, const char *dir, struct err *e);

/* What the output depends on; caller frees with stamp_free. Of picture i of the batch, as a line that mem_free frees. */
struct stamp *sample_stamp(const struct run *r);
char *sample_picture_stamp(const struct run *r, int64_t i);
/* 1 when -o and everything else that was asked for is there from the same command, 0 when there is work, -1 when the name is taken. */
int sample_finished(struct run *r, struct err *e);

/* ---- drawing ---- */

void sample_rows(struct run *r); /* room for what is told of the pictures of a batch */
int sample_prepare(struct run *r, struct err *e);
/* Picture i of the batch that begins with picture r->at: its number, prompt and noise. */
void sample_choose(struct run *r, int64_t i);
int sample_all(struct run *r, struct err *e); /* from r->kept on */

/* ---- going on ---- */

/* What a tar's bytes depend on, beyond which it cannot be gone on with; NULL where it cannot at all. Caller frees with mem_free. */
char *sample_resume_key(const struct run *r, const char *stamp);
/* After output_start, which said `on`: r->kept, and with it the counts and the sheet; says so. */
int sample_resume(struct run *r, int on, const char *stamp, struct err *e);
/* Between two batches, once `done` pictures are written. */
int sample_save(struct run *r, int64_t done, struct err *e);
/* At the end, whatever happened: whether what was saved stays; says so. */
int sample_keep(const struct run *r, const struct err *e);
void sample_count_bytes(struct run *r); /* into r->bytes */

#endif
