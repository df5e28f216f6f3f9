/* Loads a SHARDS directory, or a part of it, into memory in the order of its clusters. */
#ifndef DDM_DATA_GATHER_H
#define DDM_DATA_GATHER_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "data/samples.h"

struct gather_options {
	int cluster;            /* 0-based, or DATASET_ALL */
	enum samples_part part; /* within every cluster the training part comes first */
	int64_t limit;          /* most samples of each cluster, chosen by the seed; 0: all */
	uint64_t seed;
	int size;     /* resize pictures to size x size; 0: all must have one size */
	int channels; /* of pictures: 3, or 1 for grey; 0: 3 */
	int verify;   /* check shards against MANIFEST.tsv */
	struct pool *pool;
	const struct progress *progress; /* reports the samples read; a non-zero return ends with ERR_AGAIN. May be NULL */
};

struct gathered {
	int64_t n, d, channels, size; /* d = channels * size * size */
	int clusters;                 /* number of clusters of the directory */
	int64_t *first;               /* (clusters + 1): cluster k has samples first[k] .. first[k + 1] - 1 */
	int64_t *sizes;               /* (clusters) samples in this part before the limit, also for clusters not requested */
	int bytes;                    /* 1: pictures, as bytes b that mean b / 127.5f - 1.f, as in training; 0: floats */
	void *sample;                 /* (n, d) */
};

/* Errors of dataset_open; ERR_DATA for pictures that are not square or a part without samples. Release with gathered_release, also after failure. */
int gather(struct gathered *g, const char *shards, const struct gather_options *o, struct err *e);
void gathered_release(struct gathered *g);

/* Sample i as floats, (d). */
void gathered_sample(const struct gathered *g, int64_t i, float *x);
/* The cluster of sample i. */
int gathered_cluster(const struct gathered *g, int64_t i);

#endif
