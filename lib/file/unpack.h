/* Whole files packed with zstd or gzip, in memory. */
#ifndef DDM_FILE_UNPACK_H
#define DDM_FILE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum unpack_kind { UNPACK_ZSTD, UNPACK_GZIP };

/* The `want` bytes that data (len), one frame or several in a row, must make, no fewer and no more: ERR_DATA. What is not there is not
 * allocated for, whatever is wanted. Caller frees with mem_free. */
uint8_t *unpack(enum unpack_kind kind, const void *data, size_t len, size_t want, const char *name, struct err *e);

#endif
