/* Chooses the checkpoint to use for a network that is still in training. */
#ifndef DDM_DIFFUSION_INTRAINING_H
#define DDM_DIFFUSION_INTRAINING_H

#include <stdint.h>

#include "core/err.h"

/* Find the newest checkpoint below the trainer's folder `dir`, or with want > 0 the checkpoint of step `want`. 1: found, with its *step and *sub,
 * "train/step-00000020" relative to dir, a folder that holds config.json and the averaged weights; caller frees *sub with mem_free. 0: no
 * checkpoint. -1: ERR_USAGE if there is none of step `want`; ERR_DATA if it was made by an earlier version and has no config.json. */
int training_find(const char *dir, int64_t want, int64_t *step, char **sub, struct err *e);

#endif
