/* train.jsonl: one JSON object per line, only ever appended to, for people and plots. */
#ifndef DDM_TRAIN_TRAINLOG_H
#define DDM_TRAIN_TRAINLOG_H

#include <jansson.h>

#include "core/err.h"

/* A descriptor for appending, or -1. What a killed writer left of a line is cut off. */
int trainlog_open(const char *path, struct err *e);

/* Takes over o. A line that cannot be written whole (a full disk) is left out and does not end the training. */
void trainlog_line(int fd, json_t *o);

#endif
