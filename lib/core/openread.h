/* Opens inputs. A plain open(2) of a named pipe that nobody writes to would wait for ever; these report an error instead. */
#ifndef DDM_CORE_OPENREAD_H
#define DDM_CORE_OPENREAD_H

#include <stdio.h>

#include "core/err.h"

/* Open `path` for reading: a descriptor, or -1. Waits up to ten seconds for somebody to write to a named pipe, then ERR_NOINPUT. */
int open_read(const char *path, struct err *e);

/* The same for an input that must be a file or a folder: a named pipe is ERR_NOINPUT at once. */
int open_seekable(const char *path, struct err *e);

/* open_read as a stream, or NULL. */
FILE *open_stream(const char *path, struct err *e);

#endif
