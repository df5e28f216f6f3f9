/* Computes the cluster shares of a random partition, the control that clustering is compared with, and its further clusters where they overlap. */
#ifndef DDM_CLUSTER_RANDOMSHARES_H
#define DDM_CLUSTER_RANDOMSHARES_H

#include <stdint.h>

#include "core/err.h"

/* Make share (*k), in new memory (mem_free). Without `like` all k_wanted clusters have equal shares. `like` is an assignment (a table of any program,
 * as for ddm-shard): the shares are those of its training part, of all of it if there is no column split, and it must have k_wanted clusters (0: any
 * number), else ERR_USAGE. With `places` a sample counts in its further clusters, too, as often as it has places there: shares of what the experts
 * train on. hash: SHA-256 of that file; unchanged without it. */
int random_shares(const char *like, int64_t k_wanted, int places, int *k, double **share, char hash[65], struct err *e);

/* Draw the further clusters of a key, most - 1 of them, 2 <= most <= ASSIGNMENT_CLUSTERS; own is its cluster, of kmeans_random with these shares.
 * Every place is in cluster c with probability share[c], and all are in different clusters unless a share is above 1 / most: a cluster of such a
 * share has some samples more than once. order [k] is overwritten. Depends on the shares, the seed and the hash of the key alone. */
void random_further(int32_t *further, const char *key, int32_t own, const double *share, int k, int most, uint64_t seed, int32_t *order);

#endif
