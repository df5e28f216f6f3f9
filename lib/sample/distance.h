/* Distances of predicted samples to the centroids of the clusters, for --route distance. */
#ifndef DDM_SAMPLE_DISTANCE_H
#define DDM_SAMPLE_DISTANCE_H

#include <stdint.h>

#include "cluster/kmeans.h"
#include "core/err.h"
#include "core/pool.h"
#include "metric/extractor.h"
#include "net/autoencoder.h"

/* A zeroed one is empty. */
struct distance {
	struct kmeans centroids;
	char hash[65];                     /* SHA-256 of the file */
	int hogcolor;                      /* the centroids are of hogcolor of the picture; without a network, else of the d values of a sample */
	struct extractor *network;         /* the centroids are of its features of the picture; NULL: of none */
	int channels, side;                /* of a sample */
	int latents;                       /* samples are decoded for the network */
	char vae_hash[65];                 /* with latents */
	struct autoencoder *vae, *own_vae; /* vae is own_vae or borrowed */
	int64_t chunk, width, planes;      /* pictures at a time, their side and channels */
	float *decoded, *row;              /* (chunk, planes, width, width); room for latents (chunk, channels, side, side) */
	float *values;                     /* (chunk, centroids.d) of the network */
	struct err *bad;                   /* (room) of each sample, without a network */
	int64_t room;
	struct device *device;
};

struct distance_source {
	const char *path;     /* of the centroids */
	const char *features; /* KIND:PATH of the network (metric/extractor.h), or NULL */
	const char *vae;      /* folder of the autoencoder of the samples, or NULL: they are pictures */
	int k, channels, side, map;
	struct device *device; /* borrowed */
};

/* Load centroids (k, D) of ddm-cluster for samples of channels x side x side in [-1, 1]. Their features are hogcolor of a picture, or the values of a
 * sample, or with `features` those of this network, which is opened; its input convention is that of the centroids. ERR_USAGE if they are other
 * features, or if a network is given that they do not need; ERR_DATA for another number of clusters, or another network of the same name. Release
 * after a failure too. */
int distance_load(struct distance *c, const struct distance_source *s, struct err *e);
/* Prepare to measure, when other encoders have given back their memory. Latents are decoded by `shared`, or if that is NULL by the autoencoder in the
 * folder `vae` with matrices of type bulk. *flops = those of one sample. */
int distance_ready(struct distance *c, struct autoencoder *shared, const char *vae, enum compact_type bulk, double *flops, struct err *e);
void distance_release(struct distance *c);

/* The callback `distances` of struct mixture; arg is a struct distance. Features are scaled to unit length first if the centroids are by cosine: then
 * the distances of features that are all 0 differ by the offsets alone. The offsets of balanced clusters are added, as in ddm-cluster. */
int distance_squared(void *arg, double *squared, const float *x0, int64_t n, struct err *e);

#endif
