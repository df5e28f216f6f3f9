/* Whether the ranks of a training keep pace: who computes for longer than the others, which wait for it, and whose clock is wrong. */
#ifndef DDM_TRAIN_RANKWATCH_H
#define DDM_TRAIN_RANKWATCH_H

#include <jansson.h>

#include "comm/comm.h"
#include "core/err.h"

/* Zero-initialised before the first call. */
struct rank_watch {
	int n;               /* ranks; 0 before the first comparison */
	double *busy;        /* [n] seconds outside the calls to other ranks, between the last two comparisons; rank 0 only, as what follows */
	double *clock;       /* [n] seconds by which a rank's clock of the day is ahead of rank 0's */
	double *bound;       /* [n] the error of clock at most: half of the shortest round trip to that rank */
	char *slow;          /* [n] a straggler at the last comparison */
	char *off;           /* [n] the clock was off at the last comparison */
	int fresh;           /* the numbers are new: set by rank_watch_compare, cleared by whoever writes them to a log */
	double mark, comm_s; /* of the last comparison: clock_seconds and comm_seconds */
};

/* What is called out: a rank that is STRAGGLES times as long busy as the median of all, and by at least a second; and a clock that is off by more
 * than CLOCK_OFF seconds beyond its bound. */
#define STRAGGLES 1.5
#define CLOCK_OFF 1.0

/* Begin to count: the first comparison counts from here. */
void rank_watch_begin(struct rank_watch *w, struct comm *c);
/* Compare the ranks. Collective. Without other ranks nothing happens. ERR_UNAVAILABLE if a rank does not answer. */
int rank_watch_compare(struct rank_watch *w, struct comm *c, struct err *e);
void rank_watch_release(struct rank_watch *w);

/* The ranks that the last comparison calls out. found gets each that was not called out by the comparison before: what is "straggler" or "clock". */
void rank_watch_tell(struct rank_watch *w, void (*found)(void *arg, const char *what, int rank, double value, double usual), void *arg);
/* An array of numbers. */
json_t *rank_watch_json(const double *v, int n);

#endif
