/* Inside the trainer: a run in progress, shared by its files. */
#ifndef DDM_TRAIN_RUN_H
#define DDM_TRAIN_RUN_H

#include <jansson.h>

#include "data/dataset.h"
#include "file/runlock.h"
#include "net/model.h"
#include "train/state.h"
#include "train/trainer.h"
#include "train/update.h"

enum { NONFINITE_NAMED = 10 };

struct trainer {
	const struct train_options *o;
	const struct train_hooks *hooks;
	struct net_config net; /* complete */
	struct objective objective;
	struct schedule schedule; /* of `path` where it is of discrete time */
	const struct path *path;
	struct dataset *data, *held; /* held NULL: no validation */
	uint16_t *null_text;         /* (text_tokens, text_width) float16; NULL where the network reads no text */
	int32_t null_rows;
	struct loader *loader;
	struct params params;
	struct device *device;
	struct loss_tape loss;
	struct train_state state;
	struct update update;
	float *dloss; /* (part), on the device */
	struct noised noised;
	int64_t steps, part; /* part: samples of one tape run */
	int64_t validate_every, validations;
	double ema_decay;
	struct profile *profile; /* NULL: not asked for */
	char *stamp;
	int64_t extended; /* the step at which the run was made longer last; -1: never */
	int extending;    /* by this very call */
	char manifest[65];
	struct model_config from; /* of the network it starts from */
	json_t *from_report;      /* what was taken of it; NULL: nothing, or the run goes on */
	char *train_dir;
	struct runlock lock; /* on OUT */
	int log;         /* descriptor of train.jsonl (train/trainlog.h); -1: not open */
	int64_t unsaved; /* checkpoints on the way that could not be written */
	double started, data_s, forward_s, backward_s, optimizer_s;
	double peak, flops_per_sample;
	double mark;    /* clock at the last log line of this process, */
	int64_t marked; /* which was of this step */
	double last_norm;
	int told_uncaptured, told_skipped, told_more;
	int nonfinite; /* samples warned of, and which */
	const struct dataset *nonfinite_set[NONFINITE_NAMED];
	int64_t nonfinite_index[NONFINITE_NAMED];
};

/* Objective and tape for the options, device and network of r, whose data is open; laid out, not allocated. */
void trainer_record(struct trainer *r);

/* The text of config.json. Caller frees with mem_free. */
char *trainer_config(const struct trainer *r);

/* Fill p from what was recorded. */
void trainer_plan(const struct trainer *r, struct train_plan *p);

/* ERR_NOMEM when the device has not the memory that p asks for: how much is missing, and the first change of options that would fit. */
int trainer_fits(const struct trainer *r, const struct train_plan *p, struct err *e);

/* The tape computes with these weights (total) from now on. */
void trainer_bind(struct trainer *r, float *values);

/* Facts worth a line. */
void train_say(const struct trainer *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Tell the user of a failure that is survived. */
void train_warn(const struct trainer *r, const char *line);

/* The network to start from: what of it determines the weights into the trainer and the stamp; the configuration that follows from it;
 * its weights into values (total) on the host, told to the user and the log. Nothing where there is none. */
int start_open(struct trainer *r, struct stamp *s, struct err *e);
int start_config(struct trainer *r, struct err *e);
int start_weights(struct trainer *r, float *values, struct err *e);
void start_log(const struct trainer *r);

/* Whether the held-out part of the cluster, which the manifest lists, has its folder; warns where not. Of all clusters it must. */
int holdout_there(const struct trainer *r);

/* What config.json tells of the data: the partition, and the names of its clusters and of the classes that the network is told. */
void config_names(const struct trainer *r, json_t *o);

/* The features of no text into the trainer, and the stamp; into values of a network that keeps them. */
int null_text_stamp(struct trainer *r, struct stamp *s, struct err *e);
int null_text_open(struct trainer *r, struct err *e);
void null_text_keep(const struct trainer *r, float *values);

extern const char *const conditions[]; /* names of enum condition_kind */

/* What the tables of options know of what determines the weights. */
void options_stamp(struct stamp *s, const struct train_options *o);

/* Where the run is to be longer than it was: what OUT/train holds decides the stamp. ERR_NOINPUT where there is nothing to extend, ERR_EXISTS
 * where it was made with options that differ in more than the length. */
int extend_open(struct trainer *r, struct err *e);
/* Whether two stamps, lines of JSON, ask for runs of the same length. */
int extend_same_length(const char *now, const char *line);

/* 1 when OUT holds this very result, 0 when it holds none, -1 when another. */
int already_done(struct trainer *r, struct err *e);
/* The configuration and the weights into OUT, the latter last. */
int publish(struct trainer *r, struct err *e);

/* Mean loss of the averaged weights on fixed noise of held-out samples; for a router also the accuracy, and calibration by time,
 * as a JSON object in *detail (may be NULL; caller json_decref()s). */
int validate(struct trainer *r, double *loss, json_t **detail, struct err *e);

/* OUT/train/samples-N.png with the averaged weights: pictures of a DiT; of a router, what it sees at growing noise, negative
 * where it is wrong. */
int sample_grid(struct trainer *r, struct err *e);

#endif
