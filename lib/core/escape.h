/* Text from a file, for a terminal: names in an archive and strings in JSON may hold whatever steers one. */
#ifndef DDM_CORE_ESCAPE_H
#define DDM_CORE_ESCAPE_H

#include <stddef.h>

/* `text` as it can be printed, in out[size], cut where that is full. Control characters and bytes that are not UTF-8 become "\xNN"; so do the
 * bytes of C1 controls, of marks that turn the direction of writing or take no room, and, without `utf8`, of all that is not ASCII. Returns
 * out. */
char *escape_text(char *out, size_t size, const char *text, int utf8);

#endif
