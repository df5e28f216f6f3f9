/* Finds samples whose latents or text features hold NaN or infinity. Training cannot use them and would fail only much later. */
#ifndef DDM_FILE_NOTFINITE_H
#define DDM_FILE_NOTFINITE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/shard.h"

/* The samples found so far. Zero-initialised is empty. */
struct notfinite {
	int64_t samples;
	struct str names; /* of the first ones */
};

/* Numbers of the member that are not finite, if it is an array that training reads: npy, std.npy, flip.npy, flip.std.npy, text.npy. 0 for other
 * members. */
int64_t notfinite_count(const char *ext, const void *data, size_t len);
/* The sample `key` has n > 0 such numbers in member ext; n = 0: nothing happens. */
void notfinite_note(struct notfinite *f, const char *key, const char *ext, int64_t n);
/* Frees f. ERR_DATA with the names of the samples if any was found. */
int notfinite_end(struct notfinite *f, const char *where, struct err *e);

/* All samples of a shard. */
int notfinite_shard(struct shard *s, const char *where, struct err *e);

#endif
