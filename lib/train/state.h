/* The state of a training: weights, their average (EMA) and the optimizer's moments, as flat arenas on the device laid out by the parameter
 * table; and its checkpoints. OPTIMIZER_SCHEDULE_FREE keeps its three sequences in the same arenas (kernels/optimizer.h): y, at which the
 * gradient is computed, in `values`, x, the result, in `ema`, and z in `m`. */
#ifndef DDM_TRAIN_STATE_H
#define DDM_TRAIN_STATE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "kernels/device.h"
#include "tape/params.h"
#include "train/shares.h"
#include "train/trainer.h"

struct train_state {
	const struct params *params;
	struct device *device;
	enum optimizer_kind optimizer; /* OPTIMIZER_ADAMW after state_init */
	float *values;                 /* [total] */
	float *ema;                    /* [total]; of several ranks this one's share and then the frozen parameters */
	float *m, *v;                  /* [trainable], or this rank's share of them; in pinned memory of the host where `offload` */
	int64_t offload;               /* elements of a range, in which the moments are copied to the device and back; 0: they stay on the device */
	uint16_t *rounded;             /* [total]: `values` in bfloat16, which matrix products read; NULL if they read `values` */
	float *best;                   /* as `ema`: the average at the best validation so far; NULL without keep_best */
	const struct shares *shares;   /* what this rank keeps; borrowed. NULL: one rank, which keeps all; then the next three are too */
	struct comm *comm;             /* the other ranks; borrowed */
	float *whole;                  /* [total], on the device: room for one whole arena between two steps; borrowed */
	float *host;                   /* (total), on the host: the same memory if the device is the host; borrowed */
	int savers;                    /* threads that write and hash a checkpoint's files where `device` is NULL; 0: one */
	double best_loss;              /* of `best`; infinity before the first */
	int64_t best_step;
	int64_t step;    /* steps done */
	int64_t updates; /* of these, steps that changed the weights */
	int64_t skipped_in_a_row;
	double lr_squares; /* the sum of lr^2 over all updates */
	/* Sums for the next line of the log, so that a resumed run logs the same lines as an uninterrupted one. */
	double loss_sum;               /* over loss_count steps */
	int64_t loss_count, line_step; /* line_step: the step of the last line */
	double picture_loss_sum;       /* of the steps that take pictures, which the two above leave out */
	int64_t picture_loss_count;
	char *config; /* text of config.json to store in checkpoints, so that they can be sampled; owned; may be NULL */
	char *chain;  /* where the hash chain stands (chain_place, train/chain.h): a JSON object; owned; NULL: there is no chain */
};

/* An arena, and its file in a checkpoint. */
struct state_part {
	const char *name; /* "exp_avg.safetensors" */
	float *data;
	int total, host; /* total: it holds the frozen parameters too; host: it may lie in host memory although the device's is another */
};
enum { STATE_WEIGHTS, STATE_AVERAGE, STATE_BEST = 4, STATE_PARTS };
/* Returns their number. */
int state_parts(const struct train_state *s, struct state_part out[STATE_PARTS]);

/* Arenas for p, zeroed; keep_best allocates `best`, bf16 `rounded`. p, the device and shares, which may be NULL, are borrowed. Release with
 * state_release. */
int state_init(struct train_state *s, struct device *d, const struct params *p, int keep_best, int bf16, int64_t offload, const struct shares *shares,
               struct err *e);
void state_clear(struct train_state *s); /* to the state after state_init, but the same optimizer */
/* Start the averages at the initial weights: `ema` = `values`, and with OPTIMIZER_SCHEDULE_FREE also `m`. */
void state_begin(struct train_state *s);
/* `best` = `ema`. */
void state_take_best(struct train_state *s);
void state_release(struct train_state *s);
/* Device memory of a rank that keeps `kept` of the trainable elements. */
uint64_t state_bytes(const struct params *p, int keep_best, int bf16, int64_t offload, int64_t kept);

