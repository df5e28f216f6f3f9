/* The training loop and its log. Inside lib/train. */
#ifndef DDM_TRAIN_STEP_H
#define DDM_TRAIN_STEP_H

#include "train/run.h"

/* From state.step to the end: 0, or -1 with ERR_AGAIN (checkpoint published), ERR_DIVERGED, or what failed. */
int train_steps(struct trainer *r, struct err *e);

void log_start(struct trainer *r);
void log_end(struct trainer *r);

#endif
