/* Removes samples from a SHARDS folder: writes another folder without them, with the clusters of all other samples as they were. */
#ifndef DDM_DATA_FORGET_H
#define DDM_DATA_FORGET_H

#include <jansson.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"

struct forget_request {
	const char *shards, *out;
	char **key; /* (n), in any order; a key may be listed twice */
	size_t n;
	const struct progress *progress;
};

/* What became of the keys. Release with forget_result_release. */
struct forget_result {
	int made;                /* 1: the folder was written, 0: it was there already */
	int64_t keys;            /* different keys */
	int64_t linked, written; /* shards that were taken over, and written anew */
	int clusters;            /* K */
	int64_t *train, *held;   /* [clusters] how many of the keys were in the training and in the held-out part of each cluster */
	json_t *items;           /* a list of {"key", "clusters": [..], "split"} in the order of the keys */
	json_t *stamp;           /* of the manifest of `shards` */
	json_t *known;           /* a list of SHA-256: the manifest of `shards`, and those of which it is a part (ddm-formats(5), "ancestors") */
};

/* Write the folder by the commit protocol. Streams of shards without a key, and the shards of a stream before the first with a key, are shared with
 * the old folder (file/share.h); the others are written anew, filled as ddm-shard fills them.
 * ERR_DATA names a key that is not in the folder; ERR_USAGE a cluster that would have no training sample left; ERR_EXISTS: `out` is something
 * else than what this request makes. If it is just that, it is verified and left alone. */
int forget_make(const struct forget_request *r, struct forget_result *out, struct err *e);
void forget_result_release(struct forget_result *r);

#endif
