/* Trains one network, an expert or a router, on a SHARDS directory.
 *
 * OUT/config.json and the weights file appear at the end; until then OUT/train/step-N/ holds checkpoints and OUT/train.jsonl
 * the log. The same call again resumes from the newest complete checkpoint, or returns at once if the run is finished. With the same build
 * and CPU model the weights are the same bytes for any number of threads and however often the run was interrupted. */
#ifndef DDM_TRAIN_TRAINER_H
#define DDM_TRAIN_TRAINER_H

#include <signal.h>
#include <stdint.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/option.h"
#include "file/stamp.h"
#include "tape/tape.h"
#include "train/frozen.h"
#include "train/noised.h"

/* How a gradient changes the weights: AdamW; Muon (train/muonupdate.c), and AdamW for what is no matrix within a block; schedule-free
 * AdamW. kernels/optimizer.h has the equations. OPTIMIZER_USUAL: train_resolve chooses one of them. */
enum optimizer_kind { OPTIMIZER_USUAL = -1, OPTIMIZER_ADAMW, OPTIMIZER_MUON, OPTIMIZER_SCHEDULE_FREE };
extern const char *const optimizer_names[]; /* ends with NULL */

enum rate_schedule { SCHEDULE_CONSTANT, SCHEDULE_COSINE };

/* Where the gradients of several ranks are added: on their GPUs by NCCL if every rank can, on the GPUs or not at all, or on the host. */
enum sum_place { SUM_WHERE_FASTEST, SUM_ON_DEVICE, SUM_ON_HOST };

enum { TRAIN_RANGE = 16 << 20 /* a usual value of `offload` */ };

struct train_interval {
	int64_t steps;  /* 0: by time only */
	double seconds; /* 0: by steps only */
};

/* A run that repeats a part of another one, for ddm-audit. Its lists are in increasing order. */
struct train_replay {
	const int64_t *lines, *saves; /* steps after which a line of the chain is written, instead of every chain_every; and a checkpoint */
	int line_count, save_count;
	int64_t until;                             /* end after this step, with ERR_AGAIN unless it is the last; the hook may lower it */
	void (*line)(void *arg, const char *text); /* called with each line of the chain */
	int64_t traced;                            /* the step whose nodes are watched (tape_watch), on a CPU; 0: none */
	void (*node)(void *arg, const struct tape_event *v);
	void *arg;
};

