/* Estimates the rate of a long operation and the time it has left, for progress lines. No result depends on it. */
#ifndef DDM_CORE_PACE_H
#define DDM_CORE_PACE_H

#include <stdint.h>

enum { PACE_MARKS = 32, PACE_TEXT = 32 };

/* The newest measurements (time, items done), at least a second apart. Zero it before the first use. The rate is computed from these alone, so
 * it follows an operation that becomes slower. */
struct pace {
	double time[PACE_MARKS]; /* seconds of clock_seconds() */
	int64_t done[PACE_MARKS];
	int n, first;
	double now;
	int64_t at;
};

/* Record that `done` items are done at time `now` (clock_seconds()). If `done` is lower than before, a new pass has begun: measure anew. */
void pace_add(struct pace *p, int64_t done, double now);

/* Items per second; 0 in the first second and while nothing is done. */
double pace_rate(const struct pace *p);

/* Seconds until `total` items are done; -1 if unknown. */
double pace_left(const struct pace *p, int64_t total);

/* "0:42", "12:05", "3:07:45", "2d 3h". Returns text. */
const char *pace_text(char text[PACE_TEXT], double seconds);

/* "812", "8.1", "0.34", "12.5k": a rate in few characters. Returns text. */
const char *pace_number(char text[PACE_TEXT], double rate);

#endif
