/* Opening an input. A pipe with a name that nobody writes to would hold open(2) for ever; a program must say so instead. */
#ifndef DDM_CORE_OPENREAD_H
#define DDM_CORE_OPENREAD_H

#include <stdio.h>

#include "core/err.h"

/* A descriptor for reading, or -1. A named pipe is waited for until somebody writes to it: after ten seconds without a writer it is
 * ERR_NOINPUT. */
int open_read(const char *path, struct err *e);

/* The same of what must be a file or a folder: a named pipe is ERR_NOINPUT at once. */
int open_seekable(const char *path, struct err *e);

/* open_read as a stream, or NULL. */
FILE *open_stream(const char *path, struct err *e);

#endif
