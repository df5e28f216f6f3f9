/* The training loop and its log. Private to lib/train. */
#ifndef DDM_TRAIN_STEP_H
#define DDM_TRAIN_STEP_H

#include "train/run.h"

/* Train from state.step to the end: 0, or -1 with ERR_AGAIN (checkpoint published), ERR_DIVERGED, or the error of what failed. */
int train_steps(struct trainer *r, struct err *e);

/* Write lines of train.jsonl: the first of a process; of `step`, the last finished step (val_loss and val_pictures NAN: not measured; takes over
 * detail, which may be NULL); of a checkpoint that could not be written; of a sample with NaN or infinity; the end. */
void log_start(struct trainer *r);
void log_step(struct trainer *r, int64_t step, double val_loss, double val_pictures, json_t *detail);
/* Write and say which ranks the last comparison calls out (train/rankwatch.h). */
void log_rank_watch(struct trainer *r);
/* Account for the samples' losses of a finished step; if it stands out (train/stepdetail.h), write a line with its samples of the largest losses. */
void log_spike(struct trainer *r, int64_t step, int finite, double loss);
void log_unsaved(struct trainer *r, int64_t step, const char *why);
void log_nonfinite(struct trainer *r, const char *key);
/* That no step has ended for too long; `where` says what the process is doing. Returns after a few seconds also if the disk does not answer. */
void log_hung(const struct trainer *r, const char *where);
void log_end(struct trainer *r);

/* Warn of the samples of a batch of a set that hold a NaN or an infinity, by key, each once, up to a limit; also writes them to the log. */
void name_nonfinite(struct trainer *r, const struct train_set *s, const struct batch *b);
/* The same for one sample of a set, with `count` numbers at x. */
void name_nonfinite_sample(struct trainer *r, struct dataset *set, int64_t index, const float *x, int64_t count);

#endif
