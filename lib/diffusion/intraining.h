/* A network that is still being trained: which of its checkpoints stands for it. */
#ifndef DDM_DIFFUSION_INTRAINING_H
#define DDM_DIFFUSION_INTRAINING_H

#include <stdint.h>

#include "core/err.h"

/* The newest checkpoint below the trainer's folder `dir`, or with want > 0 that of step `want`: *sub is "train/step-00000020", relative to dir,
 * which the caller frees with mem_free, and holds config.json and the averaged weights. 1 and *step; 0 where there is no checkpoint. Others
 * than `want` alone: -1 and ERR_USAGE; one that has no config.json, because an earlier version made it: ERR_DATA. */
int training_find(const char *dir, int64_t want, int64_t *step, char **sub, struct err *e);

#endif
