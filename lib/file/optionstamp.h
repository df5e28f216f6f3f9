/* The part of a stamp that follows from a table of options: every field that determines the result, so that none can be forgotten. */
#ifndef DDM_FILE_OPTIONSTAMP_H
#define DDM_FILE_OPTIONSTAMP_H

#include "core/option.h"
#include "file/stamp.h"

/* Puts the fields of `request` whose rows say STAMP_ALWAYS or STAMP_UNLESS_DEFAULT. order: keys with blanks between, which come first and in this
 * order (an output's bytes hold them); the others follow in the order of the tables. tables: NULL at the end; each ends with an entry of zeros. */
void optionstamp_put(struct stamp *s, const struct option *const *tables, const void *request, const char *order);

#endif
