/* The state of trainings, from their logs, locks and checkpoints. ddm-status shows it. */
#ifndef DDM_INSPECT_RUNSTATUS_H
#define DDM_INSPECT_RUNSTATUS_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "inspect/loghistory.h"

enum run_state {
	RUN_NEVER,   /* nothing is there that a trainer writes */
	RUN_FAILED,  /* it was started, and ended before its first log line */
	RUN_RUNNING, /* a process holds the lock */
	RUN_STALE,   /* so it does, but the log has not grown for long */
	RUN_STOPPED, /* no process holds the lock, and steps are left */
	RUN_FINISHED,
	RUN_STATES
};

extern const char *const run_state_names[RUN_STATES + 1];

/* A training's folder. Unknown numbers are NaN, unknown counts -1. */
struct run {
	char *dir, *name; /* name: of the folder, after the operand where there are several */
	int router;
	enum run_state state;
	struct loghistory *log;
	char holder[128]; /* host and pid of the process that holds the lock; "" if none does */
	char *host;       /* where its last attempt ran; "" */

	int64_t step, steps; /* done, and in all */
	double images_per_s, percent_of_peak, loss, val_loss;
	double eta;          /* seconds */
	double log_age;      /* seconds since the log was written */
	double log_interval; /* longest time between two of its last lines */
	int64_t saved;       /* step of the newest checkpoint */
	double saved_age;    /* seconds since it was written */
	int64_t restarts;
	double memory;  /* peak of device memory in bytes */
	double seconds; /* that its attempts have run, together */
	double median;  /* of the images_per_s of the running experts, if this one is a straggler; else NaN */
	struct err why; /* what is wrong with its log; code 0: nothing */
};

/* A zeroed one is empty. */
struct runs {
	struct run *v;
	int n;
	char **note; /* (notes) one sentence about each stale run, straggler and failure */
	int notes;
};

/* Find the trainings of the operands. One is a training's folder, or a folder of them: then its experts by number, its router, and any others by
 * name. Experts whose number is missing below the highest one found, or below `experts`, are added as never started. ERR_NOINPUT if an operand is
 * neither, unless it is named like an expert or router. Release with runs_release, also after failure. */
int runs_find(struct runs *r, char *const *operand, int n, int64_t experts, struct err *e);
void runs_release(struct runs *r);

/* Limits for what is noted. */
struct run_limits {
	double stale;     /* seconds since the last log line; 0: 10 minutes, or three times the longest time between two of the last lines */
	double straggler; /* share of the median rate */
};

/* Read what has changed, at time `now` in seconds since 1970. A log that cannot be read, or is damaged, is noted in its run (why). */
void runs_update(struct runs *r, double now, const struct run_limits *limits);

int runs_count(const struct runs *r, enum run_state state);

/* All of it as an object: "runs", "notes", "time"; with cost_per_hour > 0 also the cost of each and of all. Caller json_decref()s. */
json_t *runs_json(const struct runs *r, double now, double cost_per_hour);

#endif
