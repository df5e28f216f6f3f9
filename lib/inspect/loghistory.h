/* Reads a training log (train/trainlog.h) into columns of numbers, and follows it while it grows. ddm-status and ddm-log use it. */
#ifndef DDM_INSPECT_LOGHISTORY_H
#define DDM_INSPECT_LOGHISTORY_H

#include <stdint.h>

#include "core/err.h"

/* A start of the program. Unknown numbers are NaN, unknown texts "". */
struct log_attempt {
	int64_t number; /* from 1 */
	int64_t step;   /* the step from which it went on */
	int64_t pid;    /* 0: unknown */
	double time;    /* of its start, in seconds since 1970 */
	double seconds; /* from its start to its last line */
	char *host, *device;
};

/* The numbers of one name. A member of a nested object is named "outer.inner". */
struct log_column {
	char *name;
	double *v; /* (n) of struct loghistory; NaN: the line has none, or one that is not finite */
};

struct loghistory {
	char *path;
	struct log_attempt *attempt; /* (attempts) in order; those of which no line is left are not among them */
	int attempts;

	/* A line with a step. */
	int64_t *step;             /* (n) */
	int *of;                   /* (n) index of its attempt; -1: before the first start line */
	struct log_column *column; /* (columns) in order of appearance */
	int64_t n, room;
	int columns;

	/* Facts of the last start line. -1 and NaN: not known. */
	int64_t steps, samples, batch;
	double parameters, gflop_per_image, seconds_before;
	char *program; /* "ddm-train"; "" if not known */
	int finished;  /* 1: the last attempt has reached its end */
	char *unsaved; /* why the last checkpoint that was tried could not be written; NULL: none failed */
	int64_t unsaved_step;

	int64_t damaged; /* lines that are not used: not a JSON object, or altered after they were written */
	struct err why;  /* the first of them */

	/* Private: where the next line begins, the last bytes before, and the lines so far. */
	int64_t offset, lines;
	uint64_t inode;
	char *tail;
	int tail_bytes;
};

/* Nothing is read yet. Caller frees with loghistory_free. */
struct loghistory *loghistory_new(const char *path);
void loghistory_free(struct loghistory *h); /* NULL is allowed */

/* Read the lines that were added since the last call. A log that was replaced, or whose end was cut off, as by a run that repeats steps, is read
 * again from its beginning. A last line without its newline waits for the next call. Damaged lines are passed over and counted. 1 if something was
 * read, 0 if nothing is new, -1 if the file cannot be read (ERR_NOINPUT: there is none). */
int loghistory_update(struct loghistory *h, struct err *e);

/* The column of that name, or NULL. */
const struct log_column *loghistory_column(const struct loghistory *h, const char *name);
/* The last number of a column; NaN if there is none. If `finite` is 0, that of the last line. */
double loghistory_last(const struct loghistory *h, const char *name, int finite);

/* Seconds that all attempts computed, to their last lines. */
double loghistory_seconds(const struct loghistory *h);
/* The time of line i in seconds since 1970; NaN if the log does not say. */
double loghistory_time(const struct loghistory *h, int64_t i);

#endif
