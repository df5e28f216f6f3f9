/* Soft partitions: a sample belongs to its own cluster and to the nearest others. */
#ifndef DDM_CLUSTER_SOFT_H
#define DDM_CLUSTER_SOFT_H

#include <stdint.h>

#include "cluster/kmeans.h"
#include "data/assignment.h"

/* further (n, most - 1) = the clusters of each point of x (n, m->d) besides its own, cluster [n]: the nearest first, -1 after the last.
 * 2 <= most <= ASSIGNMENT_CLUSTERS. Near means a small |x - c|^2 + offset, the lower number on a tie. margin 0: most - 1 of them, or as many as there
 * are. Else only those whose |x - c|^2 + offset is at most margin^2 times that of the own cluster. */
void soft_clusters(int32_t *further, const struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, int most, double margin,
                   struct pool *pool);

#endif