struct train_options {
	/* What to train. */
	struct net_config net; /* kind, patch, hidden, depth, heads, mlp_ratio, text_tokens (0: from the data); the rest follows from the data */
	/* train_resolve computes net from these: the name of a preset, or NULL; and the values that replace the preset's, 0: none. */
	const char *model;
	struct {
		int64_t patch, hidden, depth, heads;
	} shape;
	const char *shards, *out;
	int cluster;              /* DATASET_ALL for the monolith and the router */
	const char *cluster_name; /* NULL, or the cluster that train_resolve looks up: "all", a number or a name */
	enum condition_kind condition;
	double class_dropout;           /* negative: .1 of a class, 0 of a cluster */
	struct objective_def objective; /* its loss follows from the network */
	double dropout;                 /* of the network, where net_has_dropout: probability that a hidden value is set to 0 in training */
	const char *pictures;           /* shards of pictures, which some steps take as clips of one frame; NULL: none */
	double picture_share;           /* the share of these steps, between 0 and 1 */
	int first_frame;                /* 1: the network reads the first frame of each clip */
	double first_frame_drop;        /* probability that it is withheld */
	double text_drop;               /* probability that a text is replaced by the null text */
	const char *null_text;          /* features of the null text, .npy; NULL: null-text.npy of the shards */
	const char *null_pooled;        /* its pooled vector, .npy; NULL: null-pooled.npy of the shards */
	const char *init_from;          /* weights (file/weightfile.h), or NULL */
	const char *from;               /* folder of a pretrained network of another prediction, size or condition (net/adopt.h), or NULL; of a
	                                 * router, of one that may have other clusters */
	const char *rows;               /* of a router with `from`: the old cluster of each cluster, or "new": "0,2,new"; NULL: the same numbers, and
	                                 * the new router has no fewer clusters */
	int head_only;                  /* of a router with `from`: train its last layer alone */
	/* How to train; all of these determine the result. */
	int64_t steps; /* 0: from epochs */
	double epochs;
	/* batch is cut into `accumulate` parts whose gradients are added by a binary tree. 0: as many as the run in OUT was begun with; of a new run, as
	 * few as the device's free memory allows. */
	int64_t batch, accumulate;
	double lr, weight_decay, beta1, beta2, eps, clip; /* clip 0: none */
	enum optimizer_kind optimizer;
	enum rate_schedule schedule; /* OPTIMIZER_SCHEDULE_FREE: constant */
	int64_t warmup;
	double ema_half_life; /* steps; 0: a twentieth of the run; negative: no average, the weights themselves. OPTIMIZER_SCHEDULE_FREE: 0, the
	                       * optimizer's own average is used */
	uint64_t seed;
	int flip;
	int size;                    /* resize the data to size x size; 0: do not */
	int grey;                    /* pictures become grey: one channel */
	int precision;               /* enum precision; -1: the device's usual one */
	int keep_best;               /* the result is the average at the best validation, not the last */
	struct router_target target; /* what a router is trained on */
	const char *experts;         /* model folder with the frozen experts of `target`; NULL with TARGET_CLUSTER */
	double label_smoothing;      /* of a router's targets: this share is of all clusters equally */
	int calibrate;               /* a router's logits are divided by a temperature fitted on the held-out samples (train/calibrate.h) */
	int64_t validate_every, validate_samples; /* 0: usual_validation(); samples 0: no validation */
	int64_t max_skipped;                      /* non-finite steps in a row before ERR_DIVERGED */
	/* 1: OUT holds a shorter run with these options, finished or not; continue from its newest checkpoint, moments and average included.
	 * The stamp records the steps at which a run was extended. */
	int extend;
	/* These do not change the result. */
	double max_skipped_share;               /* non-finite steps as a share of all so far (at least 100 .. 1000) before ERR_DIVERGED */
	int recompute, recompute_light, verify; /* recompute: of blocks; recompute_light: of norms and activations alone */
	int64_t offload; /* the optimizer's moments stay on the host and are copied through the device in ranges of this many elements, a
	                  * multiple of 16; 0: they stay on the device. OPTIMIZER_MUON: 0 */
	struct train_interval checkpoint;
	int keep;
	int64_t keep_every;   /* a checkpoint at each multiple of so many steps, which is never removed; 0: none */
	int64_t sample_every; /* 0: never */
	int64_t log_every;
	int64_t chain_every;         /* steps between lines of the hash chain (train/chain.h); negative: by the number of steps; 0: no chain */
	struct train_replay *replay; /* NULL, or what to repeat; borrowed */
	int profile;
	enum sum_place sum_on;
	const char *device_engine; /* with comm: the shared object with the engine that adds on GPUs (comm/deviceengine.h) */
	int64_t ranks;             /* of a plan without comm: it is for one of so many ranks; 0: of one */
	struct comm *comm;   /* the ranks that train together, each calling train_run with the same options; NULL: this process alone. Borrowed */
	const char *program; /* for the stamp */
};

/* Tables of the options that fill it: for an expert or a router only, and for both. A row says whether the option determines the result, and
 * how the stamp records it. */
extern const struct option train_expert_options[], train_router_options[], train_common_options[];

/* The defaults of the tables: AdamW (.9, .999), eps 1e-8, no decay, clip 1, a warm-up of 50 steps, then a cosine. The optimizer, the
 * rate and the number of epochs are not set: train_resolve chooses them. */
struct train_options train_defaults(enum net_role role);

/* Complete options whose shards exist: net from model and shape (train/usual.h chooses a network if there is no model and no `from`), cluster from
 * cluster_name, and, where they are not set, optimizer, lr and epochs. Not needed if all of these are set. */
int train_resolve(struct train_options *o, struct err *e);

/* The stamp of a run with these options, one line of JSON; hashes the files that determine the result. A negative precision or class dropout is
 * kept as it is. NULL on failure; caller frees with mem_free. */
