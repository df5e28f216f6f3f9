/* A training set: the pictures (or arrays) of one cluster, of all clusters, or of the held-out part of a SHARDS directory, at
 * random access, decoded once and kept when they fit in the memory budget. */
#ifndef DDM_DATA_DATASET_H
#define DDM_DATA_DATASET_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct dataset;

enum { DATASET_ALL = -1 };

struct dataset_options {
	int cluster;      /* 0-based, or DATASET_ALL */
	int holdout;      /* 0: the training part, 1: the held-out part (of that cluster, or of all) */
	int size;         /* resize to size x size when the pictures differ from it; 0: all must be of one size */
	int verify;       /* check every shard against MANIFEST.tsv (bytes, SHA-256) when opening */
	int labelled;     /* a sample without a class label is ERR_DATA */
	int channels;     /* of pictures: 3, or 1 for grey; 0: 3 */
	uint64_t budget;  /* bytes of decoded samples kept in memory; 0: a quarter of the machine's */
	struct pool *pool;
};

/* Facts of the whole SHARDS directory and of the opened part. */
struct dataset_info {
	int64_t count;            /* samples in this part */
	int channels, height, width;
	int arrays;               /* samples are arrays, not pictures */
	int clusters;             /* K of the directory */
	const int64_t *sizes;     /* [clusters] training samples per cluster; borrowed */
	const int64_t *held;      /* [clusters] held-out samples per cluster; borrowed */
	int classes;              /* 1 + the largest class label, 0 when there are none */
	uint64_t kept_bytes;      /* what keeping decoded samples takes once all that fit have been read */
	const char *manifest_hash; /* SHA-256 of MANIFEST.tsv; borrowed */
};

/* An absent directory is ERR_NOINPUT; a cluster out of range ERR_USAGE; an empty one, a shard that disagrees with the
 * manifest, unequal sizes ERR_DATA. Caller frees with dataset_free.
 * The first sample decides what the set is: an array (.npy beats a picture) of shape (C, H, W), (1, C, H, W) or (H, W), or a
 * picture. */
struct dataset *dataset_open(const char *shards, const struct dataset_options *o, struct err *e);
void dataset_free(struct dataset *d);
const struct dataset_info *dataset_info(const struct dataset *d);

/* Sample i of the part (0 <= i < count; shards in name order, samples in shard order): pixels as value/127.5 - 1 in (C, H, W)
 * order, arrays as they are; *label -1 and *cluster -1 where unknown. x, label, cluster may be NULL. Thread-safe. */
int dataset_read(struct dataset *d, int64_t i, float *x, int32_t *label, int32_t *cluster, struct err *e);
const char *dataset_key(struct dataset *d, int64_t i);

/* A loader fills batches ahead of the trainer. Which samples batch number s holds is a pure function of (seed, s):
 * position p = s * batch + j counts through the passes; pass q = p / count visits the samples in the order
 * rng_permute(p % count, count, seed, RNG_SHUFFLE, q). Flips are keyed by p. */
struct loader;
struct loader_options {
	int64_t batch;
	uint64_t seed;
	int flip;         /* mirror left-right with probability one half, RNG_FLIP */
	int64_t first;    /* first batch number: where a resumed run goes on */
	int ahead;        /* batches prefetched by one thread; 0: read in the caller */
};

struct loader *loader_new(struct dataset *d, const struct loader_options *o, struct err *e);
void loader_free(struct loader *l);

/* The next batch: x (batch, C, H, W), label and cluster (batch). Borrowed until the next call. */
struct batch {
	int64_t number, n;
	const float *x;
	const int32_t *label, *cluster;
	const int64_t *index; /* which sample of the dataset each one is */
};
int loader_next(struct loader *l, struct batch *b, struct err *e);

#endif
