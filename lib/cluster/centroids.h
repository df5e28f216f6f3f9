/* Loads the centroids of an earlier run of ddm-cluster, to assign other samples to its clusters or to extend them. */
#ifndef DDM_CLUSTER_CENTROIDS_H
#define DDM_CLUSTER_CENTROIDS_H

#include <jansson.h>

#include "core/err.h"
#include "cluster/featureset.h"
#include "cluster/kmeans.h"

/* What the sidecar says of the partition. Zeroed before it is loaded. */
struct centroids_past {
	char partition[65]; /* of the run that wrote the centroids; empty: not recorded */
	json_t *extends;    /* the partitions that it extends (core/extends.h), or NULL; owned by the caller */
};

/* Load the centroids (k, d) at `path`, a .npy. Its sidecar PATH.json names the features and holds the offset of each cluster; without one, offsets
 * are zero. m->cosine if the sidecar says that they are of spherical k-means. ERR_DATA if they are not of f's features, or with `is_network` not of
 * the same network and input; ERR_USAGE if their number is not k (0: any). hash: SHA-256 of the file. past: NULL, or receives what the sidecar says
 * of the partition, after a failure too. *m must be zeroed before; release it with kmeans_release, after a failure too. */
int centroids_load(struct kmeans *m, char hash[65], struct centroids_past *past, const char *path, const struct featureset *f, int is_network,
                   int64_t k, struct err *e);

/* Read from the sidecar of the centroids at `path` how motion is scaled in their features (cluster/clipmotion.h): *scale is 0 if they hold none, or
 * there is no sidecar. ERR_DATA if it is not a positive number. */
int centroids_motion(double *scale, const char *path, struct err *e);

#endif
