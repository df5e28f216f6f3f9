/* The state of one sampling run, shared by the files of lib/sample. request.c checks the request without the model, openmodel.c with it;
 * samplestamp.c makes stamps; finished.c checks for existing outputs; draw.c and batch.c draw the pictures; resume.c resumes after a killed
 * process; samplereport.c writes statistics; samplerank.c lets other ranks run experts, and spreadpictures.c draw pictures; sample.c combines
 * these. */
#ifndef DDM_SAMPLE_SAMPLING_H
#define DDM_SAMPLE_SAMPLING_H

#include "comm/farm.h"
#include "core/clock.h"
#include "diffusion/ensemble.h"
#include "diffusion/ensembleguide.h"
#include "diffusion/ensemblepull.h"
#include "diffusion/sampler.h"
#include "diffusion/scheduler.h"
#include "diffusion/solverchoice.h"
#include "file/contactsheet.h"
#include "file/stamp.h"
#include "kernels/profile.h"
#include "sample/distance.h"
#include "sample/firstframes.h"
#include "sample/output.h"
#include "sample/prompts.h"
#include "sample/reference.h"
#include "sample/sample.h"
#include "sample/textsource.h"

struct sampling {
	struct sample_request ask; /* the request, with all defaults filled in */
	struct sample_hooks hooks;
	int64_t count;                     /* total number of pictures, or clips */
	int format_open;                   /* the request leaves the format open, and -o is a tar */
	struct scheduler_solver scheduled; /* solver of a diffusers pipeline; ask.solver may point to its text */
	struct policy policy;
	struct solver_choice solver;
	struct device *device;
	int encoder_dtype_given; /* ask.encoder_dtype was given */
	struct ensemble ensemble;
	struct ensemble_guide guide; /* with --guide */
	struct puller *puller;       /* of weights by density along the flow; NULL: none */
	struct mixture mixture;
	struct sampler sampler;
	double *grid; /* (steps + 1) times, or NULL: even or as timesteps say */
	struct sampler_state *state;
	struct reference labels;
	struct distance distance; /* with --centroids */
	int64_t class;            /* class of all pictures, or one of CLASS_ */
	int labelled;             /* --class labels */
	int32_t *classes;         /* (class_count) for CLASS_LIST */
	int64_t class_count;
	char *class_text; /* --class with numbers instead of names, for stamps */
	struct mixture_stats stats;
	int64_t *assigned; /* (k) pictures by their heaviest expert at the last evaluation */
	struct outfile log;
	struct output out;
	struct prompts prompts;
	struct firstframes firsts; /* n is 0 without --first-frame */
	struct textsource_options words;
	struct textsource *text; /* NULL: the experts read no text */
	char *encoder, *vae;     /* folders, or NULL */
	char vae_hash[65];
	struct contactsheet layout; /* of the contact sheet */
	struct picture sheet;
	int64_t sheet_n;
	char *route;         /* the route in canonical form, or expert:I for a model of one network; NULL: as given */
	enum sink_kind sink; /* container of the samples */
	int64_t kept;        /* pictures finished by an earlier process */
	int64_t done;        /* pictures written, those included */
	int64_t next;        /* of ranks that share the pictures: the first that no piece has yet */
	int logs;            /* weights are kept for the log, here or on rank 0 */
	struct farm *farm;   /* of ranks that share the pictures, with its work; NULL: none */
	struct farm_work work;
	struct mixture_stats piece; /* of the pictures being drawn for the farm */
	int networks;               /* of the model, and those of the guide after them */
	int64_t *bytes;             /* (networks) most bytes of each network's weights in memory; of a model the router is last */
	double started, before;     /* clock_seconds at the first picture; seconds spent on the kept pictures */
	struct profile *profile;    /* NULL: no profiling */
	struct progress tell;       /* callback for the sampler's progress */
	/* The current batch. */
	float *x;                            /* (batch, d) */
	int64_t at, rows;                    /* pictures before the batch; pictures that are being drawn */
	int64_t *index, *prompt, *draw, *of; /* (batch): picture number, prompt, noise number within its seed; `of` as in sampler_call */
	uint64_t *seeds;                     /* (batch) */
	int32_t *wanted, *negative, *framed; /* (batch) rows of texts: prompts, negative prompts, first frames */
	int32_t *label, *chosen, *heaviest;  /* (batch) */
	double *weights;                     /* (batch, steps, k), with --log */
	struct output_item *item;            /* (batch) */
};

enum { CLASS_NONE = -1, CLASS_ALL = -2, CLASS_LABELS = -3, CLASS_LIST = -4 };

