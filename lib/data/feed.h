/* Standard input as a descriptor, with a copy of its first bytes. */
#ifndef DDM_DATA_FEED_H
#define DDM_DATA_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum { FEED_HEAD = 512 };

struct feed {
	int fd;                  /* read from here, starting with the first byte */
	int seekable;            /* fd can be rewound */
	uint8_t head[FEED_HEAD]; /* the first bytes */
	size_t n;
	struct pump *pump; /* private: the thread that forwards a pipe */
};

/* Open stdin and read its first bytes. A seekable file can be used as it is. After a pipe, the caller must call feed_copy or feed_stream before
 * reading fd. Release with feed_close. */
int feed_open(struct feed *f, struct err *e);
/* Copy the rest into an unlinked temporary file in `dir` (NULL: /tmp), so that it can be read again. */
int feed_copy(struct feed *f, const char *dir, struct err *e);
/* Forward the rest as it arrives, by a separate thread; it cannot be read again. */
int feed_stream(struct feed *f, struct err *e);
void feed_close(struct feed *f);

#endif
