/* The methods of ddm-cluster --method: ways to cut points into clusters, k-means and others. Every method ends in labels of the points and one
 * centroid for each cluster, so a later point goes to the nearest centroid, whatever the method was.
 *
 * A new method is one line of CLUSTER_METHODS and its function, which labels points (see method.c). */
#ifndef DDM_CLUSTER_METHOD_H
#define DDM_CLUSTER_METHOD_H

#include <stdint.h>

#include "cluster/kmeans.h"

/* Name in C; name on the command line; most points that it clusters directly, 0: any number; function in method.c, NULL: k-means itself. */
/* clang-format off */
#define CLUSTER_METHODS(X) \
	X(KMEANS, "kmeans", 0, NULL) \
	X(WARD, "ward", 8192, cut_ward) \
	X(AVERAGE, "average", 8192, cut_average) \
	X(SPECTRAL, "spectral", 16384, cut_spectral)
/* clang-format on */

enum cluster_method {
#define CLUSTER_METHOD_NAME(name, text, most, cut) METHOD_##name,
	CLUSTER_METHODS(CLUSTER_METHOD_NAME)
#undef CLUSTER_METHOD_NAME
};

enum { METHOD_MICRO = 2048 }; /* micro-centroids where a method has to cluster more points than it can directly */

extern const char *const cluster_method_names[]; /* NULL at the end */

struct method_options {
	enum cluster_method method;
	int k;
	int fine;       /* k-means: as in struct kmeans_options. Others: fit this many k-means centroids first and cluster these; 0: only if
	                 * there are more points than the method clusters directly, METHOD_MICRO of them */
	int neighbours; /* of each point in the graph of METHOD_SPECTRAL */
	int64_t most;   /* most points that are clustered directly; 0: as in CLUSTER_METHODS */
	int restarts, iterations;
	double balance;            /* METHOD_KMEANS */
	int cosine;                /* 1: spherical k-means, of points of unit length; only with METHOD_KMEANS */
	const struct kmeans *kept; /* as in struct kmeans_options; only with METHOD_KMEANS */
	uint64_t seed;
	struct pool *pool;
	struct device *device; /* runs k-means; NULL: the CPU. Borrowed */
	const struct progress *progress;
};

/* What a method found. */
struct method_fit {
	struct kmeans m;  /* centroids: the means of the clusters (k-means: as kmeans_fit leaves them) */
	int32_t *cluster; /* [n] of each point */
	float *distance;  /* [n] from the point to its cluster's centroid */
	int64_t micro;    /* micro-centroids that were clustered in place of the points; 0: none */
	int64_t away;     /* points that are nearer to the centroid of another cluster; 0 with k-means */
	/* METHOD_SPECTRAL: pieces of the graph; iterations and residual of the eigenvectors; settled 0: these did not converge. */
	int64_t pieces;
	int iterations, settled;
	double residual;
	/* METHOD_WARD, METHOD_AVERAGE: distances of the last merges that were made or would be next, ascending; [heights] of them. */
	double *height;
	int64_t heights;
};

/* Cut x (n, d) into clusters. ERR_USAGE: fewer points than k, or bad options; ERR_DATA: too few distinct points, a value that is not finite, or a
 * graph in too many pieces; ERR_NOMEM; ERR_AGAIN: the progress said stop. The result does not depend on the number of threads. Release with
 * method_fit_release, after a failure too. */
int method_cut(struct method_fit *out, const float *x, int64_t n, int64_t d, const struct method_options *o, struct err *e);
/* 1 if the method draws something for n points, so that another seed can give other clusters. */
int method_draws(const struct method_options *o, int64_t n);

/* Centroids of given clusters: the means of x (n, d) by cluster [n] in [0, k). ERR_DATA naming an empty one; ERR_NOMEM. Release *m with
 * kmeans_release, after a failure too. */
int method_means(struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, int64_t d, int k, struct pool *pool, struct err *e);
/* distance [n] of x (n, m->d) to the centroid of its cluster [n], without the offset. */
void method_distances(float *distance, const struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, struct pool *pool);

void method_fit_release(struct method_fit *f);

#endif
