/* One call in the background, so that reading goes on while a network runs.
 *
 *     ahead_start(&a, read_next, batch);  compute(current);  ahead_wait(&a); */
#ifndef DDM_CORE_AHEAD_H
#define DDM_CORE_AHEAD_H

#include <pthread.h>

/* A zero-initialised struct has no call running. */
struct ahead {
	pthread_t thread;
	void (*fn)(void *arg);
	void *arg;
	int running;
};

/* Run fn(arg) in a thread of its own, or directly if no thread can be started. That thread blocks all signals. */
void ahead_start(struct ahead *a, void (*fn)(void *arg), void *arg);
void ahead_wait(struct ahead *a); /* until fn has returned; returns at once if no call is running */

#endif
