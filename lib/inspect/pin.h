/* Pins: a table of paths and the hashes of what is there, small enough for version control. It says which inputs an experiment has, and a later check
 * finds those that changed. */
#ifndef DDM_INSPECT_PIN_H
#define DDM_INSPECT_PIN_H

#include "inspect/verify.h"

/* Write the table to standard output: a row for each path, with the columns
 *   path    as given
 *   kind    file, shards, model (also of one network) or samples (a folder of them)
 *   sha256  of a file its bytes; of shards their manifest, which lists the hashes of all shards; of a model the names and bytes of its files without
 *           those of its training; of samples their keys and members
 * ERR_DATA for a folder of another kind, ERR_NOINPUT if there is nothing at a path. */
int pin_write(const char *const *path, int n, struct err *e);

/* Check what a table pins, relative to the working directory. Reports each path that holds something else (ERR_DATA) or nothing (ERR_NOINPUT), and a
 * damaged table. Returns the number of problems. */
int pin_verify(const char *table, const struct verify_options *o);

#endif
