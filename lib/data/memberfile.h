/* A file of a folder as a member of a sample. */
#ifndef DDM_DATA_MEMBERFILE_H
#define DDM_DATA_MEMBERFILE_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

/* Appends what the file holds, *len bytes. ERR_DATA for more than `most`, and for what is no regular file. */
int member_file(struct str *bytes, const char *path, size_t most, size_t *len, struct err *e);

#endif
