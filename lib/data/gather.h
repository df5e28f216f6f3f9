/* A SHARDS directory, or a part of it, whole in memory and in the order of its clusters. */
#ifndef DDM_DATA_GATHER_H
#define DDM_DATA_GATHER_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "data/samples.h"

struct gather_options {
	int cluster;            /* 0-based, or DATASET_ALL */
	enum samples_part part; /* of every cluster its training part comes first */
	int64_t limit;          /* so many of each cluster, chosen by the seed; 0: all */
	uint64_t seed;
	int size;     /* resize pictures to size x size; 0: they are of one size */
	int channels; /* of pictures: 3, or 1 for grey; 0: 3 */
	int verify;   /* shards against MANIFEST.tsv */
	struct pool *pool;
	const struct progress *progress; /* told of samples; non-zero ends with ERR_AGAIN. May be NULL */
};

struct gathered {
	int64_t n, d, channels, size; /* d = channels * size * size */
	int clusters;                 /* of the directory */
	int64_t *first;               /* (clusters + 1): cluster k is samples first[k] .. first[k + 1] - 1 */
	int64_t *sizes;               /* (clusters) of this part, before the limit, of clusters not asked for too */
	int bytes;                    /* pictures: bytes b that stand for b / 127.5f - 1.f, as in training; else floats */
	void *sample;                 /* (n, d) */
};

/* Errors of dataset_open; pictures that are not square, or a part without samples: ERR_DATA. Release with gathered_release, after
 * failure too. */
int gather(struct gathered *g, const char *shards, const struct gather_options *o, struct err *e);
void gathered_release(struct gathered *g);

/* Sample i as floats, (d). */
void gathered_sample(const struct gathered *g, int64_t i, float *x);
/* Its cluster. */
int gathered_cluster(const struct gathered *g, int64_t i);

#endif
