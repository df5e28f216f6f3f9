/* train.jsonl: one JSON object per line, for people and plots. Lines are appended; lines of steps that a resumed run will
 * repeat are cut off first. */
#ifndef DDM_TRAIN_TRAINLOG_H
#define DDM_TRAIN_TRAINLOG_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* What the log said of earlier attempts, also in lines that are cut off because the run repeats their steps. */
struct trainlog_past {
	int64_t attempts; /* how often the run was started */
	double seconds;   /* from each start to the last line of that attempt, summed */
};

/* Open for appending after `step`: a descriptor, or -1. Cuts off an incomplete last line, and everything from the first line of a later step or of
 * the end on, so that each step is in the log once. */
int trainlog_open(const char *path, int64_t step, struct trainlog_past *past, struct err *e);

/* Put facts about a run into o: state ("finished", or "step" when it ends at one), step steps percent loss val_loss
 * best_val_loss best_step images_per_s eta_s (of what is left at that speed) runs (how often it was started) parameters samples, and
 * torn (true: the last line is cut, which a running or killed writer may leave). Every line is looked at, but parsed only where it
 * matters; with `check` all are parsed, and a line that is not an object is ERR_DATA. */
int trainlog_facts(json_t *o, const char *path, int check, struct err *e);
/* The same for the text of a log. */
int trainlog_read(json_t *o, const char *text, size_t len, const char *name, int check, struct err *e);

/* Append a line; takes over o. A line that cannot be written completely (a full disk) is dropped, and training continues. */
void trainlog_line(int fd, json_t *o);

#endif
