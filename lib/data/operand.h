/* Errors for an operand of the wrong kind, such as a folder of pictures instead of shards: they name the missing step. */
#ifndef DDM_DATA_OPERAND_H
#define DDM_DATA_OPERAND_H

#include "core/err.h"

/* 0 if path may be a SHARDS folder, or is absent (its reader reports that). -1 and ERR_NOINPUT if it is something else: a folder of pictures or a
 * tar of samples, which ddm-cluster and ddm-shard turn into shards; a model; a file. */
int operand_shards(const char *path, struct err *e);

#endif
