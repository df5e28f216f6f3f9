/* Threads of the library, and conditions that they wait for with a time limit. */
#ifndef DDM_CORE_THREAD_H
#define DDM_CORE_THREAD_H

#include <pthread.h>

/* Start a thread in which all signals are blocked: they are for the program's own threads, and a write to a closed pipe fails without a SIGPIPE. 0,
 * or the error as pthread_create returns it. */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* A condition whose time limits (pthread_cond_timedwait) are of CLOCK_MONOTONIC, which no change of the date moves. */
void condition_init(pthread_cond_t *c);

#endif
