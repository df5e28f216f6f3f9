/* The seal of a tar (core/seal.h): a record "comment", which readers of tar pass over in silence, in a pax header named "DDM.seal" before the
 * last member, or in the global header of an archive without members. It seals all bytes from the archive's first to the end of that
 * member; members that were appended later are not its concern. */
#ifndef DDM_FILE_TARSEAL_H
#define DDM_FILE_TARSEAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/shardindex.h"

#define TARSEAL_NAME "DDM.seal"
#define TARSEAL_RECORD "comment"

/* A plain stream as it goes by, of archives one after the other. */
struct tarseal {
	uint8_t block[512];
	size_t have;    /* bytes of block */
	uint64_t left;  /* bytes of content, padding included, to come */
	struct str pax; /* content of the header that bears the seal */
	uint64_t pax_len, hash;
	int state, broken;
	struct XXH3_state_s *all; /* NULL: nothing yet */
};

void tarseal_add(struct tarseal *s, const void *p, size_t n); /* s: zeros at first */
int tarseal_broken(const struct tarseal *s);                  /* 1: a seal was there and did not hold */
void tarseal_release(struct tarseal *s);

/* The file itself as it goes by, packed as it is. What zstd has packed and ddm-shard has stamped is a shard, and has an end record: without
 * it, or with one that is damaged, a frame that was cut out would go unnoticed. */
struct tarend {
	int zstd; /* it begins with a frame of zstd's */
	uint64_t bytes;
	uint8_t tail[SHARD_FOOT_BYTES]; /* the last of them */
};

void tarend_add(struct tarend *t, const void *p, size_t n); /* t: zeros at first */
int tarend_check(const struct tarend *t, const char *where, const char *stamp, struct err *e);

#endif
