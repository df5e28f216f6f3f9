/* Escapes text from files for messages: see core/escape.h. */
#ifndef DDM_CMD_CLEAN_H
#define DDM_CMD_CLEAN_H

#include <stddef.h>

/* 1 if the locale's variables name UTF-8. */
int clean_utf8(void);

/* Escape text for a message on stderr. Characters outside ASCII are kept only if the locale's variables name UTF-8. Returns out. */
char *clean_message(char *out, size_t size, const char *text);

/* Escape text for a table on stdout: the same on a terminal; in a file or pipe, valid UTF-8 is always kept. Returns out. */
char *clean_output(char *out, size_t size, const char *text);

#endif
