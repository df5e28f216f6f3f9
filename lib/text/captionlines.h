/* Reads a text file with one caption a line. */
#ifndef DDM_TEXT_CAPTIONLINES_H
#define DDM_TEXT_CAPTIONLINES_H

#include "core/err.h"
#include "core/str.h"

enum { CAPTIONLINES_LONGEST = 1 << 20 }; /* most bytes of a line */

struct captionlines;

/* Open `path`, or, if fd >= 0, read from fd, which the caller closes; `path` is then its name in messages. Caller frees with captionlines_free. */
struct captionlines *captionlines_open(const char *path, int fd, struct err *e);
void captionlines_free(struct captionlines *l); /* NULL is allowed */

/* Append the next line to *out, without "\n" or "\r\n" and without the byte order mark of the first line. 1; 0 at the end; -1 if reading fails; 2
 * and ERR_DATA if the line is not UTF-8, holds NUL or is longer than CAPTIONLINES_LONGEST; the next call then reads the line after it. An empty line
 * is an empty caption. */
int captionlines_next(struct captionlines *l, struct str *out, struct err *e);

#endif