/* Whole arenas (train/wholestate.c), by their index in state_parts. Of one rank they are the arenas of the state; of several, *x is s->whole, until
 * the next of these calls or the next step. state_gather: all ranks call it, and all get the arena. state_whole: rank 0 alone calls it, while the
 * others are in state_follow. state_room, state_keep: rank 0 reads an arena (zeroed) into the room, and each rank keeps its share; the others are in
 * state_follow. state_dismiss: rank 0 lets the others return from state_follow. */
int state_gather(const struct train_state *s, int part, float **x, struct err *e);
int state_whole(const struct train_state *s, int part, float **x, struct err *e);
float *state_room(struct train_state *s, int part);
int state_keep(struct train_state *s, int part, struct err *e);
int state_dismiss(const struct train_state *s, struct err *e);
int state_follow(struct train_state *s, struct err *e);

/* Fill `rounded`, if not NULL, from `from` (total): from `values` after loading them (updates then keep it in step), or temporarily from an
 * average. */
void state_round(const struct train_state *s, float *from);

/* Checkpoints: DIR/step-00012000/{weights,ema,exp_avg,exp_avg_sq[,best]}.safetensors and MANIFEST.json (step, stamp, sizes and hashes), published
 * whole by rename. With OPTIMIZER_SCHEDULE_FREE, z.safetensors takes the place of exp_avg.safetensors. `stamp` is one line of JSON. Replaces an
 * existing checkpoint of that step, which must be damaged: a good one would have been loaded. A state without a device has its arenas in host memory.
 * Of several ranks, rank 0 calls it while the others are in state_follow. copied(arg), if not NULL, is called when the arenas are no longer read;
 * after an error it may not have been. */
int checkpoint_save(const char *dir, const struct train_state *s, const char *stamp, void (*copied)(void *arg), void *arg, struct err *e);

/* DIR/step-N; caller frees with mem_free. */
char *checkpoint_path(const char *dir, int64_t step);

/* The number of differences between two stamps of runs, each one line of JSON, as by stamp_line_differs; a stamp without an optimizer is that of
 * AdamW, which stamps leave out. */
int run_differs(const char *now, const char *line, struct str *what);

/* The same, not counting the length of the run. */
int extend_differs(const char *now, const char *line, struct str *what);

/* Load the newest complete checkpoint with the same stamp; the checkpoint of step `extended` (-1: none) may have the stamp of a shorter run.
 * 1 if one was loaded, 0 if there is none (s is as after state_init), -1 on error. A damaged checkpoint is skipped and reported by
 * report(arg, message). A checkpoint with another stamp is ERR_EXISTS naming the options that differ. */
int checkpoint_load(const char *dir, struct train_state *s, const char *stamp, int64_t extended, void (*report)(void *arg, const char *message),
                    void *arg, struct err *e);

/* List the steps of the folders step-N in dir, newest first, complete or not. *count is 0 if dir does not exist. -1 if dir cannot be read.
 * Caller frees *steps with mem_free. */
int checkpoint_steps(const char *dir, int64_t **steps, int *count, struct err *e);

/* Facts from a checkpoint's manifest. Caller json_decref()s stamp. */
struct checkpoint {
	int64_t step, updates, best_step, bytes; /* best_step -1: none */
	double best_loss;                        /* infinity: none */
	json_t *stamp;
	char line[65]; /* SHA-256 of the last line of the hash chain (train/chain.h) when it was saved; empty: it has none */
};

/* Check that a checkpoint is complete: its manifest, the size of every file and, with `hashes`, the SHA-256. ERR_DATA or ERR_NOINPUT names the
 * first fault; *c holds the facts found until then. */
int checkpoint_inspect(const char *path, int hashes, struct checkpoint *c, struct err *e);

/* Remove all but the newest `keep` checkpoints up to `step`, the one just saved, and those of the multiples of `keep_every` (0: none); keep >= 1.
 * Later ones were damaged when the run began and are
 * removed too. If checkpoints are due every `every` steps (0: by time) and at the last step, `steps`, then one of any other step was saved
 * on a signal: it does not count towards `keep`, and is removed once there are `keep` others or the run is over. So an interrupted run
 * keeps the same checkpoints as an uninterrupted one. */
void checkpoint_prune(const char *dir, int64_t step, int keep, int64_t keep_every, int64_t every, int64_t steps);

#endif
