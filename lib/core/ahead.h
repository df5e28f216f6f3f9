/* One call in the background, so that reading goes on while a network runs.
 *
 *     ahead_start(&a, read_next, batch);  compute(current);  ahead_wait(&a); */
#ifndef DDM_CORE_AHEAD_H
#define DDM_CORE_AHEAD_H

#include <pthread.h>

/* Zero-initialised: nothing is under way. */
struct ahead {
	pthread_t thread;
	void (*fn)(void *arg);
	void *arg;
	int running;
};

/* Where there can be no thread, fn is called here and now. Signals go to the other threads. */
void ahead_start(struct ahead *a, void (*fn)(void *arg), void *arg);
void ahead_wait(struct ahead *a); /* nothing where nothing is under way */

#endif
