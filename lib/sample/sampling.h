/* One sampling: what was asked for, and everything that the files of this folder work with. request.c and openmodel.c settle what is asked for,
 * without and with the model; samplestamp.c says what the pictures depend on, finished.c whether they are there already; draw.c draws them;
 * resume.c goes on after a process that was killed; samplereport.c writes numbers; sample.c puts these together. */
#ifndef DDM_SAMPLE_SAMPLING_H
#define DDM_SAMPLE_SAMPLING_H

#include "core/clock.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "diffusion/scheduler.h"
#include "diffusion/solverchoice.h"
#include "file/contactsheet.h"
#include "file/stamp.h"
#include "kernels/profile.h"
#include "sample/output.h"
#include "sample/prompts.h"
#include "sample/reference.h"
#include "sample/sample.h"
#include "sample/textsource.h"

struct sampling {
	struct sample_request ask; /* settled: nothing in it is a default any more */
	struct sample_hooks hooks;
	int64_t count;             /* pictures in all */
	struct scheduler_solver scheduled; /* of a pipeline, where ask.solver is its text */
	struct policy policy;
	struct solver_choice solver;
	struct device *device;
	int encoders_asked;        /* ask.encoder_dtype was given */
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
	struct textsource_options words;
	struct textsource *text; /* NULL: the experts read none */
	char *encoder, *vae;      /* folders, or NULL */
	char vae_hash[65];
	struct contactsheet layout; /* of the sheet */
	struct picture sheet;
	int64_t sheet_n;
	char lone_route[24];    /* of a model that is one network */
	enum sink_kind sink;    /* where the samples go */
	int64_t kept;           /* pictures that a process which went before has finished */
	int64_t *bytes;         /* (k + 1) of the weights that were in memory */
	double started, before; /* clock_seconds at the first picture; seconds that were spent on those kept */
	struct profile *profile; /* NULL: not asked for */
	struct progress tell; /* of the sampler */
	/* one batch */
	float *x;         /* (batch, d) */
	int64_t at, rows; /* pictures before it, and in it */
	int64_t *index, *prompt, *draw, *of; /* (batch): number, prompt, number of the noise of its seed, and of how many */
	uint64_t *seeds;  /* (batch) */
	int32_t *wanted, *negative; /* (batch) rows of the texts */
	int32_t *label, *chosen, *heaviest; /* (batch) */
	double *weights;  /* (batch, steps, k), with --log */
	struct output_item *item; /* (batch) */
};

enum { CLASS_NONE = -1, CLASS_ALL = -2, CLASS_LABELS = -3, CLASS_LIST = -4 };

/* A line to the hooks, printf-like. */
void sampling_say(const struct sampling *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sampling_warn(const struct sampling *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Checks the options against each other, before the model is read: sets policy, solver, sink and what a preset fills in. */
int request_settle(struct sampling *r, struct err *e);
/* Opens the model on r->device, finds what reads texts and what decodes latents, and counts the pictures. */
int sampling_open_model(struct sampling *r, struct err *e);

/* What the tables of options tell of a settled request: all of it, or of one picture where `each` is 0; then how pictures become files. */
void sampleoptions_stamp(struct stamp *s, const struct sample_request *settled);
void sampleoptions_stamp_output(struct stamp *s, const struct sample_request *settled);

/* What the output depends on; caller frees with stamp_free. */
struct stamp *samplestamp_all(const struct sampling *r);
/* The same of picture i of the batch, and as a line that mem_free frees. */
struct stamp *samplestamp_picture(const struct sampling *r, int64_t i);
char *samplestamp_line(const struct sampling *r, int64_t i);
/* 1 when all that was asked for is there from the same request, 0 when there is work, -1 when the name is taken. */
int sampling_finished(struct sampling *r, struct err *e);

/* ---- drawing ---- */

void sampling_rows(struct sampling *r); /* room for what is told of the pictures of a batch */
int sampling_prepare(struct sampling *r, struct err *e);
/* Picture i of the batch that begins with picture r->at: its number, prompt and noise. */
void sampling_choose(struct sampling *r, int64_t i);
int sampling_draw(struct sampling *r, struct err *e); /* all pictures from r->kept on */

/* ---- going on ---- */

/* What a tar's bytes depend on, beyond which it cannot be gone on with; NULL where it cannot at all. Caller frees with mem_free. */
char *resume_key(const struct sampling *r, const char *stamp);
/* After output_start, which said `on`: r->kept, and with it the counts and the sheet; says so. */
int resume_start(struct sampling *r, int on, const char *stamp, struct err *e);
/* Between two batches, once `done` pictures are written. */
int resume_save(struct sampling *r, int64_t done, struct err *e);
/* At the end, whatever happened: whether what was saved stays; says so. */
int resume_keep(const struct sampling *r, const struct err *e);
void resume_count_bytes(struct sampling *r); /* into r->bytes */

/* ---- reports ---- */

/* Whether the numbers of a run may replace what stands under their names: only such numbers (file/standing.h). */
int samplereport_check(const struct sample_request *q, struct err *e);
/* A line to the hooks, and JSON at the paths that were asked for; of them `timing` alone tells the seconds. */
int samplereport_write(struct sampling *r, double seconds, struct err *e);
/* A line of JSON about picture `index` into the log: the experts' weights w (steps, k). */
int samplereport_log(struct sampling *r, int64_t index, const double *w, struct err *e);

#endif
