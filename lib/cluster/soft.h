/* Soft partitions: the weight of a sample is divided between its own cluster and the nearest others, in equal parts called places. */
#ifndef DDM_CLUSTER_SOFT_H
#define DDM_CLUSTER_SOFT_H

#include <stdint.h>

#include "cluster/kmeans.h"
#include "data/assignment.h"

/* Give each point of x (n, m->d) `most` places in clusters, 2 <= most <= ASSIGNMENT_CLUSTERS. The first is in its own cluster, cluster [n]. The
 * others are further (n, most - 1): the nearest other clusters, nearest first. Near means a small |x - c|^2 + offset, the lower number on a tie. With
 * margin > 0 only clusters whose |x - c|^2 + offset is at most margin^2 times that of the own cluster. Places that are left go to the own cluster and
 * to these, in the same order and again. So every point has the weight `most` in all clusters together. */
void soft_clusters(int32_t *further, const struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, int most, double margin,
                   struct pool *pool);

#endif