char *train_stamp(const struct train_options *o, struct err *e);

/* The inverse: the options that made a stamp, from its object, the "exact" of the hash chain (train/chain.h) and the network of config.json. Files
 * and folders are in a stamp only by their hashes, so that the caller sets shards, out, init_from, from, experts and null_text. Texts are borrowed
 * from `stamp`. ERR_DATA names a value that no option has. Whether all was found again shows train_stamp. */
int train_options_of(struct train_options *o, const json_t *stamp, const json_t *exact, const struct net_config *net, struct err *e);

/* The numbers in a line of the log. */
struct train_step {
	int64_t step, steps, skipped;
	double loss, grad_norm, lr, val_loss;      /* val_loss is NAN if not measured at this step */
	double images_per_s, flops, peak_fraction; /* FLOP/s of the network's own products; of the machine's measured peak */
	double seconds_left;
	struct device_memory memory;
};

struct train_hooks {
	void (*step)(void *arg, const struct train_step *s);  /* a line of the log */
	void (*tick)(void *arg, int64_t step, int64_t steps); /* after each finished step */
	void (*say)(void *arg, const char *line);             /* information for the user: the step resumed from, the profile */
	void (*warn)(void *arg, const char *line);            /* a failure that does not end the run: a checkpoint is damaged or cannot be saved */
	void *arg;
	volatile sig_atomic_t *stop; /* non-zero: finish the step, publish a checkpoint, return ERR_AGAIN */
	volatile sig_atomic_t *save; /* non-zero: set to 0, and write a checkpoint after the step; training goes on. NULL: never */
	/* Of clock_seconds(): stop as by `stop`, early enough for the checkpoint to be complete by then, but after at least one step. 0: none. */
	double deadline;
	/* Seconds; 0: never. When no step, validation, sheet of samples or checkpoint has ended for so long, hung(arg, where) is called in a thread of
	 * its own, once, after a line in the log; it usually ends the process. Nothing can be saved then. */
	double hang_timeout;
	void (*hung)(void *arg, const char *where);
};

struct train_plan {
	uint64_t weights, gradients, optimizer, activations, scratch, batches, data, experts, total; /* bytes; experts: those a router learns from */
	uint64_t offloaded;                                                                          /* part of `optimizer` in pinned host memory */
	uint64_t device, free; /* device: needed of the device, without the samples kept on the host; free: available there, 0: unknown */
	uint64_t beside;       /* on a device with its own memory, what its driver and other processes hold now */
	struct err unfit;      /* code 0; or ERR_NOMEM: it does not fit, with a proposal that would */
	int64_t parameters, samples, pictures, steps, accumulate, ranks;
	uint64_t comm;           /* bytes that rank 0 sends in a step without a line of the log; 0 of one rank */
	double flops_per_sample; /* forward and backward products */
};

/* Estimate what a run needs, without running it. Of several ranks: what the one needs that keeps most of the optimizer's state. */
int train_plan(const struct train_options *o, struct device *device, struct train_plan *plan, struct err *e);

/* With a comm of R ranks each computes accumulate / R of the parts of a batch, which must be a power of two of them (ERR_USAGE). The result is the
 * same bytes as that of one process with the same accumulate. Rank 0 alone reads and writes OUT. ERR_EXISTS if the ranks were given other
 * options or data.
 *
 * Train on a device of DT_F32 that computes in the requested precision; its pool also loads the data. 0: finished, now or before. -1 with
 * ERR_AGAIN: interrupted, checkpoint published; ERR_EXISTS: OUT is locked, or holds something made with other options;
 * ERR_DIVERGED; ERR_USAGE: impossible request; ERR_DATA: the shards do not fit; ERR_UNAVAILABLE: device lost. */
int train_run(const struct train_options *o, struct device *device, const struct train_hooks *hooks, struct err *e);

/* Learning rate of step s in 0 .. steps - 1. */
double schedule_rate(const struct train_options *o, int64_t steps, int64_t s);
/* Share of the average of the weights that a step keeps; 0: there is none, or the average is the weights. */
double ema_decay_of(const struct train_options *o, int64_t steps);

#endif
