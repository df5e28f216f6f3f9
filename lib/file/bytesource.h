/* The bytes of an input, wherever they are: a file, a URL (file/httpfile.h) or the output of a command (file/command.h), which
 * file/remoteinput.h tells apart. They are read in order, or at any place where that is possible. */
#ifndef DDM_FILE_BYTESOURCE_H
#define DDM_FILE_BYTESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct bytesource;

/* Open a path, as open_read does, or a URL, or start a command. ERR_NOINPUT if it is missing; see the headers above for other errors. Free with
 * bytesource_close. */
struct bytesource *bytesource_open(const char *path, struct err *e);
/* The same for reads at any place: a pipe, a device or a command is ERR_NOINPUT or ERR_DATA. */
struct bytesource *bytesource_open_seekable(const char *path, struct err *e);
/* Read fd from its present place. The caller keeps it open until bytesource_close, and closes it. `name` is for messages. */
struct bytesource *bytesource_of_fd(int fd, const char *name);
void bytesource_close(struct bytesource *s); /* NULL is allowed */

const char *bytesource_name(const struct bytesource *s); /* for messages: a URL without its query. Borrowed */
int64_t bytesource_size(const struct bytesource *s);     /* -1: unknown */
int bytesource_is_seekable(const struct bytesource *s);  /* 1: bytesource_read_at reads at any place */
int64_t bytesource_at(const struct bytesource *s);       /* bytes read in order so far */

/* Read the next n bytes; *got is smaller only at the end. At the end of a command's output its status is checked. Errors: ERR_IO, ERR_AGAIN after
 * a signal, and those of the headers above. */
int bytesource_read(struct bytesource *s, void *p, size_t n, size_t *got, struct err *e);
uint64_t bytesource_hash(const struct bytesource *s); /* XXH3-64 of what was read of a command's output; 0 for other sources */
/* Read what is left of a command's output, so that its status is checked; nothing for others. */
int bytesource_finish(struct bytesource *s, struct err *e);

/* Read n bytes at an offset, of a source that bytesource_open_seekable opened; *got is smaller only at the end. Thread-safe. */
int bytesource_read_at(struct bytesource *s, void *p, size_t n, uint64_t offset, size_t *got, struct err *e);
/* Map bytes [offset, offset + n) of a file, which has so many: 1; 0 if the source is not a file or cannot be mapped. The caller ends with
 * filemap_close (file/fileio.h), also after bytesource_close. */
struct filemap;
int bytesource_map(const struct bytesource *s, struct filemap *m, uint64_t offset, size_t n);
/* Free memory that speeds up reads at the beginning and at the end. */
void bytesource_trim(struct bytesource *s);

/* As path_exists, for URLs too: -1 and *e if that cannot be found out. */
int bytesource_exists(const char *path, struct err *e);
/* As file_load and sha256_file, for URLs too. No command is run. */
void *bytesource_load(const char *path, size_t limit, size_t *len, struct err *e);
int bytesource_sha256(const char *path, char hex[65], uint64_t *bytes, struct err *e);

#endif
