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
#include "metric/extractor.h"

/* What must agree before numbers may be compared. */
struct recipe {
	char features[16];      /* "pix", "rgb8", a network; "npy": vectors of which nothing more is known */
	char features_hash[65]; /* of the extractor; "" where it was not recorded */
	char input[16];         /* the convention by which pictures reached a network; else "" */
	int dims;
	int width, height; /* of the pictures that were measured; 0 where it was not recorded */
	char resize[40];   /* "none", "centre square, bicubic" */
};

/* Another place of the network */
struct evaltap {
	int dims;           /* 0: there is none */
	float *x;           /* (n, dims), owned; may be NULL */
	double *mu, *sigma; /* (dims), (dims, dims), owned; may be NULL */
};

struct evalset {
	struct recipe recipe;
	int64_t n;
	float *features;    /* (n, dims), owned; NULL: statistics only */
	int thumb;          /* bytes of one thumbnail */
	uint8_t *thumbs;    /* (n, thumb): RGB box means on at most 32 x 32, for distances between pictures; owned, may be NULL */
	double *mu, *sigma; /* (dims), (dims, dims), owned; NULL until evalset_statistics */
	int foreign;        /* mu and sigma came in the file, of pictures that are not those of features */
	struct evaltap spatial, logits;
	int64_t *order;  /* (n): the row of the i-th as they were read; owned; NULL: unknown */
	char hash[65];   /* SHA-256 of the sorted hashes of (width, height, RGB pixels as decoded); of vectors: of the sorted rows */
	char *partition; /* features that the clusters of a SHARDS source were made from, owned; NULL when unknown */
	int64_t skipped;
};

struct evalset_options {
	struct extractor *extractor; /* borrowed */
	unsigned taps;               /* those wanted beyond the main one: 1u << TAP_SPATIAL ... */
	int statistics;              /* mu and sigma are enough: pictures beside them in a .npz are not looked at */
	int size;                    /* pictures become the centre square of size x size; 0: as they are, all of one size */
	enum resize_filter filter;
	int skip_bad; /* see data/samples.h; so are the four below */
	int64_t max_errors;
	void (*bad)(void *arg, const char *why);
	void *bad_arg;
	const char *spool;
	const char *cache;                         /* features are kept and looked for in this folder; "": beside the set; NULL: neither */
	void (*warn)(void *arg, const char *what); /* of a cache that could not be written; may be NULL */
	struct pool *pool;
	const struct progress *progress; /* may be NULL */
};

void evalset_release(struct evalset *s); /* a zeroed one is allowed */
void evaltap_release(struct evaltap *t);

/* 0 when numbers of a and b may be compared; else ERR_DATA saying what differs. Names are for the message. What one of them does
 * not record differs from nothing a network says, and from everything functions of the pixels say. */
int evalset_agree(const struct evalset *a, const char *name_a, const struct evalset *b, const char *name_b, struct err *e);

int recipe_unrecorded(const struct recipe *r);
/* The name of the features of two sets that agree: the one's that records it. Borrowed from it. */
const char *evalset_features(const struct evalset *reference, const struct evalset *samples);

/* Compute mu and sigma unless they are there: of the features, and of the spatial tap where it has vectors. */
int evalset_statistics(struct evalset *s, struct pool *pool, struct err *e);
int evaltap_statistics(struct evaltap *t, int64_t n, struct pool *pool, struct err *e);

/* The hash of an element, and its place in the order of reading. */
struct digest {
	char hex[65];
	int64_t at;
};

/* Sorts d (n) by hash, brings features, taps and thumbnails into that order, and fills s->order and s->hash. ERR_NOMEM. */
int evalset_sort(struct evalset *s, struct digest *d, struct err *e);

/* The same for a set of vectors without pictures: an element's hash is that of its row. */
int evalset_hash_rows(struct evalset *s, struct err *e);

/* Whether evalset_write may write to `path`: nothing stands there, or statistics that it wrote, of the same `recipe` (JSON text, NULL: of any).
 * Otherwise -1 and ERR_EXISTS. */
int evalset_may_write(const char *path, const char *recipe, struct err *e);

#endif
