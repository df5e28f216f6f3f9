/* The state of one call of cluster_make, shared by the clustering files. */
#ifndef DDM_CLUSTER_CLUSTERINGIMPL_H
#define DDM_CLUSTER_CLUSTERINGIMPL_H

#include "cluster/clustering.h"
#include "cluster/grouping.h"
#include "file/stamp.h"

struct clustering {
	const struct cluster_request *r;
	struct samples *samples;
	struct features_measure network; /* run NULL: features are of no network */
	struct device *gpu;              /* where k-means runs; NULL: on the CPU */
	struct grouping *groups;         /* of --by; or NULL */
	struct featureset f;
	struct kmeans m; /* k is set for every kind of clusters */
	json_t *names;   /* [k] of the clusters; NULL: they have none */
	double *share;   /* [k] of a random partition */
	char centroids_hash[65], like_hash[65], samples_hash[65], partition[65];
	int32_t *cluster[2];     /* [f.count] of the training (0) and the held-out part (1) */
	float *distance[2];      /* [f.count] */
	int64_t *held;           /* [k] held-out samples of each cluster */
	struct kmeans_quality q; /* of the training part; sizes NULL: that has no samples */
};

/* Whether samples are put into clusters without a look at their features: by a fact, or at random. */
int clustering_is_blind(const struct cluster_request *r);
/* Which cluster sample i belongs to. */
int clustering_of(const struct clustering *c, int64_t i);

/* Caller frees with stamp_free. */
struct stamp *clustering_stamp(const struct clustering *c);

/* Looks first at what stands under the names of the outputs (ERR_EXISTS), then writes them, the table last. */
int clustering_write(const struct clustering *c, struct err *e);

#endif
