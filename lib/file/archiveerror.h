/* libarchive's errors in the toolkit's words. */
#ifndef DDM_FILE_ARCHIVEERROR_H
#define DDM_FILE_ARCHIVEERROR_H

#include <stdint.h>

#include "core/err.h"

struct archive;

/* Sets e to the last error of archive a and returns -1. where: the tar's name; at: how far it was read, in bytes. */
int archive_error(struct archive *a, const char *where, int64_t at, struct err *e);

#endif
