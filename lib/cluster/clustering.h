/* Clusters samples by features, by a fact about them or at random, and writes the assignment, the centroids, the contact sheet and the report, for
 * ddm-cluster. */
#ifndef DDM_CLUSTER_CLUSTERING_H
#define DDM_CLUSTER_CLUSTERING_H

#include "cluster/featureset.h"
#include "cluster/method.h"
#include "core/option.h"
#include "kernels/device.h"

struct cluster_request {
	const char *const *sources; /* (nsources) sources of samples, as for samples_open; "-" is standard input */
	int nsources;
	int64_t k;              /* number of clusters; 0: as given by `by`, `centroids` or `like`. If both are given they must agree */
	const char *by, *table; /* NULL, or group samples by this instead of features, and the table that has the column: cluster/grouping.h */
	int method;             /* enum cluster_method; this and the next six as in struct method_options */
	int64_t fine, neighbours;
	int64_t restarts, iterations;
	double balance;
	int distance;  /* index in cluster_distances: 0, or 1 for spherical k-means. With `centroids`, what these say counts instead */
	int64_t soft;  /* 0, or the places of a sample in its nearest clusters: cluster/soft.h */
	double margin; /* 0, or as there */
	uint64_t seed;
	const char *features;         /* "hogcolor", "random", the name of a network, or the path of a .npy with a row per sample */
	double motion;                /* 0, or append the motion of clips to hogcolor, with this share of the variance: cluster/clipmotion.h */
	double holdout;               /* fraction of the samples to hold out */
	int holdout_by;               /* index in cluster_holdouts */
	const char *centroids, *like; /* NULL, or: a .npy of centroids to assign to; an assignment whose shares a random partition copies */
	const char *extend, *keep;    /* NULL, or: a .npy of centroids that stay, while more are fitted; the assignment of samples that stay in
	                               * its clusters. Every other sample goes to the nearest of all centroids; with `by`, to the cluster of its
	                               * value, which is a new one if `keep` lacks it */
	const char *rate;             /* NULL, or an assignment that is measured in place of clustering; no table is written */
	int64_t silhouette;           /* most training samples in the silhouette; 0: all */
	int64_t seeds;                /* 0, or cluster with that many seeds, seed, seed + 1, ..., and measure how the results agree */
	const char *against;          /* NULL, or measure the agreement with "class", "folder", or a column of `table` */
	const char *out;              /* file for the assignment; "-": standard output */
	const char *centroids_out, *sheet, *report; /* a .npy, a PNG, a JSON file; NULL: not written */
	int skip_bad, nul_list;                     /* this and the next two as in struct samples_options */
	int64_t max_errors;
	const char *spool;
	struct pool *pool;               /* borrowed */
	const struct progress *progress; /* may be NULL */

	/* Opens the network that `features` names: fills *m, whose members stay valid until cluster_make returns. NULL: the features are not of a
	 * network. */
	int (*network)(void *arg, struct features_measure *m, struct err *e);
	/* Chooses the device of k-means: *d stays NULL for the CPU. large: the work is large enough to start a GPU for. NULL: the CPU. */
	int (*device)(void *arg, int large, struct device **d, struct err *e);
	void (*bad)(void *arg, const char *why); /* reports a skipped sample; may be NULL */
	void *arg;                               /* the argument of these three callbacks */
};

extern const char *const cluster_holdouts[];  /* "key", "dir" */
extern const char *const cluster_distances[]; /* "l2", "cosine" */

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option cluster_options[];
struct cluster_request cluster_defaults(void);

/* How a partition agrees with others: other seeds, or labels. */
struct cluster_agreement {
	int64_t others, samples;  /* number of pairs of seeds, or of different labels; training samples that were compared; 0: nothing was */
	double rand, information; /* adjusted Rand index, normalised mutual information: struct agreement; of seeds, the means over all pairs */
	double least, least_information; /* of seeds, the lowest; else the same */
};

/* The result, for a summary. Free with cluster_report_release. */
struct cluster_report {
	int made; /* 1: every output is written; 0: no other field is set */
	int k;
	int64_t samples, skipped;
	int64_t count[2];           /* samples of the training (0) and the held-out part (1) */
	int64_t *size[2];           /* [k] the same for each cluster */
	json_t *names;              /* [k] names of the clusters; NULL: they have none */
	char *features;             /* name of the features; NULL: none were used */
	int cosine;                 /* 1: they were scaled to unit length */
	double inertia, silhouette; /* of the training part: sum of squared distances; silhouette of struct kmeans_quality */
	int64_t silhouette_n;       /* samples of which it is; 0: there are no features */
	struct separation separation;
	double *spread, *silhouettes; /* [k] mean squared distance to the centroid, silhouette; NULL without features, NaN of an empty cluster */
	struct cluster_agreement seeds, labels;
	double memberships;  /* mean number of clusters of a training sample */
	double largest;      /* share of the largest cluster */
	int64_t kept;        /* samples that `keep` names */
	int64_t joined;      /* others that go to a cluster that was extended: the nearest, or that of their value */
	int old_k;           /* clusters that were extended; 0: none */
	int crowded;         /* 1: a cluster exceeds the requested balance, because too many samples are equal */
	int64_t micro, away; /* this and the next two as in struct method_fit; 0, 0, 1, 0 where no method ran */
	int settled;
	double residual;
	const char *gpu; /* name of the GPU that ran k-means; NULL: the CPU. Valid while that device is open */
};

/* Cluster the samples and write the outputs; 0 if all are written. ERR_USAGE, ERR_NOINPUT, ERR_DATA for bad options, sources and files; ERR_EXISTS:
 * an output exists and came from another request; ERR_SKIPPED: more than max_errors samples were skipped, but all outputs are complete without them;
 * ERR_AGAIN: `progress` said stop. Call cluster_report_release in any case. */
int cluster_make(const struct cluster_request *r, struct cluster_report *report, struct err *e);
void cluster_report_release(struct cluster_report *report);

#endif
