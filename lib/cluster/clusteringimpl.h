/* The state of one call of cluster_make, shared by the clustering files. */
#ifndef DDM_CLUSTER_CLUSTERINGIMPL_H
#define DDM_CLUSTER_CLUSTERINGIMPL_H

#include "cluster/clustering.h"
#include "cluster/grouping.h"
#include "data/assignment.h"
#include "file/stamp.h"

struct clustering {
	const struct cluster_request *r;
	struct samples *samples;
	struct features_measure network; /* run NULL: the features are not of a network */
	struct device *gpu;              /* GPU that runs k-means; NULL: the CPU */
	struct grouping *groups;         /* with --by; else NULL */
	struct featureset f;
	double motion_scale;   /* of the motion of clips in f: cluster/clipmotion.h; 0: f holds none */
	struct kmeans m;       /* k is set for every kind of partition */
	struct method_fit fit; /* facts about the fit; its centroids are in m */
	json_t *names;         /* [k] names of the clusters; NULL: they have none */
	double *share;         /* [k] cluster shares of a random partition */
	char centroids_hash[65], like_hash[65], samples_hash[65], partition[65];
	int32_t *cluster[2];     /* [f.count] of the training (0) and the held-out part (1) */
	float *distance[2];      /* [f.count] */
	int32_t *further[2];     /* (f.count, soft - 1) with --soft; else NULL */
	struct assignment rated; /* with --rate; else zero */
	struct kmeans old;       /* with --extend, the centroids that stay; with --by and --keep its k alone; else zero, as the next three */
	struct assignment kept;  /* of --keep */
	int64_t keeps, joins;    /* samples that it names; others that go to an old cluster */
	char extend_hash[65];    /* of the centroids */
	json_t *extends;         /* the partitions that this one extends, also if it is that of --centroids; NULL: none */
	struct tsv *against;     /* with --against of a table; else NULL */
	int against_column;
	struct cluster_agreement seeds, labels; /* with --seeds, --against */
	int64_t *held;                          /* [k] held-out samples of each cluster */
	struct kmeans_quality q;                /* of the training part; sizes NULL: there is no training sample */
};

/* 1 if clusters do not depend on features: they are made from a fact, or at random. */
int clustering_is_blind(const struct cluster_request *r);
/* The cluster of sample i. */
int clustering_of(const struct clustering *c, int64_t i);

/* Mean number of different clusters of a training sample. */
double clustering_memberships(const struct clustering *c);

/* The options of the method, and its seed. */
struct method_options clustering_method(const struct clustering *c, uint64_t seed);

/* Make room for the clusters of the two parts, and choose the device of k-means. */
void clustering_new_parts(struct clustering *c);
int clustering_find_device(struct clustering *c, struct err *e);

/* With --extend, make the clusters. The features of the samples are read. */
int clustering_extend(struct clustering *c, struct err *e);

/* With --by and --keep: number the clusters, and set c->names, so that those of the table keep their numbers. On entry cluster [f.n] has the numbers
 * of c->names. ERR_DATA if the table is not by the same fact, or has a sample in another cluster. */
int clustering_extend_names(struct clustering *c, int32_t *cluster, struct err *e);

/* With --rate, take the clusters of the assignment in place of fitting any. */
int clustering_open_rated(struct clustering *c, struct err *e);
int clustering_take_rated(struct clustering *c, struct err *e);
/* Before samples are read: open the table of --against. */
int clustering_open_against(struct clustering *c, struct err *e);
/* Measure the partition: c->q, c->seeds, c->labels. */
int clustering_rate(struct clustering *c, struct err *e);

/* The stamp of the outputs. Caller frees with stamp_free. */
struct stamp *clustering_stamp(const struct clustering *c);

/* Write the outputs, the table last. Before anything is written, checks what exists at their paths (ERR_EXISTS). */
int clustering_write(const struct clustering *c, struct err *e);

#endif
