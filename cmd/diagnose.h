/* The commands of ddm-diagnose, and its options. */
#ifndef DDM_CMD_DIAGNOSE_H
#define DDM_CMD_DIAGNOSE_H

#include <stdint.h>

#include "core/err.h"
#include "core/option.h"

/* A command of ddm-diagnose. */
struct diagnosis {
	const char *name;                                  /* the first operand */
	const char *operands;                              /* those after it, in words */
	int least, most;                                   /* their number */
	int64_t count;                                     /* the default of --count */
	void (*run)(int n, char **operand, struct err *e); /* operand: (n) after `name` */
};

extern const struct diagnosis diagnose_loss, diagnose_budget, diagnose_trajectories, diagnose_correlation, diagnose_times_command,
    diagnose_uncertainty;

/* The times at which losses are measured by default. */
#define DIAGNOSE_LOSS_TIMES ".05,.15,.25,.35,.45,.55,.65,.75,.85,.95"

enum { DIAGNOSE_PARTS = 1000 };

/* The command line; ddm-diagnose(1) describes each option. */
struct diagnose_request {
	/* times NULL: the default of the command */
	const char *routes, *times, *items, *routing, *centroids, *experts, *json, *out, *device, *column;
	int64_t count, batch, threads, states, steps, every, directions, iterations, parts;
	double tolerance;
	uint64_t seed;
	int split, split_given, untold, no_verify; /* split: into diagnose_splits */
	int states_given, solver;                  /* solver: into diagnose_solvers */
};
extern struct diagnose_request diagnose_request;
extern const struct option diagnose_options[];
extern const char *const diagnose_splits[], *const diagnose_solvers[]; /* NULL at the end */

#endif
