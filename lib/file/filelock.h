/* File locks that the kernel releases when their process ends, in whatever way (flock(2); an NFS client forwards it to the server). The holder
 * writes "HOST PID" into the file, for the message of a process that is refused. */
#ifndef DDM_FILE_FILELOCK_H
#define DDM_FILE_FILELOCK_H

#include <stddef.h>

/* This host's name as used in file names: without a slash. */
void lock_host(char out[65]);

/* Exclusive. A killed holder may still be dying in an fsync when its successor starts: the lock is retried for two seconds. 0,
 * or -1 with errno, EWOULDBLOCK if another process holds it. */
int lock_soon(int fd);

/* Whether `path` still is the file of fd. A holder that ends may unlink it between our open and our lock: then the lock has no effect
 * and the caller tries again. */
int lock_is_current(int fd, const char *path);

/* The text is for messages only: a full disk does not stop the holder of a lock. */
void lock_sign(int fd);
void lock_signed(int fd, char *who, size_t size); /* the holder's text, or "" */

#endif
