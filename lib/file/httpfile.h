/* A file on a server: http, https, or S3. Reads of ranges, which go on after a lost connection and notice a file that has changed meanwhile; blocks
 * are kept in the cache of remote_settings, if there is one. */
#ifndef DDM_FILE_HTTPFILE_H
#define DDM_FILE_HTTPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct httpfile;

/* Ask for the first bytes, which tells whether the file is there and its size. ERR_NOINPUT: status 401, 403, 404 or 410, or a malformed URL.
 * ERR_UNAVAILABLE: no answer, another status, or an answer too slow, after all attempts; or a build without libcurl. Free with httpfile_close. */
struct httpfile *httpfile_open(const char *url, struct err *e);
void httpfile_close(struct httpfile *f);           /* NULL is allowed */
int httpfile_has_ranges(const struct httpfile *f); /* 0: the server ignores requests for ranges */
int64_t httpfile_size(const struct httpfile *f);   /* -1: the server does not say */

/* Read n bytes at `offset`; *got is smaller only at the end of the file. Thread-safe. Reads that follow each other share one answer. A server that
 * ignores ranges serves such reads from the beginning alone; others are ERR_DATA. ERR_DATA: the file has changed since it was opened, or an
 * answer contradicts itself. ERR_UNAVAILABLE as above. ERR_AGAIN: a signal came. */
int httpfile_read(struct httpfile *f, void *p, size_t n, int64_t offset, size_t *got, struct err *e);

/* Free the memory for the first and last bytes of the file, which is kept for reading its head and its index. */
void httpfile_trim(struct httpfile *f);

#endif
