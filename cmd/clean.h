/* Escapes text from files for messages: see core/escape.h. */
#ifndef DDM_CMD_CLEAN_H
#define DDM_CMD_CLEAN_H

#include <stddef.h>

/* For a message on standard error: what is not ASCII stays where the locale's variables say UTF-8. Returns out. */
char *clean_message(char *out, size_t size, const char *text);

/* For a table on standard output: the same on a terminal; into a file or pipe all that is proper UTF-8 stays. */
char *clean_output(char *out, size_t size, const char *text);

#endif
