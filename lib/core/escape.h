/* Makes text from a file safe to print: names in an archive and strings in JSON may hold control sequences for the terminal. */
#ifndef DDM_CORE_ESCAPE_H
#define DDM_CORE_ESCAPE_H

#include <stddef.h>

/* Copy `text` to out[size], truncated to fit, with these bytes written as "\xNN": control characters (C0 and C1), bytes that are not UTF-8,
 * characters of zero width or that change the writing direction, and, if `utf8` is 0, everything that is not ASCII. Returns out. */
char *escape_text(char *out, size_t size, const char *text, int utf8);

#endif
