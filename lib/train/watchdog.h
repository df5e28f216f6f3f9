/* Notices that a training no longer gets on, whatever its main thread is stuck in: a thread of its own looks at the clock. */
#ifndef DDM_TRAIN_WATCHDOG_H
#define DDM_TRAIN_WATCHDOG_H

#include <pthread.h>
#include <stdint.h>

#include "comm/comm.h"
#include "core/err.h"

struct watchdog {
	pthread_t thread;
	int running; /* 0: nothing is watched, and the calls below do nothing */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int ending;
	double limit;                               /* seconds */
	void (*hung)(void *arg, const char *where); /* called once, in that thread */
	void *arg;
	const struct comm *comm;
	/* Where the main thread is */
	const char *phase;
	double since;   /* clock_seconds() at the beginning of the phase */
	int64_t step;   /* steps that have ended */
	uint64_t turns; /* counts everything that ends: steps, validations, checkpoints */
};

/* Watch from now on: hung(arg, where) is called when nothing has ended for `limit` seconds (0: do not watch). `where` says which phase of which step
 * has lasted how long, and which rank it waits for. Time in which the whole process was stopped does not count. ERR_NOMEM if no thread can be
 * started. The struct must be zeroed before; end with watchdog_end. */
int watchdog_begin(struct watchdog *w, double limit, const struct comm *comm, void (*hung)(void *arg, const char *where), void *arg, struct err *e);
void watchdog_end(struct watchdog *w); /* zeroed is allowed */

void watchdog_phase(struct watchdog *w, const char *phase); /* a string constant */
void watchdog_turn(struct watchdog *w, int64_t step);       /* something has ended; `step` steps have */

#endif
