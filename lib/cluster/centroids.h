/* Centroids of an earlier run of ddm-cluster, to assign other samples to. */
#ifndef DDM_CLUSTER_CENTROIDS_H
#define DDM_CLUSTER_CENTROIDS_H

#include "core/err.h"
#include "cluster/featureset.h"
#include "cluster/kmeans.h"

/* The .npy at `path`, whose sidecar PATH.json says what they are of and the offset of each cluster. They must be of f's features, and of the very
 * network where `is_network`; k: how many there must be, 0: any number. hash: SHA-256 of the file. */
int centroids_load(struct kmeans *m, char hash[65], const char *path, const struct featureset *f, int is_network, int64_t k, struct err *e);

#endif
