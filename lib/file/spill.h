/* Long sequences of bytes that are written side by side and read once, of which memory holds only the ends: the rest lies in one temporary file
 * without a name. For the indexes of shards that are being written (file/shard.h). */
#ifndef DDM_FILE_SPILL_H
#define DDM_FILE_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

/* A file of blocks. One thread at a time. */
struct spill;

/* `dir` is borrowed. The file is made in it when it is first needed, and vanishes with the process. Free with spill_free after all sequences. */
struct spill *spill_new(const char *dir);
void spill_free(struct spill *s); /* NULL is allowed */

/* A sequence. Zeroed is empty. */
struct spilled {
	struct str end; /* what is not in the file */
	int64_t *block; /* [blocks] numbers of the blocks before it */
	size_t blocks, cap;
};

uint64_t spilled_bytes(const struct spilled *q);
/* Append n bytes. s NULL: all stay in memory. ERR_IO. */
int spill_add(struct spill *s, struct spilled *q, const void *p, size_t n, struct err *e);
/* Call take(arg, bytes, n, e) for all bytes in order, until it fails. ERR_IO. */
int spill_each(const struct spill *s, const struct spilled *q, int (*take)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
               struct err *e);
/* Empty a sequence: its memory is freed, and its blocks are used again. */
void spill_clear(struct spill *s, struct spilled *q);

#endif
