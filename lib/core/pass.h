/* Progress of long operations on a pool: loops tell how far they are, and end when the one who listens says stop. */
#ifndef DDM_CORE_PASS_H
#define DDM_CORE_PASS_H

#include "core/clock.h"
#include "core/pool.h"

/* Where an operation of one loop or several stands. */
struct pool_pass {
	const char *what;    /* what is counted, a string constant: "subsets" */
	int64_t done, total; /* units of it */
};

/* Long operations on this pool tell `progress` from now on, which is borrowed; NULL: nobody. */
void pool_watch(struct pool *p, const struct progress *progress);

/* Tell how far a pass is, from the thread that calls pool_run. -1 and ERR_AGAIN if `progress` said stop. p may be NULL: not told. */
int pool_tell(const struct pool *p, const struct pool_pass *pass, struct err *e);

/* As pool_run, where each task adds `units` to pass->done, which is told meanwhile. pass may be NULL: not told. On ERR_AGAIN tasks are left
 * undone. */
int pool_run_told(struct pool *p, struct pool_pass *pass, int64_t units, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker),
                  void *arg, struct err *e);

#endif
