/* Distances of predicted samples to the centroids of the clusters, for --route distance. */
#ifndef DDM_SAMPLE_DISTANCE_H
#define DDM_SAMPLE_DISTANCE_H

#include <stdint.h>

#include "cluster/kmeans.h"
#include "core/err.h"
#include "core/pool.h"

/* A zeroed one is empty. */
struct distance {
	struct kmeans centroids;
	char hash[65]; /* SHA-256 of the file */
	int hogcolor;  /* the centroids are of hogcolor of the picture, else of the d values of a sample */
	int channels, side;
	struct pool *pool;
};

/* Load centroids (k, D) of ddm-cluster for samples of channels x side x side in [-1, 1]. With `latents` samples are no pictures. The features must be
 * computable without a network: hogcolor of a picture, or the values of a sample. ERR_USAGE if they are not, ERR_DATA for another number of
 * clusters. Release after a failure too. */
int distance_load(struct distance *c, const char *path, int k, int channels, int side, int latents, struct pool *pool, struct err *e);
void distance_release(struct distance *c);

/* The callback `distances` of struct mixture; arg is a struct distance. Features are scaled to unit length first if the centroids are by cosine: then
 * the distances of features that are all 0 differ by the offsets alone. The offsets of balanced clusters are added, as in ddm-cluster. */
int distance_squared(void *arg, double *squared, const float *x0, int64_t n, struct err *e);

#endif
