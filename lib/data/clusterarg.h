/* The cluster that an option names. */
#ifndef DDM_DATA_CLUSTERARG_H
#define DDM_DATA_CLUSTERARG_H

#include <stdint.h>

#include "core/err.h"

/* --cluster: "all" (-1), a number from 0, or a name by the manifest of the SHARDS folder. Whether there is such a number is for the reader of the
 * folder to say. */
int cluster_argument(const char *text, const char *shards, int64_t *k, struct err *e);

#endif
