/* Errors for an operand of the wrong kind, such as a folder of pictures instead of shards: they name the missing step. */
#ifndef DDM_DATA_OPERAND_H
#define DDM_DATA_OPERAND_H

#include "core/err.h"

/* 0 where path may be a SHARDS folder or is absent, which its reader says. -1 and ERR_NOINPUT where it is something else: pictures or a tar of
 * samples, which ddm-cluster and ddm-shard make shards of; a model; a file. */
int operand_shards(const char *path, struct err *e);

#endif
