/* Prints facts about files (inspect/facts.h) as text. */
#ifndef DDM_CMD_INFOTEXT_H
#define DDM_CMD_INFOTEXT_H

#include <jansson.h>

/* Print on stdout: a line "path: kind, size", then one line for each fact, and a table for each list of objects. Text is escaped (cmd/clean.h).
 * Without `full`, hashes are cut to 16 digits, and long texts, lists and tables are cut with a mark. */
void info_print(const json_t *facts, int full);

#endif
