/* SHA-256 of large files that are asked for again and again, such as the weights of a model at every run. */
#ifndef DDM_FILE_FILEHASH_H
#define DDM_FILE_FILEHASH_H

#include <stdint.h>

#include "core/err.h"

/* From now on the hash of a file of `least` bytes or more is kept in this folder, which is there, and taken from there as long as the
 * file's device, inode, size, time of modification and time of change of its inode are what they were; and only where it was kept more
 * than a second after those times, which clocks may be too coarse to tell apart. NULL: no longer. For one thread, before others start. */
void filehash_remember(const char *folder, uint64_t least);

/* As sha256_file. */
int filehash(const char *path, char hex[65], struct err *e);

#endif
