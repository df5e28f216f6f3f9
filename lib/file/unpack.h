/* Whole files packed with zstd or gzip, in memory. */
#ifndef DDM_FILE_UNPACK_H
#define DDM_FILE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum unpack_kind { UNPACK_ZSTD, UNPACK_GZIP };

/* Decompress data (len bytes), one frame or several in a row, to exactly `want` bytes; ERR_DATA if it is damaged or has another length. The output
 * buffer grows with the output, so a wrong `want` does not allocate memory. `name` is used in messages. Caller frees with mem_free. */
uint8_t *unpack(enum unpack_kind kind, const void *data, size_t len, size_t want, const char *name, struct err *e);

#endif
