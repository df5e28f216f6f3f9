/* The state of a search for near duplicates, shared by its files: dedupread.c reads hashes and parts, dedup.c finds what is near, dedupfiles.c writes
 * the outputs. */
#ifndef DDM_CLUSTER_DEDUPIMPL_H
#define DDM_CLUSTER_DEDUPIMPL_H

#include "cluster/dedup.h"
#include "cluster/hashindex.h"
#include "cluster/imagehash.h"
#include "data/samples.h"
#include "file/stamp.h"

enum { DEDUP_NO_HASH = IMAGEHASH_AHASH + 1 };

struct dedup_item {
	char *key;
	uint64_t hash[HASHINDEX_PARTS];
	int32_t cluster; /* 0 without an assignment */
	uint8_t held;
	int64_t row;     /* of the features */
	int64_t near;    /* the earlier item that it is near to, or -1: it is kept */
	int distance;    /* of the hashes of `near`; -1: it is near by features */
	double cosine;   /* of the features of `near`; 0: it is near by hashes */
	int64_t crossed; /* training items: the nearest held-out one, or -1 */
	int cross_distance;
	double cross_cosine; /* as distance and cosine, with `crossed` */
};

struct deduping {
	const struct dedup_request *r;
	struct dedup_report *report;
	struct samples *samples;
	char digest[65];
	char features_hash[65], clusters_hash[65]; /* SHA-256 of these files; empty: none */
	struct stamp *stamp;
	struct dedup_item *item; /* [n] held-out ones first, then by key */
	int64_t n, room;
};

/* Read the samples: keys and hashes, and then which are held out and their clusters. Sorts the items. */
int dedupread_items(struct deduping *w, struct err *e);
/* The item with this key, or -1. */
int64_t dedupread_find(const struct deduping *w, const char *key);

/* The kept item of the group of item i. */
int64_t dedup_group(const struct deduping *w, int64_t i);

/* Write the table or the tar, and the report. */
int dedupfiles_write(struct deduping *w, struct err *e);

#endif
