/* One side of a comparison: the features of a set of pictures and the recipe they were made by.
 *
 * A set has no order: its elements are sorted by the SHA-256 of their pixels, so that draws, sums and results depend on the
 * pictures alone and not on names, archives or the order they come in. */
#ifndef DDM_METRIC_EVALSET_H
#define DDM_METRIC_EVALSET_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "file/resize.h"
#include "metric/pixfeat.h"

/* What must agree before numbers may be compared. */
struct recipe {
	char features[16];      /* "pix", "rgb8"; "npy": vectors somebody else made */
	char features_hash[65]; /* of the definition; of "npy": "" */
	int dims;
	int width, height; /* of the pictures that were measured; of "npy": 0 */
	char resize[40];   /* "none", "centre square, bicubic" */
};

struct evalset {
	struct recipe recipe;
	int64_t n;
	float *features;    /* (n, dims), owned; NULL: statistics only */
	int thumb;          /* bytes of one thumbnail */
	uint8_t *thumbs;    /* (n, thumb): RGB box means on at most 32 x 32, for distances between pictures; owned, may be NULL */
	double *mu, *sigma; /* (dims), (dims, dims), owned; NULL until evalset_statistics */
	char hash[65]; /* SHA-256 of the sorted hashes of (width, height, RGB pixels as decoded); of "npy": of the sorted rows */
	char *partition; /* features that the clusters of a SHARDS source were made from, owned; NULL when unknown */
	int64_t skipped;
};

struct evalset_options {
	enum pixfeat_kind kind;
	int size; /* pictures become the centre square of size x size; 0: as they are, all of one size */
	enum resize_filter filter;
	int skip_bad; /* see data/samples.h; so are the four below */
	int64_t max_errors;
	void (*bad)(void *arg, const char *why);
	void *bad_arg;
	const char *spool;
	struct pool *pool;
	const struct progress *progress; /* may be NULL */
};

/* Read `source`, recognised by its first bytes:
 *   .npz   statistics: mu and sigma, and what evalset_write adds
 *   .npy   features made elsewhere, (n, dims)
 *   else   samples (data/samples.h); SHARDS is its training part, SHARDS:train, SHARDS:holdout, SHARDS:all say which.
 * Errors: ERR_DATA for a damaged source, pictures of unlike or too small a size (under 16), values that are not finite; those of
 * samples_open. Release with evalset_release. */
int evalset_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);
void evalset_release(struct evalset *s); /* a zeroed one is allowed */

/* 0 when numbers of a and b may be compared; else ERR_DATA saying what differs. Names are for the message. */
int evalset_agree(const struct evalset *a, const char *name_a, const struct evalset *b, const char *name_b, struct err *e);

/* Compute mu and sigma unless they are there. */
int evalset_statistics(struct evalset *s, struct pool *pool, struct err *e);

/* As .npz by the commit protocol: mu, sigma (as other tools call them), recipe (JSON, u1), feats (n, dims) and thumbs, so that it
 * can stand for the set in any later comparison. */
int evalset_write(const struct evalset *s, const char *path, struct err *e);

#endif
