/* One writer of an output at a time.
 *
 * Whoever wants to write PATH claims the name first: a lock on ".NAME.tmp.claim" beside it, which the kernel drops with the process,
 * so that a dead one never stands in the way; the next writer of the name takes the file over and removes it at its end. A second
 * writer is refused (ERR_EXISTS) with a message that names the holder. A program must claim a name before it checks what exists under
 * it; otherwise two programs may both find nothing, both go on, and the last one wins.
 *
 * Every outfile (file/commit.h) claims its name while it is open. A program that looks first, or whose outputs belong together, claims
 * all of them at its start. If no such file can be made, or locks are not supported, nothing is claimed, and the writer itself
 * reports the error. */
#ifndef DDM_FILE_CLAIM_H
#define DDM_FILE_CLAIM_H

#include <stddef.h>

#include "core/err.h"

struct claim;

/* Claim the outputs of this process, all or none of them, until each is published or claim_drop_all. NULL, "-", devices, pipes and
 * folders are passed over. ERR_EXISTS naming the file and the holder's host and pid when somebody else writes one of them and has not
 * ended after two seconds; ERR_USAGE when two of them are the same file. Not for several threads. */
int claim_take(const char *const *path, size_t n, struct err *e);
/* Give up the claims of claim_take on these names, except of files that were written. */
void claim_drop(const char *const *path, size_t n);
void claim_drop_all(void);

/* For struct outfile: claim `place`, which is written from now on. *c is NULL if nothing could be claimed. ERR_EXISTS also if this process is
 * already writing it. */
int claim_open(struct claim **c, const char *place, const char *name, struct err *e);
void claim_close(struct claim *c); /* NULL is allowed */
void claim_done(struct claim *c);  /* the output has its final name: later writers find it there, so claim_take's claim ends too */

/* Remove the claims of dead processes on `name` (NULL: on any name) in a folder. Errors are ignored. */
void claim_sweep(const char *dir, const char *name);

#endif
