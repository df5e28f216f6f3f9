/* SHA-256 of large files that are asked for again and again, such as the weights of a model at every run. */
#ifndef DDM_FILE_FILEHASH_H
#define DDM_FILE_FILEHASH_H

#include <stdint.h>

#include "core/err.h"

/* From now on the hashes of files of at least `least` bytes are cached in this existing folder. A cached hash is used while the file's device,
 * inode, size, mtime and ctime are unchanged, and only if it was cached more than a second after those times, because clocks may be
 * coarse. NULL: stop caching. Call before other threads start. */
void filehash_remember(const char *folder, uint64_t least);

/* As sha256_file, but with the cache. */
int filehash(const char *path, char hex[65], struct err *e);

#endif
