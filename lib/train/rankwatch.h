/* Whether the ranks of a training keep pace: who computes for longer than the others, which wait for it, and whose clock is wrong. */
#ifndef DDM_TRAIN_RANKWATCH_H
#define DDM_TRAIN_RANKWATCH_H

#include <jansson.h>

#include "comm/comm.h"
#include "core/err.h"

/* Zero-initialised before the first call. */
struct rank_watch {
	int n; /* ranks; 0 before the first comparison */
	double *
	    busy; /* [n] seconds in which a rank did not wait for others, up to the last comparison; known to every rank, what follows to rank 0 alone */
	double *clock;       /* [n] seconds by which a rank's clock of the day is ahead of rank 0's */
	double *bound;       /* [n] the error of clock at most: half of the shortest round trip to that rank */
	char *slow;          /* [n] a straggler at the last comparison */
	char *off;           /* [n] the clock was off at the last comparison */
	int fresh;           /* the numbers are new: set by rank_watch_compare, cleared by whoever writes them to a log */
	double mark, comm_s; /* clock_seconds and comm_exposed_seconds when rank_watch_begin was called */
};

/* A rank straggles that is busy for more than STRAGGLES times as long as the median of the others, and for more than a second longer. A clock is off
 * that differs from rank 0's by CLOCK_OFF seconds more than its bound. */
enum rank_fault { RANK_STRAGGLES, RANK_CLOCK_OFF };
#define STRAGGLES 1.5
#define CLOCK_OFF 1.0

/* Begin to count: the next comparison counts from here. */
void rank_watch_begin(struct rank_watch *w, struct comm *c);
/* Compare the ranks. Collective. Without other ranks nothing happens. ERR_UNAVAILABLE if a rank does not answer. */
int rank_watch_compare(struct rank_watch *w, struct comm *c, struct err *e);
void rank_watch_release(struct rank_watch *w);

/* Call `found` for each fault that the last comparison shows and the one before did not. value: the seconds that the rank was busy, or by which its
 * clock is ahead. others: the median of the seconds that the others were busy. */
void rank_watch_tell(struct rank_watch *w, void (*found)(void *arg, enum rank_fault what, int rank, double value, double others), void *arg);
/* An array of numbers. */
json_t *rank_watch_json(const double *v, int n);

#endif
