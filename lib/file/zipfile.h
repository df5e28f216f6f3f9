/* Reads zip archives from memory as numpy, PyTorch and zip write them (PKWARE APPNOTE 6.3.10): stored and deflated members, ZIP64. Members are found
 * by the central directory, and their local headers must agree with it. */
#ifndef DDM_FILE_ZIPFILE_H
#define DDM_FILE_ZIPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct zip_member {
	const char *name;
	const uint8_t *data;    /* as stored: `packed` bytes */
	uint64_t packed, plain; /* bytes before and after decompression */
	uint64_t at;            /* byte offset of the local header, for messages */
	uint32_t crc;           /* CRC-32 of the plain bytes */
	int deflated;
};

struct zip;

/* Read the directory; time and memory are proportional to its size. Folders are left out. `data` is borrowed until zip_free. Damage, encryption,
 * other compression, two members of one name, or members that share bytes: ERR_DATA naming `where` and the byte. Caller frees with zip_free. */
struct zip *zip_open(const void *data, size_t len, const char *where, struct err *e);
void zip_free(struct zip *z);
int zip_members(const struct zip *z);
const struct zip_member *zip_get(const struct zip *z, int i);             /* in the directory's order */
const struct zip_member *zip_find(const struct zip *z, const char *name); /* NULL: none */

/* Inflate the first `want` plain bytes of a deflated member. If want is m->plain, the member must inflate to exactly that many. ERR_DATA for damaged
 * data or an m->plain that deflate cannot reach from m->packed, which bounds the allocation; ERR_NOMEM. Caller frees with mem_free. */
void *zip_inflate(const struct zip *z, const struct zip_member *m, uint64_t want, struct err *e);
/* Check the seal (core/seal.h) in the archive's comment. It covers, in order, all bytes outside the members' data, which the members' checksums do
 * not cover. 0 if the seal matches or there is none; else ERR_DATA. */
int zip_check_seal(const struct zip *z, struct err *e);
/* Compare the checksum of m with its plain bytes (m->plain of them). ERR_DATA if they differ. */
int zip_check(const struct zip *z, const struct zip_member *m, const void *plain, struct err *e);

#endif
