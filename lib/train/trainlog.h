/* train.jsonl: one JSON object per line, for people and plots. Lines are appended; those of steps that a killed run did and that will be done
 * again are cut off first. */
#ifndef DDM_TRAIN_TRAINLOG_H
#define DDM_TRAIN_TRAINLOG_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* A descriptor for appending after `step`, or -1. What a killed writer left of a line is cut off, and so are all lines from the first of a later
 * step, or of the end, on: each step is in the log once. */
int trainlog_open(const char *path, int64_t step, struct err *e);

/* What a log says of a run, as members of o: state ("finished", or "step" when it ends at one), step steps percent loss val_loss
 * best_val_loss best_step images_per_s eta_s (of what is left at that speed) runs (how often it was started) parameters samples, and
 * torn (true: the last line is cut, which a running or killed writer may leave). Every line is looked at, but parsed only where it
 * matters; with `check` all are, and one that is no object is ERR_DATA naming it. */
int trainlog_facts(json_t *o, const char *path, int check, struct err *e);
/* The same of its text. */
int trainlog_read(json_t *o, const char *text, size_t len, const char *name, int check, struct err *e);

/* Takes over o. A line that cannot be written whole (a full disk) is left out and does not end the training. */
void trainlog_line(int fd, json_t *o);

#endif
