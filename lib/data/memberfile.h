/* A file of a folder as a member of a sample. */
#ifndef DDM_DATA_MEMBERFILE_H
#define DDM_DATA_MEMBERFILE_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

/* Append the file's content; *len is its size in bytes. ERR_DATA if it is larger than `most` bytes or not a regular file. */
int member_file(struct str *bytes, const char *path, size_t most, size_t *len, struct err *e);

#endif
