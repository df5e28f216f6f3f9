/* LD_PRELOADed: CLOCK_JUMP="AT BY" lets the clock of the day jump by BY seconds AT seconds after the start. The monotonic clock goes on. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double began, at = 1e300, by;

static double monotonic(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("CLOCK_JUMP");

	if (text && sscanf(text, "%lf %lf", &at, &by) == 2)
		began = monotonic();
}

static time_t jump(void)
{
	return monotonic() - began >= at ? (time_t)by : 0;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, id, t);

	if (!rc && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += jump();
	return rc;
}

time_t time(time_t *out)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone)
{
	struct timespec t;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	v->tv_sec = t.tv_sec;
	v->tv_usec = t.tv_nsec / 1000;
	return 0;
}
