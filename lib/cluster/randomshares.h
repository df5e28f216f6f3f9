/* Computes the cluster shares of a random partition, the control that clustering is compared with. */
#ifndef DDM_CLUSTER_RANDOMSHARES_H
#define DDM_CLUSTER_RANDOMSHARES_H

#include <stdint.h>

#include "core/err.h"

/* Make share (*k), in new memory (mem_free). Without `like` all k_wanted clusters have equal shares. `like` is an assignment (a table of any program,
 * as for ddm-shard): the shares are those of its training part, of all of it if there is no column split, and it must have k_wanted clusters (0: any
 * number), else ERR_USAGE. hash: SHA-256 of that file; unchanged without it. */
int random_shares(const char *like, int64_t k_wanted, int *k, double **share, char hash[65], struct err *e);

#endif
