/* Prints facts about files (inspect/facts.h) as text. */
#ifndef DDM_CMD_INFOTEXT_H
#define DDM_CMD_INFOTEXT_H

#include <jansson.h>

/* On stdout: "path: kind, size", then a line a fact, tables for lists of objects. Control characters become '?'. Without full,
 * hashes are cut to 16 digits, long texts and tables too, and what was left out is said. */
void info_print(const json_t *facts, int full);

#endif
