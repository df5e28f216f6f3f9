/* A folder that keeps blocks of remote files, of bounded size, shared by processes of one machine. Each block is a file of its own with a hash; a
 * damaged one is not found, and is removed. Blocks that were used least recently go first (by modification time, which each use sets). */
#ifndef DDM_FILE_BLOCKCACHE_H
#define DDM_FILE_BLOCKCACHE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum { BLOCKCACHE_KEY = 33 }; /* 32 hexadecimal digits */

struct blockcache {
	const char *folder; /* borrowed */
	uint64_t most;      /* bytes that all blocks may take */
};

/* Make the folder where it is missing. ERR_IO. */
int blockcache_open(const struct blockcache *c, struct err *e);

/* The key of a file: a hash of all that tells its content from others', such as its address, its ETag and its size. */
void blockcache_key(char key[BLOCKCACHE_KEY], const char *what);

/* Read block `index` of n bytes into p: 1, or 0 if the cache has no such block. */
int blockcache_get(const struct blockcache *c, const char *key, int64_t index, void *p, size_t n);

int blockcache_has(const struct blockcache *c, const char *key, int64_t index); /* 1: there is such a block, whole or not */

/* Keep a block, and remove others if the cache is too large. Fails silently: the block then is fetched again. */
void blockcache_put(const struct blockcache *c, const char *key, int64_t index, const void *p, size_t n);

#endif
