/* Writes a large file to the disk without a copy in the page cache. Copying into the cache and writing it back cost the kernel more processor time
 * than a fast disk takes for the bytes, and they push out pages of the data set that training reads.
 *
 * A thread writes one buffer while the caller fills the next. Where the length of the file is not a multiple of the disk's block, its last bytes go
 * through the page cache. */
#ifndef DDM_FILE_DIRECT_H
#define DDM_FILE_DIRECT_H

#include <stddef.h>

struct direct;

enum { DIRECT_LEAST = 1 << 26 }; /* bytes of a file for which it pays: 64 MiB */

/* Begin at the position of fd, which is a multiple of 4096. Nobody else writes to fd until direct_end. NULL means that the caller writes as usual:
 * the file system is not ext4 or XFS, where no write waits for a server, or it refuses, or there is no memory for two buffers. */
struct direct *direct_begin(int fd);

/* 0, or -1 with errno of this or of an earlier write. */
int direct_write(struct direct *d, const void *p, size_t n);

/* Write what is left, and free d; NULL is allowed. fd then stands behind the last byte, and writes through the page cache again. 0, or -1 with errno
 * as above. The bytes are safe after the caller's fsync, not before. */
int direct_end(struct direct *d);

#endif
