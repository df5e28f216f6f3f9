/* The seal of a tar (core/seal.h): a pax header named "DDM.seal" before the last member, with a record "comment", which other readers of tar
 * ignore. In an archive without members it is in the global header. It covers all bytes from the start of the archive to the end of that member.
 * Members appended later are not covered. */
#ifndef DDM_FILE_TARSEAL_H
#define DDM_FILE_TARSEAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/shardindex.h"

#define TARSEAL_NAME "DDM.seal"
#define TARSEAL_RECORD "comment"

/* Checks the seals of an uncompressed stream of concatenated archives, as the bytes are read. */
struct tarseal {
	uint8_t block[512];
	size_t have;    /* bytes in block */
	uint64_t left;  /* content bytes still to come, padding included */
	struct str pax; /* content of the pax header with the seal */
	uint64_t pax_len, hash;
	int state, broken;
	struct XXH3_state_s *all; /* hash of all bytes of this archive; NULL before the first byte */
};

void tarseal_add(struct tarseal *s, const void *p, size_t n); /* s: zero-initialised */
int tarseal_broken(const struct tarseal *s);                  /* 1: a seal does not match the bytes */
void tarseal_release(struct tarseal *s);

/* Checks the end record of a shard, as the bytes of the compressed file are read. A zstd file with a stamp of ddm-shard is a shard and must end
 * with an end record (file/shardindex.h); otherwise a missing frame would not be noticed. */
struct tarend {
	int zstd;                       /* the file begins with a zstd frame */
	uint64_t bytes;                 /* seen so far */
	uint8_t tail[SHARD_FOOT_BYTES]; /* the last bytes seen */
};

void tarend_add(struct tarend *t, const void *p, size_t n); /* t: zero-initialised */
/* At the end of the file: ERR_DATA if the file is a shard by its stamp and the end record is missing or damaged. */
int tarend_check(const struct tarend *t, const char *where, const char *stamp, struct err *e);

#endif
