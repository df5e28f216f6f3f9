/* The times that a network was trained on, when they are a part of those of its path.
 *
 * t is that of the network's own path (diffusion/path.h): 0 is data, 1 is noise. A path of discrete time has step k at (k + first) / unit
 * (diffusion/schedule.h). A range is half-open: a time between two ranges that meet belongs to the noisier one, as in Wan 2.2. */
#ifndef DDM_NET_TIMERANGE_H
#define DDM_NET_TIMERANGE_H

#include <jansson.h>

#include "core/err.h"
#include "file/stamp.h"

struct time_range {
	double from, to; /* from <= t < to; to = 1 includes 1. Zeroed: all times */
};

/* Parse "A..B", 0 <= A < B <= 1, else ERR_USAGE. 0..1 gives the zeroed range. */
int time_range_parse(const char *text, struct time_range *r, struct err *e);
/* Whether t is in the range. */
int time_range_holds(struct time_range r, double t);
/* Its upper end: 1 for the zeroed range. */
double time_range_end(struct time_range r);
/* "time_range" of config.json: [A, B], or zeroed if it is absent. ERR_DATA naming `where`. */
int time_range_load(const json_t *o, struct time_range *r, const char *where, struct err *e);
/* [A, B], for config.json. Caller json_decref()s. */
json_t *time_range_json(struct time_range r);
/* "A..B" with at most 17 digits; buffer holds TIME_RANGE_TEXT bytes. Returns buffer. */
enum { TIME_RANGE_TEXT = 80 };
const char *time_range_text(struct time_range r, char *buffer);

/* For a row of a table of options (core/option.h): parse a struct time_range, and put it into a stamp unless it is zeroed. */
int time_range_option(void *field, const char *label, const char *text, struct err *e);
void time_range_stamp(struct stamp *s, const char *key, const void *field);

#endif
