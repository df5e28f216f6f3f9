/* Files and folders: transfers that survive EINTR and short counts, whole files with a size limit, mkdir -p, rm -r. */
#ifndef DDM_FILE_FILEIO_H
#define DDM_FILE_FILEIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

/* All n bytes, or -1 with errno. */
int fd_write(int fd, const void *p, size_t n);
/* The bytes read: fewer than n only at the end of the file; -1 with errno. */
ssize_t fd_read(int fd, void *p, size_t n);
ssize_t fd_pread(int fd, void *p, size_t n, off_t offset);

/* A whole file ("-": standard input; a pipe as by open_read) in memory, with a NUL after its *len bytes. More than `limit` bytes is ERR_DATA. Caller
 * frees with mem_free. */
void *file_load(const char *path, size_t limit, size_t *len, struct err *e);

/* A read-only view of a whole file. Pages are fetched on use; the file must not shrink meanwhile, which files written by the
 * commit protocol never do. An empty file gives data "" and len 0. */
struct filemap {
	const uint8_t *data;
	size_t len;
};

int filemap_open(struct filemap *m, const char *path, struct err *e);
int filemap_fd(struct filemap *m, int fd, const char *name, struct err *e); /* fd stays the caller's */
/* The same of bytes [offset, offset + len) of a regular file, which has so many. */
int filemap_part(struct filemap *m, int fd, uint64_t offset, size_t len, const char *name, struct err *e);
void filemap_close(struct filemap *m); /* a zeroed one is allowed */
/* The name of the file that is mapped at an address, or NULL. For the handler of SIGBUS. */
const char *filemap_name(const void *address);

/* A file without a name in `dir` (NULL: /tmp), for reading and writing, which is gone once it is closed. Its descriptor, or -1. */
int file_scratch(const char *dir, struct err *e);

int path_exists(const char *path);                  /* 1 when something of that name is there */
int path_holds(const char *dir, const char *name);  /* the same of "dir/name" */
char *path_join(const char *dir, const char *name); /* "dir/name", or name alone where dir is NULL; caller frees with mem_free */

int dir_make(const char *path, struct err *e); /* mkdir -p; 0 when it is there already */
/* Undo dir_make: `there` = dir_there(path) from before it. Folders that hold something stay. */
size_t dir_there(const char *path); /* length of the longest leading part of path that is there */
void dir_unmake(const char *path, size_t there);
int dir_remove(const char *path, struct err *e); /* rm -r without following links; 0 when there is nothing */
int dir_sync(const char *path, struct err *e);   /* fsync of the folder itself: makes names in it durable */

/* Names in a folder, "." and ".." left out, sorted bytewise. Caller frees each and the array with names_free. */
int dir_list(const char *path, char ***names, size_t *n, struct err *e);
void names_free(char **names, size_t n);

#endif
