/* A text of captions, one a line. */
#ifndef DDM_TEXT_CAPTIONLINES_H
#define DDM_TEXT_CAPTIONLINES_H

#include "core/err.h"
#include "core/str.h"

enum { CAPTIONLINES_LONGEST = 1 << 20 }; /* bytes of a line */

struct captionlines;

/* fd < 0: `path` is opened; else read from fd, which stays the caller's. `path` is its name in messages. Caller frees with
 * captionlines_free. */
struct captionlines *captionlines_open(const char *path, int fd, struct err *e);
void captionlines_free(struct captionlines *l); /* NULL is allowed */

/* Adds the next line to *out, without its "\n" or "\r\n", nor the byte order mark of the first: 1, or 0 at the end. 2 and ERR_DATA where it is
 * not UTF-8, holds NUL or is too long; the next call goes on after it. -1 where reading fails. An empty line is an empty caption. */
int captionlines_next(struct captionlines *l, struct str *out, struct err *e);

#endif
