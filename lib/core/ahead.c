/* Runs one function call in a background thread. */
#include "core/ahead.h"

#include <assert.h>
#include <signal.h>

static void *ahead_main(void *arg)
{
	struct ahead *a = arg;

	a->fn(a->arg);
	return NULL;
}

void ahead_start(struct ahead *a, void (*fn)(void *arg), void *arg)
{
	sigset_t all, old;

	assert(!a->running);
	a->fn = fn;
	a->arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	a->running = !pthread_create(&a->thread, NULL, ahead_main, a);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!a->running)
		fn(arg);
}

void ahead_wait(struct ahead *a)
{
	if (a->running)
		pthread_join(a->thread, NULL);
	a->running = 0;
}
