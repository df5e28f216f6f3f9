/* SHA256SUMS: the hashes of a folder's files, one a line, as sha256sum(1) writes and checks them. */
#ifndef DDM_FILE_SUMS_H
#define DDM_FILE_SUMS_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

#define SUMS_NAME "SHA256SUMS"

/* Append a line: SHA-256 of the data (len bytes), two spaces, name. */
void sums_add(struct str *sums, const char *name, const void *data, size_t len);

/* Compare the files of `dir` with its SHA256SUMS and report every difference: ERR_DATA for an altered file or a malformed line, ERR_NOINPUT for
 * a missing file. The list of a SHARDS folder is left to file/manifest.h. Returns 0, or -1 and *e if the list cannot be read. */
int sums_check(const char *dir, void (*problem)(void *arg, const struct err *e), void *arg, struct err *e);

#endif
