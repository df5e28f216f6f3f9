/* Clustering: k-means with k-means++ seeding (Arthur & Vassilvitskii 2007) and Lloyd's iterations, which assign points by matrix
 * products. The same points, options and seed give the same bits for any number of threads.
 *
 * On a GPU the seeding and the iterations run there, also in float. The bits are the same in every run and do not depend on the GPU's memory,
 * but they differ from the CPU's. The offsets of balanced clusters are found on the CPU.
 *
 * A point belongs to the cluster that minimises |x - c_k|^2 + offset_k, the lowest k on a tie. Offsets are zero unless clusters are balanced.
 * Then they act as prices that keep every cluster at or below its maximum size (a power diagram). So the cluster of a point in a balanced
 * partition also depends on the point alone, and new points can be assigned later.
 *
 * Spherical k-means (Dhillon & Modha 2001) clusters by the cosine: points have unit length, and the centroid of a cluster is the mean of its points
 * scaled to unit length. Between unit vectors |x - c|^2 = 2 - 2 cos(x, c), so assignment, offsets and distances are the same as above. */
#ifndef DDM_CLUSTER_KMEANS_H
#define DDM_CLUSTER_KMEANS_H

#include <stdint.h>

#include "cluster/separation.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "kernels/device.h"

enum { KMEANS_MOST = 1 << 20 }; /* most clusters of any partition */

struct kmeans_options {
	int k;
	int fine;                  /* 0: flat. Else first fit this many centroids to a subsample, and then the k < fine clusters to those
	                      * centroids, weighted by their sizes */
	int64_t fine_sample;       /* points of the subsample; 0: the larger of 5% and 64 * fine */
	int restarts;              /* number of seedings, of which the lowest inertia wins; 0: 3 */
	int iterations;            /* most iterations; 0: 100 (for the fine centroids: 50) */
	double tolerance;          /* stop if the inertia falls by less than this share; 0: 1e-5 */
	double balance;            /* 0: none. Else a cluster holds at most kmeans_room points; >= 1.01 */
	int cosine;                /* 1: spherical k-means, of points of unit length (points_unit_rows) */
	const struct kmeans *kept; /* NULL, or centroids that stay as they are, the first kept->k < k of the result, with their offsets. The others
	                            * are fitted, and have offsets of 0. Neither with fine nor with balance. Borrowed */
	uint64_t seed;
	struct pool *pool;
	struct device *device; /* runs assignment and sums of unweighted points; NULL: the CPU. Borrowed */
	int64_t chunk;         /* points sent to the device at a time if not all fit; 0: 256 MB of them */
	const struct progress *progress;
};

struct kmeans {
	int k;
	int kept; /* the first centroids, which are not fitted: kmeans_options.kept */
	int64_t d;
	float *centroids; /* (k, d), owned */
	float *offset;    /* [k], owned */
	int cosine;       /* 1: of spherical k-means: the centroids have unit length, and so must the points */
	int iterations;   /* iterations of the winning run */
	int restart;      /* index of the winning run */
	int reseeded;     /* number of times an empty cluster received the farthest point */
	double inertia;   /* sum over the points of |x - c|^2, without offsets */
};

/* Fit k centroids to x (n, d). ERR_USAGE: fewer points than centroids to fit, or bad options; ERR_DATA: fewer distinct points than that, or a value
 * that is not finite;
 * ERR_NOMEM; ERR_AGAIN: the progress said stop. Release with kmeans_release; on failure *out is empty. */
int kmeans_fit(struct kmeans *out, const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e);
void kmeans_release(struct kmeans *m); /* a zeroed one is allowed */

/* Scale the centroids of m to unit length. A centroid of length 0, the mean of opposite points, becomes that of `last` (k, d); NULL: it stays. */
void kmeans_scale(struct kmeans *m, const float *last, struct pool *p);

/* Assign x (n, m->d): cluster [n]; distance [n] (may be NULL) = |x - c|, without the offset. device: as in struct kmeans_options. */
int kmeans_assign(int32_t *cluster, float *distance, const struct kmeans *m, const float *x, int64_t n, struct pool *p, struct device *device,
                  struct err *e);

/* The most points in a cluster: balance * n / k rounded down, but at least n / k + 1. */
int64_t kmeans_room(double balance, int64_t n, int k);

struct kmeans_quality {
	int k;
	int64_t n;
	int64_t *sizes;           /* [k], owned */
	double *inertia;          /* [k] sum of squared distances in each cluster, owned */
	double total;             /* their sum */
	double largest, smallest; /* shares of n */
	double silhouette;        /* mean (Rousseeuw 1987), in [-1, 1]; NaN if the points lie in one cluster */
	double *silhouettes;      /* [k] the same for the points of each cluster; NaN if there are none; owned */
	int64_t silhouette_n;     /* points of which the silhouettes are: n, or a subsample, and distances within it */
	struct separation separation;
};

/* Measure a partition of x (n, d) into k clusters; distance [n] as from kmeans_assign. With more than `most` points the silhouette is that of `most`
 * of them, drawn by the seed; 0: of all, in O(n^2 d). ERR_DATA if n < 1; ERR_NOMEM. Release with kmeans_quality_release, after a failure too. */
int kmeans_rate(struct kmeans_quality *q, const float *x, int64_t n, int64_t d, const int32_t *cluster, const float *distance, int k, int64_t most,
                uint64_t seed, struct pool *p, struct err *e);
void kmeans_quality_release(struct kmeans_quality *q); /* a zeroed one is allowed */

/* The cluster of a key in a random partition, the control that clustering is compared with. share [k], the shares of the clusters, sum to one. The
 * result depends only on the shares, the seed and the hash of the key. */
int32_t kmeans_random(const char *key, const double *share, int k, uint64_t seed);

#endif
