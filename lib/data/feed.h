/* Standard input as a descriptor, with a copy of its first bytes. */
#ifndef DDM_DATA_FEED_H
#define DDM_DATA_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum { FEED_HEAD = 512 };

struct feed {
	int fd;                  /* read here, from the first byte on */
	int seekable;            /* fd can be rewound */
	uint8_t head[FEED_HEAD]; /* the first bytes */
	size_t n;
	struct pump *pump; /* private: the thread that hands a pipe on */
};

/* Look at stdin. A file is taken as it is; what comes through a pipe has to be read to be seen, so feed_copy or
 * feed_stream must say how it goes on. feed_close frees. */
int feed_open(struct feed *f, struct err *e);
/* Copy the rest into an unlinked temporary file in `dir` (NULL: /tmp), so that it can be read again. */
int feed_copy(struct feed *f, const char *dir, struct err *e);
/* Hand the rest on as it comes, by a thread of its own; it cannot be read again. */
int feed_stream(struct feed *f, struct err *e);
void feed_close(struct feed *f);

#endif
