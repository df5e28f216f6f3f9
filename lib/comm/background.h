/* Calls to other ranks in a thread of its own, while the caller computes: the sums of a gradient whose first parts are complete before its last ones.
 *
 *     comm_background_put(b, sum_bucket, &first);   compute   comm_background_put(b, sum_bucket, &second);   compute
 *     comm_background_wait(b, &e);
 *
 * Between the first put and the end of the wait the communicator belongs to this thread. All ranks put the same calls in the same order. */
#ifndef DDM_COMM_BACKGROUND_H
#define DDM_COMM_BACKGROUND_H

#include "comm/comm.h"

struct comm_background;

/* The communicator is borrowed. Free with comm_background_free, which waits. */
struct comm_background *comm_background_new(struct comm *c);
void comm_background_free(struct comm_background *b); /* NULL is allowed */

/* Let the thread call fn(c, arg) after the calls put before it. Returns at once; if no thread could be started, after the call. If a call has failed,
 * later ones are left out. */
void comm_background_put(struct comm_background *b, int (*fn)(struct comm *c, void *arg, struct err *e), void *arg);

/* Wait for all calls put so far. -1 with the error of the first that failed, at this and at every later wait. The seconds that the calls took and
 * that the caller did not wait for are counted as hidden (comm_exposed_seconds). */
int comm_background_wait(struct comm_background *b, struct err *e);

#endif
