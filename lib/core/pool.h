/* The only thread pool. Work is cut into tasks by shape, never by the number of threads, so results do not depend on it. */
#ifndef DDM_CORE_POOL_H
#define DDM_CORE_POOL_H

#include <stdint.h>

#include "core/err.h"

struct pool;
struct progress; /* core/clock.h */

/* `threads` workers, the calling thread among them; 0 = pool_default_threads(). NULL and *e on failure. A pool of one never
 * starts a thread. */
struct pool *pool_new(int threads, struct err *e);
void pool_free(struct pool *p); /* NULL is allowed */
int pool_threads(const struct pool *p);

/* Call fn(arg, task, worker) for every task in [0, tasks), each exactly once, and return when all are done. `worker` is in
 * [0, pool_threads) and no two concurrent calls share it: use it to pick scratch memory, never to pick work. Tasks start in
 * increasing order. Calls from inside fn run serially on the same worker; its number is 0 if they are for another pool. p may be NULL: serial,
 * worker 0. One caller at a time. */
void pool_run(struct pool *p, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg);

/* As pool_run, but tasks start in no fixed order. Each worker has a share of neighbouring tasks. It takes those first, then tasks of the others'
 * shares. In two loops of as many tasks a worker has the same share, so that the second finds in its cache what the first wrote. */
void pool_spread(struct pool *p, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg);

/* Report the progress of later passes on this pool to `progress`, which is borrowed; NULL: no reports. */
void pool_set_progress(struct pool *p, const struct progress *progress);

/* The position of an operation that runs one or several loops. */
struct pool_pass {
	const char *what;    /* the unit counted, a string constant: "subsets" */
	int64_t done, total; /* units */
};

/* Report a pass; call it from the thread that calls pool_run. -1 and ERR_AGAIN if the progress said stop. p may be NULL: no report. */
int pool_report(const struct pool *p, const struct pool_pass *pass, struct err *e);

/* As pool_run, but each task adds `units` to pass->done, which is reported while the loop runs. pass may be NULL: no report. -1 and ERR_AGAIN if
 * the progress said stop: tasks that had not started are skipped. */
int pool_run_pass(struct pool *p, struct pool_pass *pass, int64_t units, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg,
                  struct err *e);

/* CPUs this process may use: scheduling affinity, and the cgroup's quota rounded up. */
int pool_default_threads(void);

#endif
