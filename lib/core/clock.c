/* The monotonic clock, and calls of a program's progress function. */
#include "core/clock.h"

#include <time.h>

double clock_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int progress_tell(const struct progress *p, const char *what, int64_t done, int64_t total)
{
	return p && p->fn ? p->fn(p->arg, what, done, total) : 0;
}
