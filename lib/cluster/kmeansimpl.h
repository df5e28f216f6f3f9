/* Shared by the k-means files: a set of points and its current assignment. */
#ifndef DDM_CLUSTER_KMEANSIMPL_H
#define DDM_CLUSTER_KMEANSIMPL_H

#include "cluster/kmeans.h"

/* Steps of RNG_CLUSTER: restarts count from 0, the rest lies above. */
enum { STEP_FINE = 1 << 20, STEP_SUBSAMPLE, STEP_RANDOM, STEP_SILHOUETTE };

/* m of n rows, drawn with RNG_CLUSTER at this step, in index order. Caller frees with mem_free. */
int64_t *points_subsample(int64_t n, int64_t m, uint64_t seed, uint64_t step);

struct device_points;

struct points {
	const float *x;       /* (n, d), borrowed */
	const double *weight; /* [n], or NULL: one each; borrowed */
	int64_t n, d;
	struct pool *pool;
	float *length;            /* [n] |x|^2 */
	float *near;              /* [n] squared distance to the nearest centre */
	int32_t *cluster;         /* [n] */
	int64_t *order;           /* [n] points by cluster */
	float *score;             /* (n, k), |c|^2 - 2 x c, kept when asked for */
	struct device_points *on; /* NULL: all of it is on the host. Else near and cluster are there when points_see has been called */
};

/* Where it is computed, for up to so many centres at a time. */
struct points_place {
	struct device *device; /* NULL: on the host; borrowed */
	int64_t chunk;         /* points of a pass over the device; 0: by their size */
	int most;
};

/* Weighted points stay on the host. */
int points_init(struct points *p, const float *x, const double *weight, int64_t n, int64_t d, struct pool *pool, const struct points_place *place,
                struct err *e);
void points_release(struct points *p);

/* Bring near and cluster of [from, to) to the host. */
int points_see(struct points *p, int64_t from, int64_t to, struct err *e);

float points_length2(const float *x, int64_t d);
float points_distance2(const float *a, const float *b, int64_t d);

/* near = the squared distance to the nearest of the centres so far and `count` new ones (count, d); with `first` there were none
 * before. sum [(n + POINTS_SCAN - 1) / POINTS_SCAN] of weight * near over that many points each. */
enum { POINTS_SCAN = 4096 };
int points_approach(struct points *p, const float *centre, int count, int first, double *sum, struct err *e);

/* cluster and near of every point, and the weighted sum of near; keep_scores leaves p->score for points_balance. */
int points_assign(struct points *p, const struct kmeans *m, double *inertia, int keep_scores, struct err *e);

/* Raise m->offset until no cluster holds more than share * n / k points, or nothing more can be gained (many equal
 * points). */
int points_balance(struct points *p, struct kmeans *m, double share, double *inertia);

/* The same points on a device. All of them stay there where it has the memory; else every pass sends them anew, a chunk while another is
 * computed with. Chunks follow from n and d alone, so that the results are the same bytes. Nothing is allocated before the first pass.
 * x (n, d) is borrowed. */
struct device_points *device_points_new(const struct points_place *place, const float *x, int64_t n, int64_t d, struct pool *pool);
void device_points_free(struct device_points *p); /* NULL is allowed */

enum device_pass {
	PASS_FIRST, /* near = the squared distance to the nearest of the centres */
	PASS_LOWER, /* the less of it and what near was */
	PASS_FIND,  /* that and the cluster */
	PASS_ADD    /* that, and the clusters' sums and sizes */
};

/* Pass over all points with these centres (k, d); offset [k], or NULL. sum [(n + POINTS_SCAN - 1) / POINTS_SCAN] of near. */
int device_points_pass(struct device_points *p, enum device_pass pass, const float *centre, const float *offset, int k, double *sum, struct err *e);

/* The clusters' sums and sizes by another assignment. */
int device_points_add(struct device_points *p, const int32_t *cluster, int k, struct err *e);
const double *device_points_sums(const struct device_points *p);   /* (k, d), of the last PASS_ADD or device_points_add */
const int32_t *device_points_sizes(const struct device_points *p); /* [k] */

/* near and cluster of [from, to) to the host. */
int device_points_get(struct device_points *p, float *near, int32_t *cluster, int64_t from, int64_t to, struct err *e);

#endif
