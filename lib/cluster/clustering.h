/* From a request to an assignment: samples are read, cut into clusters by features, by a fact or at random, and the table, the centroids, the
 * contact sheet and the report are written. */
#ifndef DDM_CLUSTER_CLUSTERING_H
#define DDM_CLUSTER_CLUSTERING_H

#include "cluster/featureset.h"
#include "cluster/kmeans.h"
#include "core/option.h"
#include "kernels/device.h"

struct cluster_request {
	const char *const *sources; /* (nsources) of samples, as samples_open takes them; "-" is standard input */
	int nsources;
	int64_t k;              /* 0: as many as `by`, `centroids` or `like` give; beside one of these the number that there must be */
	const char *by, *table; /* NULL, or what samples are grouped by, and where that stands: cluster/grouping.h */
	int64_t fine;           /* as struct kmeans_options has them, and the next four */
	int64_t restarts, iterations;
	double balance;
	uint64_t seed;
	const char *features;         /* "hogcolor", "random", the name of a network, or a .npy with a row per sample */
	double holdout;               /* the fraction that is held out */
	int holdout_by;               /* a number in cluster_holdouts */
	const char *centroids, *like; /* NULL, or a .npy of centroids to assign to; an assignment whose shares a random partition takes */
	const char *out;              /* the table; "-": standard output */
	const char *centroids_out, *sheet, *report; /* NULL: not wanted. A .npy, a PNG, a JSON file */
	int skip_bad, nul_list;                     /* as struct samples_options has them, and the next two */
	int64_t max_errors;
	const char *spool;
	struct pool *pool;               /* borrowed */
	const struct progress *progress; /* NULL: not told */

	/* Opens the network that `features` names: fills *m, whose parts stay valid until cluster_make returns. NULL: features are of no network. */
	int (*network)(void *arg, struct features_measure *m, struct err *e);
	/* Where k-means runs: *d stays NULL for the CPU. large: the work is worth the start of a GPU. NULL: on the CPU. */
	int (*device)(void *arg, int large, struct device **d, struct err *e);
	void (*bad)(void *arg, const char *why); /* a sample that is passed over; NULL: not told */
	void *arg;                               /* of these three */
};

extern const char *const cluster_holdouts[]; /* "key", "dir" */

/* The options that fill a request on a command line, and its defaults. */
extern const struct option cluster_options[];
struct cluster_request cluster_defaults(void);

/* What was made, for a summary. Free with cluster_report_release. */
struct cluster_report {
	int made; /* every output is written; 0: no other field is set */
	int k;
	int64_t samples, skipped;
	int64_t count[2];           /* samples of the training (0) and the held-out part (1) */
	int64_t *size[2];           /* [k] the same of each cluster */
	json_t *names;              /* [k] of the clusters; NULL: they have none */
	char *features;             /* NULL: none were looked at */
	double inertia, silhouette; /* of the training part: the sum of squared distances, and as struct kmeans_quality has it */
	double largest;             /* the share of the largest cluster */
	int crowded;                /* too many samples are alike for the balance that was asked for */
	const char *gpu;            /* where k-means ran; NULL: on the CPU. Valid while that device is open */
};

/* 0 when all outputs are written. ERR_USAGE, ERR_NOINPUT, ERR_DATA as options, sources and files say; ERR_EXISTS: an output is there and came
 * from another request; ERR_SKIPPED: more samples than max_errors were skipped, all outputs are complete without them; ERR_AGAIN: `progress`
 * said stop. */
int cluster_make(const struct cluster_request *r, struct cluster_report *report, struct err *e);
void cluster_report_release(struct cluster_report *report);

#endif
