/* What training changes: weights, their average, the optimizer's moments; flat arenas on the device, laid out by the parameter
 * table. */
#ifndef DDM_TRAIN_STATE_H
#define DDM_TRAIN_STATE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "kernels/device.h"
#include "tape/params.h"

struct train_state {
	const struct params *params;
	struct device *device;
	float *values, *ema; /* [total] */
	float *m, *v;        /* [trainable]; in pinned memory of the host where `offload` */
	int64_t offload;     /* elements of a range in which the moments pass through the device; 0: they are there */
	uint16_t *rounded;   /* [total]: what products read, `values` as bfloat16; NULL when they read `values` */
	float *best;         /* [total]: the average at the best validation so far; NULL when not asked for */
	double best_loss;    /* of `best`; infinity before the first */
	int64_t best_step;
	int64_t step;    /* steps done */
	int64_t updates; /* of them, steps that changed the weights */
	int64_t skipped_in_a_row;
	/* Of the next line of the log, so that a run that goes on writes the lines of one nobody disturbed. */
	double loss_sum;               /* of loss_count steps */
	int64_t loss_count, line_step; /* since the line of that step */
	char *config;    /* the text of config.json that checkpoints carry, so that they can be sampled; owned; NULL: none */
};

/* Arenas for p, zeroed; keep_best allocates `best`, bf16 `rounded`. p and the device are borrowed. Release with state_release. */
int state_init(struct train_state *s, struct device *d, const struct params *p, int keep_best, int bf16, int64_t offload, struct err *e);
void state_clear(struct train_state *s); /* as state_init left it */
void state_release(struct train_state *s);
uint64_t state_bytes(const struct params *p, int keep_best, int bf16, int64_t offload); /* of the device */

/* Where there is `rounded`, make it that of `from` (total): of `values` once they are there (updates then keep it so), or of an
 * average for a while. */
void state_round(struct train_state *s, float *from);

/* Checkpoints: DIR/step-00012000/{weights,ema,exp_avg,exp_avg_sq[,best]}.safetensors and MANIFEST.json (step, stamp, sizes and
 * hashes), published whole by rename. `stamp` is one line of JSON. An existing one of that step, damaged or
 * it would have been loaded, is replaced. */
int checkpoint_save(const char *dir, const struct train_state *s, const char *stamp, struct err *e);

/* DIR/step-N; caller frees with mem_free. */
char *checkpoint_path(const char *dir, int64_t step);

/* Whether stamps, lines of JSON, differ in more than the length of the run: the number of differences, as by stamp_line_differs. */
int extend_differs(const char *now, const char *line, struct str *what);

/* Load the newest complete checkpoint made with the same stamp; the one of step `extended` (-1: none) may be of a shorter run. 1 when one was
 * loaded, 0 when there is none (s is as state_init
 * left it), -1 on error. Damaged ones are passed over for older ones, and each is named in a call of told(arg, message). A
 * checkpoint with another stamp is ERR_EXISTS naming the options that differ. */
int checkpoint_load(const char *dir, struct train_state *s, const char *stamp, int64_t extended, void (*told)(void *arg, const char *message),
                    void *arg, struct err *e);

/* Steps of the folders step-N in dir, newest first, whether whole or not; *count of them, 0 where dir is not there. A dir that cannot
 * be read is -1, and none. Caller frees *steps with mem_free. */
int checkpoint_steps(const char *dir, int64_t **steps, int *count, struct err *e);

/* What a checkpoint folder says of itself. Caller json_decref()s stamp. */
struct checkpoint {
	int64_t step, updates, best_step, bytes; /* best_step -1: none */
	double best_loss;                        /* infinity: none */
	json_t *stamp;
};

/* Whether it is whole: its manifest, every file there in its size, and with `hashes` with its SHA-256. ERR_DATA or ERR_NOINPUT says
 * what is not; *c holds what was found before. */
int checkpoint_inspect(const char *path, int hashes, struct checkpoint *c, struct err *e);

/* Remove all but the newest `keep` checkpoints up to `step`, the one just saved, keep >= 1. Later ones were passed over as
 * damaged when the run began: they go too. Where they are due every `every` steps (0: by time) and at the last step, `steps`, one of another step,
 * which a signal asked for, does not count as one of `keep`, and goes when there are so many, or the run is over: what stays is what would
 * have stayed without the signal. */
void checkpoint_prune(const char *dir, int64_t step, int keep, int64_t every, int64_t steps);

#endif
