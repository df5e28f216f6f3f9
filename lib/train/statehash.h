/* Hashes of a state of training, for the hash chain (train/chain.h): of each arena, and briefly of each parameter, so that a difference can be
 * narrowed to a parameter. The SHA-256 of an arena is that of the lines "NAME HASH\n" of its parameters in the order of the table, HASH being the
 * SHA-256 of the parameter's float32 numbers as in files. The files of a checkpoint therefore have the same hashes. Private to lib/train and
 * lib/inspect. */
#ifndef DDM_TRAIN_STATEHASH_H
#define DDM_TRAIN_STATEHASH_H

#include <jansson.h>

#include "train/state.h"

/* {"weights.safetensors": {"sha256": "..", "parameters": "d0c1.."}, ..}: CHAIN_BRIEF digits for each parameter of the arena. Caller json_decref()s.
 * NULL if the device's memory cannot be copied. Of several ranks, rank 0 calls it while the others are in state_follow. */
json_t *state_hashes(const struct train_state *s, struct err *e);

/* Such an object for a file of tensors: those of `names` (n). ERR_DATA if one is missing or is not float32. */
json_t *file_hashes(const char *path, const char *const *names, int n, struct err *e);

#endif
