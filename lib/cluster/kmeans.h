/* Clustering: k-means with k-means++ seeding (Arthur & Vassilvitskii 2007) and Lloyd's iterations whose assignment is a
 * blocked product. The same points, options and seed give the same bits for any number of threads.
 *
 * On a GPU the seeding and the iterations run there, in float too: the same bits run to run and whatever its memory, not the CPU's. The
 * prices of balanced clusters are found on the CPU.
 *
 * A point belongs to the cluster that minimises |x - c_k|^2 + offset_k, the lowest k on a tie. Offsets are zero unless
 * clusters are balanced: then they are the prices that keep every cluster below its share (a power diagram), so that a
 * balanced partition too is a function of the point alone and other points can be assigned later. */
#ifndef DDM_CLUSTER_KMEANS_H
#define DDM_CLUSTER_KMEANS_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "kernels/device.h"

enum { KMEANS_MOST = 1 << 20 }; /* clusters of any partition */

struct kmeans_options {
	int k;
	int fine;            /* 0: flat. Else so many fine centroids on a subsample first, and the k < fine coarse ones over
	                      * those, weighted by their sizes */
	int64_t fine_sample; /* points of that subsample; 0: the larger of 5% and 64 * fine */
	int restarts;        /* independent seedings, the lowest inertia wins; 0: 3 */
	int iterations;      /* at most; 0: 100 (fine: 50) */
	double tolerance;    /* stop when the inertia falls by less than this share; 0: 1e-5 */
	double balance;      /* 0: none. Else a cluster holds at most kmeans_room points; >= 1.01 */
	uint64_t seed;
	struct pool *pool;
	struct device *device; /* where points that have no weights are assigned and added up; NULL: on the CPU. Borrowed */
	int64_t chunk;         /* points on it at a time where not all fit; 0: 256 MB of them */
	const struct progress *progress;
};

struct kmeans {
	int k;
	int64_t d;
	float *centroids; /* (k, d), owned */
	float *offset;    /* [k], owned */
	int iterations;   /* of the winning run */
	int restart;      /* which run won */
	int reseeded;     /* empty clusters that were given the farthest point */
	double inertia;   /* sum over the points of |x - c|^2 */
};

/* Fit k centroids to x (n, d). Fewer points than k: ERR_USAGE; fewer distinct points than k, or a value that is not
 * finite: ERR_DATA. */
int kmeans_fit(struct kmeans *out, const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e);
void kmeans_release(struct kmeans *m);

/* cluster [n]; distance [n] (may be NULL) = |x - c|, without the offset. device: as of struct kmeans_options. */
int kmeans_assign(int32_t *cluster, float *distance, const struct kmeans *m, const float *x, int64_t n, struct pool *p, struct device *device,
                  struct err *e);

/* balance * n / k points, or one more than the mean if that is more. */
int64_t kmeans_room(double balance, int64_t n, int k);

struct kmeans_quality {
	int k;
	int64_t n;
	int64_t *sizes;           /* [k], owned */
	double *inertia;          /* [k] sum of squared distances of each cluster, owned */
	double total;             /* their sum */
	double largest, smallest; /* shares of n */
	double silhouette;        /* mean over a keyed subsample (Rousseeuw 1987), in [-1, 1]; not finite with one cluster */
	int64_t silhouette_n;     /* points of that subsample */
};

/* How good a partition is. */
int kmeans_rate(struct kmeans_quality *q, const float *x, int64_t n, int64_t d, const int32_t *cluster, const float *distance, int k, uint64_t seed,
                struct pool *p, struct err *e);
void kmeans_quality_release(struct kmeans_quality *q);

/* A control arm: clusters of the same shares, at random. cluster [n] is a function of (seed, key) only through the key's
 * hash; share [k] sums to one. */
int32_t kmeans_random(const char *key, const double *share, int k, uint64_t seed);

#endif
