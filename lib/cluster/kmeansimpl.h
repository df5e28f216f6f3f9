/* Shared by the k-means files: a set of points and its current assignment. */
#ifndef DDM_CLUSTER_KMEANSIMPL_H
#define DDM_CLUSTER_KMEANSIMPL_H

#include "cluster/kmeans.h"
#include "cluster/points.h"

struct device_points;

struct points {
	const float *x;       /* (n, d), borrowed */
	const double *weight; /* [n], or NULL: all 1; borrowed */
	int64_t n, d;
	struct pool *pool;
	float *length;            /* [n] |x|^2 */
	float *near;              /* [n] squared distance to the nearest or assigned centre */
	int32_t *cluster;         /* [n] */
	int64_t *order;           /* [n] points sorted by cluster */
	float *score;             /* (n, k), |c|^2 - 2 x c; NULL until points_assign with keep_scores */
	struct device_points *on; /* NULL: on the host. Else near and cluster are on the device, and valid here only after points_see */
};

/* Where the computation runs. most: the largest number of centres in a call. */
struct points_place {
	struct device *device; /* NULL: on the host; borrowed */
	int64_t chunk;         /* points sent to the device at a time; 0: chosen by their size */
	int most;
};

/* Prepare x (n, d). Weighted points are always computed on the host. ERR_NOMEM. Call points_release after a failure too. */
int points_init(struct points *p, const float *x, const double *weight, int64_t n, int64_t d, struct pool *pool, const struct points_place *place,
                struct err *e);
void points_release(struct points *p);

/* Update near, the squared distance to the nearest centre so far, with `count` new centres (count, d). With `first` there were no centres before. sum
 * [(n + POINTS_SCAN - 1) / POINTS_SCAN]: the sum of weight * near of every POINTS_SCAN points. */
enum { POINTS_SCAN = 4096 };
int points_approach(struct points *p, const float *centre, int count, int first, double *sum, struct err *e);

/* Compute cluster and near of every point, and *inertia, the weighted sum of near. keep_scores keeps p->score for points_balance; it is not allowed
 * on a device. */
int points_assign(struct points *p, const struct kmeans *m, double *inertia, int keep_scores, struct err *e);

/* Raise m->offset until no cluster holds more than kmeans_room(share, n, k) points, or the limit of rounds is reached because too many points are
 * equal. Needs p->score; updates cluster, near and *inertia. Returns 0. */
int points_balance(struct points *p, struct kmeans *m, double share, double *inertia);

/* The same points on a device. If its memory suffices, all points stay there. Else every pass sends them again, one chunk while the device computes
 * with another. Chunks depend only on n and d, so the results are the same bytes in both cases. No device memory is allocated before the first pass.
 * x (n, d) is borrowed. */
struct device_points *device_points_new(const struct points_place *place, const float *x, int64_t n, int64_t d, struct pool *pool);
void device_points_free(struct device_points *p); /* NULL is allowed */

enum device_pass {
	PASS_FIRST, /* near = squared distance to the nearest of the given centres */
	PASS_LOWER, /* near = the smaller of that and the previous near */
	PASS_FIND,  /* as PASS_FIRST, and the cluster */
	PASS_ADD    /* as PASS_FIND, and the sums and sizes of the clusters */
};

/* Pass over all points with these centres (k, d); offset [k], or NULL. sum [(n + POINTS_SCAN - 1) / POINTS_SCAN], or NULL: the sum of near of every
 * POINTS_SCAN points. */
int device_points_pass(struct device_points *p, enum device_pass pass, const float *centre, const float *offset, int k, double *sum, struct err *e);

/* Compute the sums and sizes of the clusters for another assignment. Needs a pass before it. */
int device_points_add(struct device_points *p, const int32_t *cluster, int k, struct err *e);
const double *device_points_sums(const struct device_points *p);   /* (k, d), sums of the last PASS_ADD or device_points_add */
const int32_t *device_points_sizes(const struct device_points *p); /* [k] sizes */

/* Copy near and cluster of [from, to) to the host. */
int device_points_get(struct device_points *p, float *near, int32_t *cluster, int64_t from, int64_t to, struct err *e);

#endif
