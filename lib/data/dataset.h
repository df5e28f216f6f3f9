/* A training set: the pictures (or arrays) of one cluster, of all clusters, or of the held-out part of a SHARDS directory, at
 * random access, decoded once and kept when they fit in the memory budget. */
#ifndef DDM_DATA_DATASET_H
#define DDM_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "core/str.h"

struct dataset;
struct manifest;

enum { DATASET_ALL = -1 };

struct dataset_options {
	int cluster;         /* 0-based, or DATASET_ALL */
	int holdout;         /* 0: the training part, 1: the held-out part (of that cluster, or of all) */
	int size;            /* resize to size x size when the pictures differ from it; 0: all must be of one size */
	int verify;          /* check every shard against MANIFEST.tsv (bytes, SHA-256) when opening */
	int labelled;        /* a sample without a class label is ERR_DATA */
	int deviations;      /* of arrays: if the first sample has std.npy, all samples must have it, and dataset_item returns it */
	int mirrored;        /* dataset_item can return mirrored samples: arrays then need flip.npy, and flip.std.npy if they have std.npy */
	int text;            /* every sample must have text.npy, the features of its text, which dataset_item returns */
	int pooled;          /* with `text`: if the first sample has pooled.npy, all must have it, and dataset_item returns it */
	int64_t text_tokens; /* most rows of the text features; 0: as many as the first sample has */
	int channels;        /* of pictures: 3, or 1 for grey; 0: 3 */
	uint64_t budget;     /* bytes of decoded samples kept in memory; 0: a quarter of the machine's */
	struct pool *pool;
};

/* Facts of the whole SHARDS directory and of the opened part. */
struct dataset_info {
	int64_t count; /* samples in this part; a sample of several clusters as often as it counts (manifest_shared_name) */
	int channels, height, width;
	int64_t frames;                  /* samples are clips of so many frames; 0: they are not clips */
	int64_t numel;                   /* numbers of a sample: max(frames, 1) channels height width */
	int arrays;                      /* samples are arrays of floating-point numbers, not pictures or clips of pixels */
	int clusters;                    /* K of the directory */
	const int64_t *sizes;            /* [clusters] training samples per cluster; borrowed */
	const int64_t *held;             /* [clusters] held-out samples per cluster; borrowed */
	int classes;                     /* 1 + the largest class label, 0 when there are none */
	int deviations;                  /* samples are means of a distribution whose std dataset_item returns: requested and present */
	int64_t text_tokens, text_width; /* of the text features; 0: not requested */
	int64_t pooled_width;            /* of the pooled vectors of the texts; 0: not requested, or the samples have none */
	uint64_t kept_bytes;             /* memory of the cache of decoded samples once it is full */
	const struct manifest *manifest; /* the manifest of the directory; borrowed */
};

/* `shards` is a folder or a URL (file/bytesource.h).
 * An absent directory is ERR_NOINPUT; a cluster out of range ERR_USAGE; an empty cluster, a shard that disagrees with the manifest, or samples of
 * unequal size ERR_DATA. Caller frees with dataset_free. The first sample decides what the set holds: arrays (a .npy takes precedence over a
 * picture) of shape (C, H, W), (1, C, H, W) or (H, W), clips, which are arrays of shape (F, C, H, W), or pictures. A clip of bytes holds pixels. */
struct dataset *dataset_open(const char *shards, const struct dataset_options *o, struct err *e);
void dataset_free(struct dataset *d);
const struct dataset_info *dataset_info(const struct dataset *d);

/* Read sample i of the part (0 <= i < count; shards in name order, samples in shard order): pixels as value/127.5 - 1 in (C, H, W) order, of
 * clips (F, C, H, W), arrays unchanged; *label and *cluster are -1 if unknown. x, label, cluster may be NULL. Thread-safe. */
int dataset_read(struct dataset *d, int64_t i, float *x, int32_t *label, int32_t *cluster, struct err *e);
/* Put the key of sample i into *key and return its text, borrowed until *key changes. */
const char *dataset_key(const struct dataset *d, int64_t i, struct str *key);

/* mean (C, H, W) of the samples as dataset_read returns them. With `flip` the mirrored samples are included; a set of arrays must then be opened
 * with `mirrored`. If there are more than `most` samples, only that many are used, evenly spaced. */
int dataset_mean(struct dataset *d, int64_t most, int flip, float *mean, struct err *e);

/* A sample with everything that the set was opened for. */
struct dataset_item {
	int mirrored;           /* in: return the sample mirrored left to right */
	float *x, *std;         /* in: buffers for (C, H, W) each; std is written only if info's `deviations` is set */
	uint16_t *text;         /* in: buffer for (text_tokens, text_width) float16, zeros after the last row; NULL: not wanted */
	uint16_t *pooled;       /* in: buffer for (pooled_width) float16; NULL: not wanted */
	int32_t rows;           /* out: rows of the text */
	int32_t label, cluster; /* out: as dataset_read */
};
int dataset_item(struct dataset *d, int64_t i, struct dataset_item *item, struct err *e);

/* A loader fills batches ahead of the trainer. Which samples batch number s holds is a pure function of (seed, s):
 * position p = s * batch + j counts through the passes; pass q = p / count visits the samples in the order
 * rng_permute(p % count, count, seed, RNG_SHUFFLE, q). Flips are keyed by p, and so are draws from the distribution of a latent:
 * mean + std * normal, RNG_LATENT. Whether sample j of batch s gets the null text instead of its own is keyed by (s, j), RNG_LABEL. */
enum { LOADER_AHEAD = 2 }; /* enough for one thread to keep up with a trainer */
struct loader;
struct loader_options {
	int64_t batch;
	uint64_t seed;
	int flip;                  /* mirror left to right with probability one half, RNG_FLIP; a set of arrays must be opened with `mirrored` */
	double text_drop;          /* probability of the null text */
	const uint16_t *null_text; /* (text_tokens, text_width) float16, borrowed; required if text_drop > 0 */
	int32_t null_rows;
	const uint16_t *null_pooled; /* (pooled_width) float16, borrowed; required if text_drop > 0 and the samples have pooled vectors */
	int64_t first;               /* number of the first batch; a resumed run sets it */
	int64_t from, count;         /* only samples [from, from + count) of each batch are read, as one of several ranks does; count 0: all */
	int ahead;                   /* batches prefetched by one thread; 0: read in the caller */
};

struct loader *loader_new(struct dataset *d, const struct loader_options *o, struct err *e);
void loader_free(struct loader *l);

/* The next batch, or the part of it that `from` and `count` ask for: x (n, C, H, W), label and cluster (n), text (n, text_tokens, text_width) and its
 * rows (n), or NULL; pooled (n, pooled_width), or NULL. Borrowed until the next call. */
struct batch {
	int64_t number, n;
	const float *x, *text, *pooled;
	const int32_t *label, *cluster, *rows;
	const int64_t *index; /* index in the dataset of each sample */
};
int loader_next(struct loader *l, struct batch *b, struct err *e);

/* The index in the dataset of sample j of batch `number`, also of one that `from` and `count` leave out. */
int64_t loader_sample(const struct loader *l, int64_t number, int64_t j);

/* Bytes of host memory that the batches of a loader take. */
uint64_t loader_bytes(const struct dataset *d, int64_t batch, int ahead);

/* x += std * z, z standard normals of (seed, RNG_LATENT, step, index); n elements. */
void latent_draw(float *x, const float *std, int64_t n, uint64_t seed, uint64_t step, uint64_t index);

/* Convert n float16 numbers to float. */
void text_expand(float *out, const uint16_t *text, int64_t n);

#endif
