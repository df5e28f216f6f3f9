/* Between the files of k-means: a set of points with its present assignment. */
#ifndef DDM_DATA_KMEANSIMPL_H
#define DDM_DATA_KMEANSIMPL_H

#include "data/kmeans.h"

struct points {
	const float *x;       /* (n, d), borrowed */
	const double *weight; /* [n], or NULL: one each; borrowed */
	int64_t n, d;
	struct pool *pool;
	float *length;        /* [n] |x|^2 */
	float *near;          /* [n] squared distance to the nearest centre */
	int32_t *cluster;     /* [n] */
	int64_t *order;       /* [n] points by cluster */
	float *score;         /* (n, k), |c|^2 - 2 x c, kept when asked for */
};

int points_init(struct points *p, const float *x, const double *weight, int64_t n, int64_t d, struct pool *pool, struct err *e);
void points_release(struct points *p);

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

#endif
