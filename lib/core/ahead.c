/* Runs one function call in a background thread. */
#include "core/ahead.h"

#include <assert.h>

#include "core/thread.h"

static void *ahead_main(void *arg)
{
	struct ahead *a = arg;

	a->fn(a->arg);
	return NULL;
}

void ahead_start(struct ahead *a, void (*fn)(void *arg), void *arg)
{
	assert(!a->running);
	a->fn = fn;
	a->arg = arg;
	a->running = !thread_start(&a->thread, ahead_main, a);
	if (!a->running)
		fn(arg);
}

void ahead_wait(struct ahead *a)
{
	if (a->running)
		pthread_join(a->thread, NULL);
	a->running = 0;
}
