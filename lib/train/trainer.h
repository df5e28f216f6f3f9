/* Training of one network, an expert or a router, on a SHARDS directory.
 *
 * OUT/config.json and the weights file appear at the end; on the way OUT/train/step-N/ holds checkpoints and OUT/train.jsonl the
 * log. The same call again goes on from the newest complete checkpoint, or finds the work done. With the same build and CPU model
 * the weights are the same bytes for any number of threads and however often the run was interrupted. */
#ifndef DDM_TRAIN_TRAINER_H
#define DDM_TRAIN_TRAINER_H

#include <signal.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/option.h"
#include "file/stamp.h"
#include "train/noised.h"

enum rate_schedule { SCHEDULE_CONSTANT, SCHEDULE_COSINE };

enum { TRAIN_RANGE = 16 << 20 /* a usual value of `offload` */ };

struct train_interval {
	int64_t steps;  /* 0: by time only */
	double seconds; /* 0: by steps only */
};

struct train_options {
	/* What. */
	struct net_config net; /* kind, patch, hidden, depth, heads, mlp_ratio, text_tokens (0: from the data); the rest follows from the data */
	/* What train_resolve makes it of: NULL or a preset; what is not 0 is set instead of the preset's. */
	const char *model;
	struct {
		int64_t patch, hidden, depth, heads;
	} shape;
	const char *shards, *out;
	int cluster;              /* DATASET_ALL for the monolith and the router */
	const char *cluster_name; /* NULL, or the cluster for train_resolve to find: "all", a number or a name */
	enum condition_kind condition;
	double class_dropout; /* negative: .1 of a class, 0 of a cluster */
	struct objective_def objective; /* its loss follows from the network */
	double text_drop;      /* of a network that reads texts: how often it is given the null text instead */
	const char *null_text; /* its features, .npy; NULL: null-text.npy of the shards */
	const char *init_from; /* weights (file/weightfile.h), or NULL */
	const char *from;      /* folder of a network of other purpose to start from (net/adopt.h), or NULL */
	/* How: all of these determine the result. */
	int64_t steps; /* 0: from epochs */
	double epochs;
	int64_t batch, accumulate; /* batch is cut into `accumulate` parts whose gradients are added by a binary tree */
	double lr, weight_decay, beta1, beta2, eps, clip; /* clip 0: none */
	enum rate_schedule schedule;
	int64_t warmup;
	double ema_half_life; /* steps; 0: a twentieth of the run; negative: no average, the weights themselves */
	uint64_t seed;
	int flip;
	int size;                                 /* resize the data; 0: as it is */
	int precision;                            /* enum precision; -1: what the device is made for */
	int keep_best;                            /* the result is the average at the best validation, not the last */
	int64_t validate_every, validate_samples; /* 0: a twentieth of the run; samples 0: no validation */
	int64_t max_skipped;                      /* non-finite steps in a row before ERR_DIVERGED */
	/* OUT holds a shorter run of these options, finished or not: go on from its newest checkpoint, with its moments and its average, to this
	 * many steps. The stamp tells at which steps that was done. */
	int extend;
	/* Neither: these do not change the result. */
	double max_skipped_share;                 /* of non-finite steps of all so far, before ERR_DIVERGED; of 100 .. 1000 while there are fewer */
	int recompute, verify;
	int64_t offload; /* the optimizer's moments wait on the host and pass through the device in ranges of so many elements, a
	                  * multiple of 16; 0: they stay there */
	struct train_interval checkpoint;
	int keep;
	int64_t sample_every; /* 0: never */
	int64_t log_every;
	int profile;
	const char *program; /* for the stamp */
};

/* The options that fill it on a command line: those of an expert or of a router, and those of both. A row says whether it determines the
 * result, and what the stamp tells of it. */
extern const struct option train_expert_options[], train_router_options[], train_common_options[];

/* The defaults of the tables: AdamW (.9, .999), eps 1e-8, no decay, clip 1, constant rate 1e-4. */
struct train_options train_defaults(enum net_role role);

/* Turns what was named into what it is: model (by default dit-s/2, or the network of `from`; of a router dit-s/8) and shape into net,
 * cluster_name into cluster. Not needed where net and cluster are set. */
int train_resolve(struct train_options *o, struct err *e);

/* The stamp that a run of these options has: one line of JSON; hashes the files that determine it. A negative precision or class dropout stays
 * so. NULL: failed; caller frees with mem_free. */
char *train_stamp(const struct train_options *o, struct err *e);

/* One line of the log, for a human too. */
struct train_step {
	int64_t step, steps, skipped;
	double loss, grad_norm, lr, val_loss;      /* val_loss NAN when not measured at this step */
	double images_per_s, flops, peak_fraction; /* FLOP/s of the network's own products; of the machine's measured peak */
	double seconds_left;
	struct device_memory memory;
};

struct train_hooks {
	void (*step)(void *arg, const struct train_step *s); /* a line of the log */
	void (*tick)(void *arg, int64_t step, int64_t steps); /* each step that was heard of */
	void (*say)(void *arg,
	            const char *line); /* facts worth a line: resumed from, the profile */
	void (*warn)(void *arg, const char *line); /* a failure that is survived: a checkpoint that is damaged or cannot be saved */
	void *arg;
	volatile sig_atomic_t *stop; /* non-zero: finish the step, publish a checkpoint, return ERR_AGAIN */
};

struct train_plan {
	uint64_t weights, gradients, optimizer, activations, scratch, batches, data, total; /* bytes */
	uint64_t offloaded;    /* of the optimizer's, in pinned memory of the host */
	uint64_t device, free; /* what is asked of the device (samples kept are not); what it has; free 0: unknown */
	uint64_t beside;       /* of a device of its own memory, what its driver and others hold now */
	struct err unfit;      /* code 0, or ERR_NOMEM: it is not enough, and what would be */
	int64_t parameters, samples, steps;
	double flops_per_sample; /* forward and backward products */
};

/* What a run would need, without doing it. */
int train_plan(const struct train_options *o, struct device *device, struct train_plan *plan, struct err *e);

/* On a device of DT_F32 that computes in the precision asked for, whose pool also serves the data. 0 finished (or was already); -1
 * with ERR_AGAIN: interrupted, checkpoint published; ERR_EXISTS: OUT is locked, or holds something made with other options;
 * ERR_DIVERGED; ERR_USAGE for requests that cannot be met; ERR_DATA for shards that do not fit; ERR_UNAVAILABLE: the device is lost. */
int train_run(const struct train_options *o, struct device *device, const struct train_hooks *hooks, struct err *e);

/* Learning rate of step s in 0 .. steps - 1. */
double schedule_rate(const struct train_options *o, int64_t steps, int64_t s);

#endif
