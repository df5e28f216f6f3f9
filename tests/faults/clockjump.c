/* LD_PRELOADed: CLOCK_JUMP="AT BY" lets the clock of the day jump by BY seconds AT seconds after the start. The monotonic clock goes on.
 * CLOCK_RATE="R" lets the monotonic clock run R times as fast. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double began, at = 1e300, by, rate = 1;

static double monotonic(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((constructor)) static void begin(void)
{
	const char *jumps = getenv("CLOCK_JUMP"), *runs = getenv("CLOCK_RATE");
	double given[2];

	began = monotonic();
	if (jumps && sscanf(jumps, "%lf %lf", &given[0], &given[1]) == 2) {
		at = given[0];
		by = given[1];
	}
	if (runs && sscanf(runs, "%lf", &given[0]) == 1)
		rate = given[0];
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
	if (!rc && id == CLOCK_MONOTONIC && rate != 1) {
		double now = began + rate * (monotonic() - began);

		t->tv_sec = (time_t)now;
		t->tv_nsec = (long)((now - (double)t->tv_sec) * 1e9);
	}
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
