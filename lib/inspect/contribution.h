/* What each expert contributed to a picture, from the log of ddm-sample (--log). */
#ifndef DDM_INSPECT_CONTRIBUTION_H
#define DDM_INSPECT_CONTRIBUTION_H

#include <jansson.h>

#include "core/err.h"

/* Whether the first line of a file is one of the log of ddm-sample. */
int contribution_is_log(const char *path);

/* The line of the log for the picture whose stamp has this hash (stamp_hash). *experts receives a list with an object for each expert:
 *   expert  "expert_K"
 *   share   mean over the steps of its weight in the mixture, 0 .. 1; the shares sum to 1 where the weights of each step do
 *   first, last   its weights in the first and in the last step
 * Caller json_decref()s. 1 found; 0 the log has no such line; -1 and ERR_DATA for a damaged line, or for a log without hashes. */
int contribution_read(const char *path, const char *hash, json_t **experts, struct err *e);

#endif
