/* One side of a comparison: the features of a set of pictures, and the recipe by which they were made.
 *
 * A set has no order: its elements are sorted by the SHA-256 of their pixels, so draws, sums and results depend on the pictures alone and
 * not on names, archives or reading order. */
#ifndef DDM_METRIC_EVALSET_H
#define DDM_METRIC_EVALSET_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "file/resize.h"
#include "metric/extractor.h"

/* How features were made; sets may be compared only if their recipes agree. */
struct recipe {
	char features[16];      /* "pix", "rgb8", or a network's name; "npy": vectors of unknown origin */
	char features_hash[65]; /* of the extractor; "": not recorded */
	char input[16];         /* a network's input convention (metric/netinput.h); "" for none */
	int dims;
	int width, height; /* of the pictures as measured; 0: not recorded */
	char resize[40];   /* "none", "centre square, bicubic" */
	int frames;        /* of clips; 0: pictures */
	double fps;        /* frames a second of clips; 0: not recorded, or not the same for all */
};

/* Features from another layer of the network. */
struct evaltap {
	int dims;           /* 0: not available */
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
	int foreign;        /* 1: mu and sigma came with the file and may be of other pictures than features */
	struct evaltap spatial, logits;
	int64_t *order;  /* (n): order[i] is the row of the i-th picture read; owned; NULL: unknown */
	char hash[65];   /* SHA-256 of the sorted hashes of (width, height, RGB pixels as decoded); of vectors: of the sorted row hashes */
	char *partition; /* the features by which a SHARDS source was clustered, owned; NULL: unknown */
	int64_t skipped;
};

struct evalset_options {
	struct extractor *extractor; /* borrowed */
	unsigned taps;               /* taps to compute besides the main one: 1u << TAP_SPATIAL ... */
	int statistics;              /* 1: if a .npz holds mu and sigma, do not measure the pictures beside them */
	int size;                    /* resize the centre square to size x size; 0: pictures stay as they are and must have one size */
	enum resize_filter filter;
	int skip_bad; /* this and the next four as in struct samples_options (data/samples.h) */
	int64_t max_errors;
	void (*bad)(void *arg, const char *why);
	void *bad_arg;
	const char *spool;
	const char *cache;                         /* folder for cached features; "": beside the set; NULL: no cache */
	void (*warn)(void *arg, const char *what); /* called with bad_arg if the cache cannot be written; may be NULL */
	struct pool *pool;
	const struct progress *progress; /* may be NULL */
};

void evalset_release(struct evalset *s); /* a zeroed one is allowed */
void evaltap_release(struct evaltap *t);

/* 0 if metrics between a and b make sense; else ERR_DATA saying what differs. The names are for the message. Recipes agree if everything that both
 * record is equal. Vectors of unknown origin ("npy") agree with any network's features of the same dims, but not with "pix" or "rgb8". */
int evalset_agree(const struct evalset *a, const char *name_a, const struct evalset *b, const char *name_b, struct err *e);

int recipe_unrecorded(const struct recipe *r); /* 1 for vectors of unknown origin ("npy") */
/* The name of the features of two sets that agree, from the set that records it. Borrowed from that set. */
const char *evalset_features(const struct evalset *reference, const struct evalset *samples);

/* Compute mu and sigma unless the set has them: of the features (evalset_statistics), or of the n vectors of a tap (evaltap_statistics). ERR_USAGE
 * for fewer than 2 vectors; ERR_NOMEM; ERR_AGAIN if the pool's progress said stop. */
int evalset_statistics(struct evalset *s, struct pool *pool, struct err *e);
int evaltap_statistics(struct evaltap *t, int64_t n, struct pool *pool, struct err *e);

/* The hash of an element, and its index in reading order. */
struct digest {
	char hex[65];
	int64_t at;
};

/* Sort d (n) by hash, put features, taps and thumbnails in that order, and fill s->order and s->hash. ERR_NOMEM. */
int evalset_sort(struct evalset *s, struct digest *d, struct err *e);

/* The same for vectors without pictures: the hash of an element is the hash of its row. */
int evalset_hash_rows(struct evalset *s, struct err *e);

/* Check that evalset_write may write to `path`: 0 if nothing exists there, or statistics written by evalset_write with the same `recipe` (JSON text;
 * NULL: any recipe). Else -1 and ERR_EXISTS. */
int evalset_may_write(const char *path, const char *recipe, struct err *e);

#endif
