/* Allows one writer in a folder, by a lock that the kernel releases when the process ends in any way. */
#ifndef DDM_FILE_RUNLOCK_H
#define DDM_FILE_RUNLOCK_H

#include <stddef.h>

#include "core/err.h"

struct runlock {
	int fd;     /* -1: not held */
	char *path; /* DIR/.lock, holding "HOST PID" */
};

/* ERR_EXISTS naming the holder's host and pid when somebody else holds it and has not let go after two seconds. The folder must
 * exist. */
int runlock_take(struct runlock *l, const char *dir, struct err *e);

/* A process that was stopped may go on when its lock file, or the whole folder, was removed or replaced, and another has worked there since. 0
 * while the file of that name is the one that was locked, and is locked still; else ERR_UNAVAILABLE, and nothing in the folder may be touched. */
int runlock_check(const struct runlock *l, struct err *e);

/* The same for what is about to get its name at `path`, for the lock that this process has taken on a folder above it; 0 where there is none.
 * file/commit.h asks before each rename. */
int runlock_permits(const char *path, struct err *e);

/* 1 if a process holds the lock now, with its host and pid in who; 0 otherwise. */
int runlock_holder(const char *dir, char *who, size_t size);

/* A zeroed or dropped one is allowed. A file that is no longer ours stays. */
void runlock_drop(struct runlock *l);

#endif
