/* The only thread pool. Work is cut into tasks by shape, never by the number of threads, so results do not depend on it. */
#ifndef DDM_CORE_POOL_H
#define DDM_CORE_POOL_H

#include <stdint.h>

#include "core/err.h"

struct pool;

/* `threads` workers, the calling thread among them; 0 = pool_default_threads(). NULL and *e on failure. A pool of one never
 * starts a thread. */
struct pool *pool_new(int threads, struct err *e);
void pool_free(struct pool *p); /* NULL is allowed */
int pool_threads(const struct pool *p);

/* Call fn(arg, task, worker) for every task in [0, tasks), each exactly once, and return when all are done. `worker` is in
 * [0, pool_threads) and no two concurrent calls share it: use it to pick scratch memory, never to pick work. Tasks start in
 * increasing order. Calls from inside fn run serially on the same worker. p may be NULL: serial, worker 0. One caller at a
 * time. */
void pool_run(struct pool *p, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg);

/* CPUs this process may use: scheduling affinity, and the cgroup's quota rounded up. */
int pool_default_threads(void);

#endif
