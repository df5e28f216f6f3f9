/* The cluster that an option names. */
#ifndef DDM_DATA_CLUSTERARG_H
#define DDM_DATA_CLUSTERARG_H

#include <stdint.h>

#include "core/err.h"

/* Parse the argument of --cluster into *k: "all" (-1), a number from 0, or a name listed in the manifest of the SHARDS folder. The upper limit of
 * numbers is not checked here; the reader of the folder does that. */
int cluster_argument(const char *text, const char *shards, int64_t *k, struct err *e);

#endif
