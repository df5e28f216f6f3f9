/* Writes a large file to the disk without a copy in the page cache. With such a copy the kernel can spend more processor time on copying and writing
 * back than the disk needs for the bytes, and pages of the data set that training reads are dropped.
 *
 * A thread writes one buffer while the caller fills the next. Where the length of the file is not a multiple of the disk's block, its last bytes go
 * through the page cache. */
#ifndef DDM_FILE_DIRECT_H
#define DDM_FILE_DIRECT_H

#include <stddef.h>

struct direct;

enum { DIRECT_LEAST = 1 << 26 }; /* bytes of a file for which it pays: 64 MiB */

/* Begin at the position of fd, which is a multiple of 4096. Nobody else writes to fd until direct_end. NULL if the file is on neither ext4 nor XFS,
 * if direct writes are refused, or without memory for two buffers or a thread; the caller then writes as usual. On a network file system each direct
 * write would wait for the server. */
struct direct *direct_begin(int fd);

/* 0, or -1 with errno of this or of an earlier write. */
int direct_write(struct direct *d, const void *p, size_t n);

/* Write what is left, and free d. The position of fd is then behind the last byte, and fd writes through the page cache again. 0, or -1 with errno as
 * above. The bytes are safe after the caller's fsync, not before. */
int direct_end(struct direct *d);

/* Wait for the writes that were begun, and free d: the file is given up. NULL is allowed. */
void direct_abort(struct direct *d);

#endif
