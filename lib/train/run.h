/* A training run in progress. Private to lib/train. */
#ifndef DDM_TRAIN_RUN_H
#define DDM_TRAIN_RUN_H

#include <jansson.h>

#include "data/dataset.h"
#include "file/runlock.h"
#include "net/model.h"
#include "train/chain.h"
#include "train/checkpointwriter.h"
#include "train/frozen.h"
#include "train/rankwatch.h"
#include "train/state.h"
#include "train/stepdetail.h"
#include "train/trainer.h"
#include "train/trainlog.h"
#include "train/update.h"
#include "train/watchdog.h"

enum { NONFINITE_NAMED = 10 };

/* Samples of one shape: where they come from, and the tape that computes on a batch of them. */
struct train_set {
	struct dataset *data, *held; /* held NULL: none is measured */
	int64_t validations;         /* held-out samples that are measured */
	struct loader *loader;
	struct objective objective;
	struct loss_tape loss;
	struct noised noised;
	struct step_detail detail;
	double flops_per_sample;
};

struct trainer {
	const struct train_options *o;
	const struct train_hooks *hooks;
	struct net_config net;           /* complete */
	struct train_set main, pictures; /* pictures: of --pictures, with data NULL where there are none. Both tapes have the parameters `params` */
	int picture_cluster;             /* the cluster of their shards, or DATASET_ALL */
	const struct train_set *ordered; /* whose backward pass the sums over the ranks follow (update_order) */
	struct schedule schedule;        /* of `path`, if its time is discrete */
	const struct path *path;
	uint16_t *null_text;   /* (text_tokens, text_width) float16; NULL if the network reads no text */
	uint16_t *null_pooled; /* (pooled_width) float16; NULL if the network reads no pooled vector, or no text is dropped */
	int32_t null_rows;
	struct frozen *frozen; /* experts that a router learns from; NULL: none */
	struct params params;
	struct device *device;
	struct shares shares; /* of several ranks */
	struct train_state state;
	struct checkpoint_writer writer;
	struct update update;
	struct watchdog watchdog;
	float *dloss;        /* (part), on the device */
	int64_t steps, part; /* part: samples of one tape run */
	int64_t parts;       /* of a batch, that this rank computes; all, without other ranks */
	int64_t validate_every;
	int64_t chain_every; /* 0: no chain */
	struct chain chain;  /* only the first rank writes it */
	int chain_is_new;    /* chain_begin created it */
	double ema_decay;
	struct profile *profile; /* NULL without --profile */
	char *stamp;
	json_t *exact;    /* the real numbers in it that its nine digits do not give back */
	int64_t extended; /* the step at which the run was last extended; -1: never */
	int extending;    /* 1: this call extends it */
	char manifest[65], picture_manifest[65];
	struct model_config from; /* the pretrained network to start from */
	json_t *from_report;      /* which of its tensors were used; NULL: none, or the run was resumed */
	char *train_dir;
	struct runlock lock; /* on OUT */
	int log;             /* descriptor of train.jsonl (train/trainlog.h); -1: not open */
	struct trainlog_past past;
	double started;
	double data_s, forward_s, backward_s, optimizer_s, validate_s; /* since the last line of the log */
	double comm_s, comm_exposed_s; /* comm_seconds and comm_exposed_seconds, up to the last line of the log, as comm_bytes */
	uint64_t comm_bytes;
	struct rank_watch ranks;
	double peak, flops_per_sample; /* flops_per_sample: the mean over the steps */
	double mark;                   /* clock at the last log line of this process */
	int64_t marked;                /* the step of that line */
	double last_norm;
	double save_s; /* the longest that a checkpoint took; until one is written, an estimate */
	int64_t asked; /* the step of a checkpoint that hooks->save asked for and that is not complete yet; 0: none */
	int warned_uncaptured, warned_skipped, warned_more;
	int nonfinite; /* samples with NaN or infinity warned of, and their keys */
	const struct dataset *nonfinite_set[NONFINITE_NAMED];
	int64_t nonfinite_index[NONFINITE_NAMED];
};

/* ERR_USAGE if options of a training contradict each other. */
int options_check(const struct train_options *o, struct err *e);

