/* How fast a long operation goes and how long it will still take: for lines of progress. No result depends on it. */
#ifndef DDM_CORE_PACE_H
#define DDM_CORE_PACE_H

#include <stdint.h>

enum { PACE_MARKS = 32, PACE_TEXT = 32 };

/* What was done at which time: the newest marks, a second or more apart. Zeroed before the first use. The rate is that of the marks
 * that are kept, so that it follows an operation that becomes slower. */
struct pace {
	double time[PACE_MARKS]; /* seconds of clock_seconds() */
	int64_t done[PACE_MARKS];
	int n, first;
	double now;
	int64_t at;
};

/* `done` items are done at the time `now` (clock_seconds()). Going back, as a second pass does, starts anew. */
void pace_add(struct pace *p, int64_t done, double now);

/* Items a second; 0 as long as a second has not passed or nothing was done. */
double pace_rate(const struct pace *p);

/* Seconds until `total` items are done; -1 where that is not known yet. */
double pace_left(const struct pace *p, int64_t total);

/* "0:42", "12:05", "3:07:45", "2d 3h". Returns text. */
const char *pace_text(char text[PACE_TEXT], double seconds);

/* "812", "8.1", "0.34", "12.5k": a rate in few characters. Returns text. */
const char *pace_number(char text[PACE_TEXT], double rate);

#endif