/* Send a line to the hook say or warn, formatted as by printf. */
void sampling_say(const struct sampling *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sampling_warn(const struct sampling *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Check the options against each other before the model is read; set policy, solver and sink, and fill in preset and defaults. */
int request_settle(struct sampling *r, struct err *e);
/* Whether the experts are also asked without the condition, to be guided away from that. */
int request_pairs(const struct sample_request *settled);
/* Whether the weights are by density along the flow. */
int request_follows_flow(const struct sampling *r);
/* Open the model on r->device, find its text encoder and autoencoder, and count the pictures. */
int sampling_open_model(struct sampling *r, struct err *e);

/* Add the options of a settled request to a stamp: for all pictures, or for one if `each` is 0. _output adds format and decoding options. */
void sampleoptions_stamp(struct stamp *s, const struct sample_request *settled);
void sampleoptions_stamp_output(struct stamp *s, const struct sample_request *settled);

/* The stamp of the whole output; caller frees with stamp_free. */
struct stamp *samplestamp_all(const struct sampling *r);
/* The stamp of picture i of the batch; the same as a line of JSON, which the caller frees with mem_free. */
struct stamp *samplestamp_picture(const struct sampling *r, int64_t i);
char *samplestamp_line(const struct sampling *r, int64_t i);
/* 1 if all outputs of this request exist, 0 if there is work to do, -1 if an output was made by another request. */
int sampling_finished(struct sampling *r, struct err *e);

/* ---- drawing ---- */

void sampling_rows(struct sampling *r); /* allocate the arrays of a batch */
int sampling_prepare(struct sampling *r, struct err *e);
/* Set the number, prompt and noise of picture i of the batch that begins with picture r->at. */
void sampling_choose(struct sampling *r, int64_t i);
int sampling_draw(struct sampling *r, struct err *e); /* draw all pictures from r->kept on */
/* batch.c: the parts of a batch of n pictures. Choose those after the first `at`; gather their texts and first frames, borrowed until the next
 * call; name and stamp r->item; put one into the outputs (an output_made_fn), all of them in order; add the heaviest experts and weights to the
 * counts and the log, and save. */
void batch_choose(struct sampling *r, int64_t at, int64_t n);
int batch_texts(struct sampling *r, int64_t n, struct texts *texts, struct err *e);
void batch_items(struct sampling *r, int64_t n);
void batch_items_free(struct sampling *r, int64_t n);
int batch_put(void *arg, int64_t i, const struct output_made *m, struct err *e);
int batch_shows(const struct sampling *r, int64_t i);        /* whether batch_put needs the pixels of picture i, for the sheet or a hook */
int batch_end(struct sampling *r, int64_t n, struct err *e); /* before batch_items_free */

/* ---- resuming ---- */

/* A key of everything that the bytes of a tar depend on: a partial tar is resumed only under an equal key. NULL if the output cannot be resumed.
 * Caller frees with mem_free. */
char *resume_key(const struct sampling *r, const char *stamp);
/* Call after output_start, which returned `on`. Restores r->kept, the counts and the sheet from an earlier process, and reports it. */
int resume_start(struct sampling *r, int on, const char *stamp, struct err *e);
/* Save the state between two batches if it is due; `done` pictures are written. */
int resume_save(struct sampling *r, int64_t done, struct err *e);
/* At the end of a run, after failure too: whether to keep the saved part of the output; if so, reports it. */
int resume_keep(const struct sampling *r, const struct err *e);

/* ---- ranks ---- */

int sampling_takes_orders(const struct sampling *r); /* this rank is not the first */
/* Leave some experts to other ranks, where they share the experts. ERR_USAGE if there are more ranks than experts. Does nothing else, as the next. */
int ranks_deal(struct sampling *r, struct err *e);
/* After opening the model, with its result rc and *e: the ranks compare builds, options and models. 0 if all are ready and alike. */
int ranks_agree_request(struct sampling *r, int rc, struct err *e);
void ranks_note_bytes(struct sampling *r); /* update r->bytes with the weights that are loaded here */
/* On rank 0: update r->bytes, with those of other ranks, and fail only if a rank is lost; let the others wait without a limit until the next order;
 * tell them to leave. */
int ranks_count_bytes(struct sampling *r, struct err *e);
int ranks_rest(const struct sampling *r, struct err *e);
void ranks_dismiss(const struct sampling *r);
/* On the others: carry out orders until told to leave. */
int ranks_serve(struct sampling *r, struct err *e);

/* After a failure of rank 0: if memory ran out and the ranks could share the experts, *e says so. */
void ranks_advise(const struct sampling *r, struct err *e);

/* Whether the ranks share the pictures; prepare for it, on every rank; on rank 0 draw all pictures from r->kept on. */
int sampling_spreads_pictures(const struct sampling *r);
void spread_open(struct sampling *r);
int spread_draw(struct sampling *r, struct err *e);

/* ---- reports ---- */

/* Check that report, log and timing would replace only files of their own kind (file/standing.h). */
int samplereport_check(const struct sample_request *q, struct err *e);
/* Send a summary to the hooks and write the requested report and timing as JSON; only `timing` contains `seconds`. */
int samplereport_write(struct sampling *r, double seconds, struct err *e);
/* Add a line of JSON to the log: the number of picture i of the batch, the hash of its stamp (stamp_hash), and the experts' weights (steps, k). */
int samplereport_log(struct sampling *r, int64_t i, struct err *e);

#endif