/* Several ranks (train/rankstate.c); without them there is nothing to agree on, and this process is the first rank. */
int is_first_rank(const struct trainer *r);
int rank_count(const struct train_options *o);     /* of the run, or of the plan */
int64_t rank_parts(const struct train_options *o); /* parts of a batch that a rank computes */
int ranks_check(const struct train_options *o, struct err *e);
/* Compare builds, options and data with rank 0's. ERR_EXISTS, on all ranks, names a rank that differs, and how. */
int ranks_agree(struct trainer *r, struct err *e);
/* Every rank returns what rank 0 gives as `done`; -1 on all ranks if any gives a negative one, with its error in e. */
int ranks_share_done(struct comm *c, int done, struct err *e);
/* *any becomes the bits that `mine` (0 to 127) has on any rank. */
int ranks_any(struct comm *c, int mine, int *any, struct err *e);
/* Shares and the state, and the update over them, on the device. */
int ranks_allocate(struct trainer *r, struct err *e);
/* Rank 0 loads the newest checkpoint, as checkpoint_load, and every rank keeps its share of it. 1 if one was loaded; the others always return 1. */
int ranks_load(struct trainer *r, struct err *e);
/* After rank 0 has loaded or begun its state: the others take over its counts and, if it was begun, its weights. */
int ranks_share_state(struct trainer *r, int loaded, struct err *e);
/* On all ranks: rc is what rank 0 got from work in which the others followed it (state_follow); these must not call it before. */
int ranks_end_following(struct trainer *r, int rc, struct err *e);
/* Settle where the gradients of all ranks are added; rank 0 says so, if they compute on GPUs. */
int ranks_join_devices(struct trainer *r, struct err *e);

/* The hash chain (train/chainrun.c). Only rank 0 has one; elsewhere these do nothing, but the others help chain_line. Open it, the weights being
 * those of state.step; collect the keys of a batch; collect a finished step; and write a line, all steps being finished. chain_keep is for the moment
 * before the state is saved: it writes the lines that did not fit on the disk before, and stores in the state where the chain stands. */
int chain_begin(struct trainer *r, struct err *e);
int chain_first_line(struct trainer *r, struct err *e); /* the line of the state that a new chain begins with; on all ranks, after chain_begin */
void chain_take_batch(struct trainer *r, const struct train_set *s, const struct batch *b);
void chain_take_step(struct trainer *r, const double *status);
int chain_line(struct trainer *r, struct err *e);
void chain_keep(struct trainer *r);
/* What computes: the processor's model, or the GPU's. Caller frees with mem_free. */
char *chain_machine(const struct device *d);

/* The sets of samples (train/trainset.c). Open one: its training part, and its held-out part if it has one that is to be measured; what the options
 * do not say is in d. Allocate what it computes with, on top of train_set_open and trainer_record. Begin to load batches, from state.step on. */
int train_set_open(struct trainer *r, struct train_set *s, const char *shards, const struct dataset_options *d, struct err *e);
int train_set_allocate(struct trainer *r, struct train_set *s, const struct net_config *c, struct err *e);
int train_set_begin(struct trainer *r, struct train_set *s, struct err *e);
void train_set_release(struct trainer *r, struct train_set *s);
/* How many of the first n steps take pictures: they are spread evenly, as --picture-share says, and follow from the number of the step alone. And the
 * set from which step `step` (0 for the first) takes its batch. */
int64_t picture_steps(const struct train_options *o, int64_t n);
struct train_set *train_set_of(struct trainer *r, int64_t step);

/* Pictures among clips (train/picturesteps.c), which the network reads as clips of one frame. The configuration that their tape is recorded with. */
struct net_config picture_net(const struct net_config *c);
/* Open the pictures, after the clips and the network are known; d: how the clips were opened. ERR_USAGE or ERR_DATA if they do not suit these. */
int pictures_open(struct trainer *r, const struct dataset_options *d, struct err *e);
int pictures_hash(struct trainer *r, struct err *e); /* of their manifest, for the stamp */

/* Objective and tape for the options, device and network of r, whose data is open; laid out, not allocated. */
void trainer_record(struct trainer *r);

/* The text of config.json. Caller frees with mem_free. */
char *trainer_config(const struct trainer *r);

/* Fill p from what was recorded. */
void trainer_plan(const struct trainer *r, struct train_plan *p);

/* ERR_NOMEM if the device lacks the memory that p needs; the message says how much is missing and which change of options would fit. */
int trainer_fits(const struct trainer *r, const struct train_plan *p, struct err *e);

/* The smallest number of parts of a batch with which the recorded run fits the free memory of the device; 1 if none does. */
int64_t trainer_parts(const struct trainer *r);

/* Open the experts that a router learns from, if any, for so many samples at a time. Their hash is part of the stamp, so this comes before the lock;
 * their memory is allocated after it. */
int frozen_for(struct trainer *r, int64_t capacity, struct err *e);
/* ERR_DATA or ERR_USAGE if the experts do not suit the data. */
int frozen_fits(const struct trainer *r, struct err *e);

