/* The cluster shares of a random partition, the control that clustering is compared with. */
#ifndef DDM_CLUSTER_RANDOMSHARES_H
#define DDM_CLUSTER_RANDOMSHARES_H

#include <stdint.h>

#include "core/err.h"

/* share (*k), in new memory: equal for k_wanted clusters; or those of the training part of the assignment at `like` (a table of any program, as
 * for ddm-shard; all of it without a column split), which must then have k_wanted clusters (0: any number). hash: SHA-256 of that file. */
int random_shares(const char *like, int64_t k_wanted, int *k, double **share, char hash[65], struct err *e);

#endif
