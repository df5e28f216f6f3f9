/* A training set: the pictures (or arrays) of one cluster, of all clusters, or of the held-out part of a SHARDS directory, at
 * random access, decoded once and kept when they fit in the memory budget. */
#ifndef DDM_DATA_DATASET_H
#define DDM_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct dataset;
struct manifest;

enum { DATASET_ALL = -1 };

struct dataset_options {
	int cluster;         /* 0-based, or DATASET_ALL */
	int holdout;         /* 0: the training part, 1: the held-out part (of that cluster, or of all) */
	int size;            /* resize to size x size when the pictures differ from it; 0: all must be of one size */
	int verify;          /* check every shard against MANIFEST.tsv (bytes, SHA-256) when opening */
	int labelled;        /* a sample without a class label is ERR_DATA */
	int deviations;      /* of arrays: where the first sample has std.npy, all must, and dataset_item gives it */
	int mirrored;        /* dataset_item gives samples mirrored too: of arrays that takes flip.npy, and flip.std.npy where there is std.npy */
	int text;            /* every sample must have text.npy, the features of its text, which dataset_item gives */
	int64_t text_tokens; /* most rows of it; 0: as many as the first sample has */
	int channels;        /* of pictures: 3, or 1 for grey; 0: 3 */
	uint64_t budget;     /* bytes of decoded samples kept in memory; 0: a quarter of the machine's */
	struct pool *pool;
};

/* Facts of the whole SHARDS directory and of the opened part. */
struct dataset_info {
	int64_t count; /* samples in this part */
	int channels, height, width;
	int arrays;                      /* samples are arrays, not pictures */
	int clusters;                    /* K of the directory */
	const int64_t *sizes;            /* [clusters] training samples per cluster; borrowed */
	const int64_t *held;             /* [clusters] held-out samples per cluster; borrowed */
	int classes;                     /* 1 + the largest class label, 0 when there are none */
	int deviations;                  /* samples are the mean of a distribution: asked for, and there */
	int64_t text_tokens, text_width; /* of the features; 0: not asked for */
	uint64_t kept_bytes;             /* what keeping decoded samples takes once all that fit have been read */
	const struct manifest *manifest; /* of the directory; borrowed */
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

/* mean (C, H, W) of what dataset_read gives, and with `flip` of what is mirrored too, for which an array's set must be opened: over all
 * samples, or, where there are more, over `most` of them, evenly spaced. */
int dataset_mean(struct dataset *d, int64_t most, int flip, float *mean, struct err *e);

/* A sample with all that the set was opened for. */
struct dataset_item {
	int mirrored;           /* in: left-right */
	float *x, *std;         /* in: places for (C, H, W) each; std where info's deviations, else untouched */
	uint16_t *text;         /* in: place for (text_tokens, text_width) float16, zeros behind the rows that are there; NULL: not wanted */
	int32_t rows;           /* out: of the text */
	int32_t label, cluster; /* out: as dataset_read */
};
int dataset_item(struct dataset *d, int64_t i, struct dataset_item *item, struct err *e);

/* Features of a text, (rows, width) or (1, rows, width) of an .npy, as float16: caller frees with mem_free. One that float16 does not
 * hold, or more rows than `most` (0: any number), is ERR_DATA. */
uint16_t *dataset_text(const void *npy, size_t len, const char *name, int64_t most, int64_t *rows, int64_t *width, struct err *e);

/* A loader fills batches ahead of the trainer. Which samples batch number s holds is a pure function of (seed, s):
 * position p = s * batch + j counts through the passes; pass q = p / count visits the samples in the order
 * rng_permute(p % count, count, seed, RNG_SHUFFLE, q). Flips are keyed by p, and so are draws from the distribution of a latent:
 * mean + std * normal, RNG_LATENT. Whether sample j of batch s gets the null text instead of its own is keyed by (s, j), RNG_LABEL. */
enum { LOADER_AHEAD = 2 }; /* enough for a thread to keep up with a trainer */
struct loader;
struct loader_options {
	int64_t batch;
	uint64_t seed;
	int flip;                  /* mirror left-right with probability one half, RNG_FLIP; of arrays the set must be opened for it */
	double text_drop;          /* probability of the null text */
	const uint16_t *null_text; /* (text_tokens, text_width) float16, borrowed; needed where text_drop > 0 */
	int32_t null_rows;
	int64_t first; /* first batch number: where a resumed run goes on */
	int ahead;     /* batches prefetched by one thread; 0: read in the caller */
};

struct loader *loader_new(struct dataset *d, const struct loader_options *o, struct err *e);
void loader_free(struct loader *l);

/* The next batch: x (batch, C, H, W), label and cluster (batch), text (batch, text_tokens, text_width) and its rows (batch), or NULL.
 * Borrowed until the next call. */
struct batch {
	int64_t number, n;
	const float *x, *text;
	const int32_t *label, *cluster, *rows;
	const int64_t *index; /* which sample of the dataset each one is */
};
int loader_next(struct loader *l, struct batch *b, struct err *e);

/* Memory of the batches of a loader. */
uint64_t loader_bytes(const struct dataset *d, int64_t batch, int ahead);

/* x += std * z, z standard normals of (seed, RNG_LATENT, step, index); n elements. */
void latent_draw(float *x, const float *std, int64_t n, uint64_t seed, uint64_t step, uint64_t index);

/* n numbers of float16. */
void text_expand(float *out, const uint16_t *text, int64_t n);

#endif