/* Run the batch in s->noised, of n clean samples, forward to the loss. -1 only if frozen experts cannot be run. */
int trainer_forward(struct trainer *r, struct train_set *s, int64_t n, const struct clean *clean, struct err *e);

/* Bind the tapes to these weights (total). */
void trainer_bind(struct trainer *r, float *values);

/* Whether hooks->stop asks for the end of the run. */
int trainer_is_stopped(const struct trainer *r);

/* Pass a line of information to the user. */
void train_say(const struct trainer *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* After a lost device the checkpoints on disk are still valid: add the step of the newest to the message. */
void train_say_what_is_left(const struct trainer *r, struct err *e);
/* Warn of a failure that does not end the run. */
void train_warn(const struct trainer *r, const char *line);

/* The pretrained network to start from; these do nothing if there is none. Read its configuration and put its hash into the stamp; derive the
 * new network's configuration; copy its weights into values (total, on the host) and report which tensors were used. */
int start_open(struct trainer *r, struct stamp *s, struct err *e);
int start_config(struct trainer *r, struct err *e);
int start_weights(struct trainer *r, float *values, struct err *e);
void start_log(const struct trainer *r);

/* The same of a router that starts from another router: fit the network's configuration, and set the weights. */
int head_config(struct trainer *r, struct err *e);
int head_weights(struct trainer *r, float *values, struct err *e);

/* Whether the folder of the shards with the cluster's held-out part exists; warns if it is missing. For all clusters together it must exist. */
int holdout_there(const struct trainer *r, const char *shards, int cluster);

/* Whether the network's clusters are those of the data. Experts that a router learns from may be of another partition. */
int clusters_known(const struct trainer *r);
/* Add facts about the data to config.json: the partition, and the names of its clusters and of the classes the network is conditioned on. */
void config_names(const struct trainer *r, json_t *o);

/* Read the features of the empty text and put their hash into the stamp; copy them into the values of a network that stores them. */
int null_text_stamp(struct trainer *r, struct stamp *s, struct err *e);
int null_text_open(struct trainer *r, struct err *e);
void null_text_keep(const struct trainer *r, float *values);

extern const char *const conditions[]; /* names of enum condition_kind */

/* What to give an option whose key this is: the value in the stamp, with the numbers that the stamp keeps under keys of their own as
 * NAME:NUMBER,NUMBER. `exact` as in train_options_of, or NULL. NULL: the stamp has no value. Caller frees with mem_free. */
char *stamped_text(const json_t *stamp, const json_t *exact, const char *key);

/* The part of the stamp that follows from the tables of options. */
void options_stamp(struct stamp *s, const struct train_options *o);

/* Prepare to extend a run: the checkpoints in OUT/train determine the stamp. ERR_NOINPUT if there is nothing to extend, ERR_EXISTS if its options
 * differ in more than the length. */
int extend_open(struct trainer *r, struct err *e);
/* The stamp of the run in OUT, finished or begun; caller json_decref()s. NULL: there is none. */
json_t *run_begun(const struct train_options *o);
/* Whether two stamps, each one line of JSON, are of runs of the same length. */
int extend_same_length(const char *now, const char *line);

/* 1 if OUT holds the result of these options, 0 if it holds none, -1 if it holds another. */
int already_done(struct trainer *r, struct err *e);
/* Write the configuration into OUT, then the weights. All ranks call it; rank 0 writes. */
int publish(struct trainer *r, struct err *e);

/* A noised held-out sample. */
struct held_state {
	int64_t index; /* of the state; its sample is index modulo the number of validation samples */
	double t, loss;
	int32_t label;       /* a router's cluster, or the frozen expert with the least error; or what an expert is told */
	const float *logits; /* (clusters) of a router */
	const float *target; /* numbers of a router's target, or NULL: the label alone */
};
/* Run weights (total) on the held-out samples, each at `passes` times, with fixed noise, and call see for each state in order. */
int held_run(struct trainer *r, struct train_set *s, float *values, int64_t passes, void (*see)(void *arg, const struct held_state *s), void *arg,
             struct err *e);

/* Mean loss of the averaged weights on fixed noise of the held-out samples of a set. *detail (detail may be NULL; caller json_decref()s) becomes the
 * loss by time, of a router with accuracy and calibration (train/tally.h). */
int validate(struct trainer *r, struct train_set *s, double *loss, json_t **detail, struct err *e);

/* Write OUT/train/samples-N.png with the averaged weights, average [total]: samples of an expert; for a router its noised inputs, shown as negatives
 * where it picks the wrong cluster. */
int sample_grid(struct trainer *r, float *average, struct err *e);

#endif
