/* For ddm-compare: the arms of an experiment, each with its numbers over the training seeds. */
#ifndef DDM_CMD_COMPARE_H
#define DDM_CMD_COMPARE_H

#include <jansson.h>

#include "core/err.h"
#include "metric/paired.h"

struct series {
	double *value; /* one per file that has the key, in the order given */
	int n;
};

struct arm {
	char *label;       /* owned */
	struct series *of; /* (keys) */
};

struct arms {
	struct arm *v;
	int n;
	char **key; /* (keys) owned */
	int keys;
	const char *names; /* the keys as they were given; borrowed */
	json_t *first;     /* what the first file said, to hold the others against; owned */
	char *first_path;  /* owned */
	json_t *seen;      /* label -> samples' hash -> path; owned */
};

/* names: keys, with commas or spaces between. None: ERR_USAGE. Release in any case. */
int arms_init(struct arms *a, const char *names, struct err *e);
void arms_release(struct arms *a);

/* Adds LABEL=FILE[,FILE]...; a FILE that is there under a name with commas is one. */
int arms_read(struct arms *a, const char *operand, struct err *e);

/* Whether every arm has as many numbers of each key as the first. */
int arms_check(const struct arms *a, struct err *e);

/* One arm's numbers of one key beside the first arm's. */
struct comparison {
	int key, arm;
	double mean, sd;   /* over the seeds of this arm; sd is NaN of one seed */
	double difference; /* mean over the seeds from the first arm */
	int compared;      /* whether there is an interval: not of the first arm, nor of one seed */
	struct paired p;
	double holm; /* p after Holm's correction over all rows that are tests; NaN: this one is none */
};

/* Rows of every key and arm, the first arm included: (keys * arms). Caller frees with mem_free. NULL: e. A difference that is the same in
 * every pair is no test (the arms' GFLOP): it has no corrected p and does not count. */
struct comparison *arms_compare(const struct arms *a, double level, struct err *e);

#endif
