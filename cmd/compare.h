/* For ddm-compare: the arms of an experiment, each with its values over the training seeds. */
#ifndef DDM_CMD_COMPARE_H
#define DDM_CMD_COMPARE_H

#include <jansson.h>

#include "core/err.h"
#include "metric/paired.h"

/* The values of one key in one arm. */
struct series {
	double *value; /* one per file that has the key, in the order given */
	int n;
};

/* An arm of the experiment: the runs that share a label. */
struct arm {
	char *label;       /* owned */
	struct series *of; /* (keys) */
};

/* All arms. Set up by arms_init. */
struct arms {
	struct arm *v;
	int n;
	char **key; /* (keys) owned */
	int keys;
	const char *names; /* the keys as they were given; borrowed */
	json_t *first;     /* content of the first file with a recipe; later files must have the same recipe and inputs; owned */
	char *first_path;  /* its path; owned */
	json_t *seen;      /* label -> hash of the samples -> path of the file that measured them; owned */
};

/* names: keys separated by commas or spaces, borrowed; ERR_USAGE if there is none. Release with arms_release, also after failure. */
int arms_init(struct arms *a, const char *names, struct err *e);
void arms_release(struct arms *a);

/* Add the files of the operand LABEL=FILE[,FILE]... to the arm LABEL. If a file exists under the whole text after =, it is not split at commas. */
int arms_read(struct arms *a, const char *operand, struct err *e);

/* Check that every arm has as many values of each key as the first arm: 0, or -1 and *e. */
int arms_check(const struct arms *a, struct err *e);

/* The values of one key in one arm, compared with those in the first arm. */
struct comparison {
	int key, arm;
	double mean, sd;   /* over the seeds of this arm; sd is NaN with one seed */
	double difference; /* mean over the seeds of this arm's value minus the first arm's */
	int compared;      /* 1: p is set; 0 for the first arm, or with one seed */
	struct paired p;   /* the paired test */
	double holm;       /* p value after Holm's correction over all rows that are tests; NaN: not a test */
};

/* Compare every arm with the first: (keys, arms), the first arm included. A difference that is the same in every pair, such as that of GFLOP, is
 * not a test: its `holm` is NaN, and the correction does not count it. NULL and *e on failure. Caller frees with mem_free. */
struct comparison *arms_compare(const struct arms *a, double level, struct err *e);

#endif
