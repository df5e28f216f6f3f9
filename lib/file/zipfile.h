/* zip archives as numpy, PyTorch and zip write them (PKWARE APPNOTE 6.3.10): stored and deflated members, ZIP64. Read from memory; the
 * directory at the end is the truth, and every header it names must agree with it. */
#ifndef DDM_FILE_ZIPFILE_H
#define DDM_FILE_ZIPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct zip_member {
	const char *name;
	const uint8_t *data; /* as stored: `packed` bytes */
	uint64_t packed, plain;
	uint64_t at; /* of its header in the file, for messages */
	uint32_t crc;
	int deflated;
};

struct zip;

/* data must stay. Damage, encryption, other compression, two members of one name, or members that share bytes: ERR_DATA naming `where`
 * and the byte. Folders are left out. Takes memory and time in proportion to the directory. Caller frees with zip_free. */
struct zip *zip_open(const void *data, size_t len, const char *where, struct err *e);
void zip_free(struct zip *z);
int zip_members(const struct zip *z);
const struct zip_member *zip_get(const struct zip *z, int i);             /* in the directory's order */
const struct zip_member *zip_find(const struct zip *z, const char *name); /* NULL: none */

/* The first `want` of a deflated member's plain bytes, all of which must inflate to exactly `plain` where want is that. No more than the
 * member can hold is allocated. Caller frees with mem_free. */
void *zip_inflate(const struct zip *z, const struct zip_member *m, uint64_t want, struct err *e);
/* The seal (core/seal.h) that is the archive's comment: of all bytes that belong to no member, in order, which the members' checksums do not
 * cover. 0 where it holds, or there is none; else ERR_DATA. */
int zip_check_seal(const struct zip *z, struct err *e);
/* The member's checksum against its plain bytes. */
int zip_check(const struct zip *z, const struct zip_member *m, const void *plain, struct err *e);

#endif
