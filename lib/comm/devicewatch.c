/* Watches the work that sums over the ranks have submitted to this rank's device. The host may wait for the device anywhere, in a call of its
 * runtime that knows nothing of other ranks; if one of these is lost, only the engine's abort, from another thread, lets it go on. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/devicesumimpl.h"
#include "core/clock.h"
#include "core/thread.h"

enum { LOOK_MS = 20, HELD = 1 /* seconds */, GRACE = 30 };

static struct timespec from_now(double seconds, clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	seconds += (double)t.tv_nsec * 1e-9;
	t.tv_sec += (time_t)seconds;
	t.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
	return t;
}

/* In a thread of its own, because it can hang. The thread that submits may hang in the engine too, so it is not waited for long. */
static void *run_abort(void *arg)
{
	struct comm_devices *d = arg;
	struct timespec soon = from_now(HELD, CLOCK_REALTIME);
	int held = !pthread_mutex_timedlock(&d->calling, &soon);

	d->engine->abort();
	if (held)
		pthread_mutex_unlock(&d->calling);
	pthread_mutex_lock(&d->lock);
	d->aborted = 1;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* The lock is held. The failure is kept before the abort begins, so that who finds the work ended also finds the failure. */
static void begin_abort(struct comm_devices *d)
{
	if (!d->abort)
		thread_start(&d->aborter, run_abort, d);
	d->abort = 1;
}

int device_fail(struct comm_devices *d, struct err *e, const char *fmt, ...)
{
	char text[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&d->lock);
	if (!d->failed.code)
		err_set(&d->failed, ERR_UNAVAILABLE, "%s", text);
	if (e)
		*e = d->failed;
	begin_abort(d);
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return -1;
}

int comm_devices_error(struct comm_devices *d, struct err *e)
{
	int rc = 0;

	if (!d)
		return 0;
	pthread_mutex_lock(&d->lock);
	if (d->failed.code)
		rc = err_set(e, d->failed.code, "%s", d->failed.msg);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int device_settle(struct comm_devices *d, int rc, const char *what, char *why, struct err *e)
{
	double since = clock_seconds();

	while (!rc) {
		const struct timespec pause = {.tv_nsec = 50000};

		if (comm_devices_error(d, e))
			return -1;
		pthread_mutex_lock(&d->calling);
		rc = d->engine->done(why);
		pthread_mutex_unlock(&d->calling);
		if (rc)
			break;
		if (clock_seconds() - since > d->timeout)
			return device_fail(d, e, "%s by %s was not begun within %g s (--comm-timeout): another rank is stopped or cannot be reached",
			                   what, d->engine->name, d->timeout);
		nanosleep(&pause, NULL);
	}
	return rc > 0 ? comm_devices_error(d, e) : device_fail(d, e, "%s by %s failed: %s", what, d->engine->name, why);
}

/* Forget the oldest calls that have ended. The lock is held. */
static void drop_ended(struct comm_devices *d)
{
	for (; d->count; d->first++, d->count--) {
		const struct device_call *call = &d->call[d->first % DEVICE_CALLS];

		if (!call->complete || !d->own.event_reached(d->own.arg, call->end))
			return;
		d->since = 0;
	}
}

int device_call_begin(struct comm_devices *d, struct err *e)
{
	pthread_mutex_lock(&d->lock);
	while (d->count == DEVICE_CALLS && !d->failed.code) {
		void *end = d->call[d->first % DEVICE_CALLS].end;

		pthread_mutex_unlock(&d->lock);
		d->own.event_wait(d->own.arg, end);
		pthread_mutex_lock(&d->lock);
		drop_ended(d);
	}
	d->open = &d->call[(d->first + d->count) % DEVICE_CALLS];
	pthread_mutex_unlock(&d->lock);
	if (comm_devices_error(d, e))
		return -1;
	d->own.event_record(d->own.arg, d->open->begin);
	pthread_mutex_lock(&d->lock);
	d->open->complete = 0;
	d->count++;
	pthread_mutex_unlock(&d->lock);
	return 0;
}

void device_call_end(struct comm_devices *d)
{
	d->own.event_record(d->own.arg, d->open->end);
	pthread_mutex_lock(&d->lock);
	d->open->complete = 1;
	pthread_mutex_unlock(&d->lock);
}

/* Look at the oldest call. The time limit counts from the moment when this rank's device has come to it. The lock is held. Returns whether it has
 * run out. */
static int is_overdue(struct comm_devices *d)
{
	drop_ended(d);
	if (!d->count)
		return 0;
	if (!(d->since > 0) && d->own.event_reached(d->own.arg, d->call[d->first % DEVICE_CALLS].begin))
		d->since = clock_seconds();
	return d->since > 0 && clock_seconds() - d->since > d->timeout;
}

/* What the engine knows of other ranks; the submitting thread asks too, so it need not be now. */
static void look_at_engine(struct comm_devices *d)
{
	char why[COMM_DEVICE_WHY] = "";
	int rc;

	if (pthread_mutex_trylock(&d->calling))
		return;
	rc = d->engine->done(why);
	pthread_mutex_unlock(&d->calling);
	if (rc < 0)
		device_fail(d, NULL, "%s has lost another rank: %s", d->engine->name, why);
}

static void give_up(struct comm_devices *d)
{
	d->own.stuck(d->own.arg, d->failed.msg);
	comm_abort(d->comm, ERR_UNAVAILABLE);
}

/* Wait until *flag is set; the lock is held. The engine's abort, and then the host's way to comm_devices_close, get as long as another rank would,
 * but at most GRACE seconds, and the time that the abort waits for a thread in the engine. 0 if the flag is not set by then. */
static int wait_flag(struct comm_devices *d, const int *flag)
{
	struct timespec limit = from_now(2 * HELD + (d->timeout < GRACE ? d->timeout : GRACE), CLOCK_MONOTONIC);

	while (!*flag)
		if (pthread_cond_timedwait(&d->changed, &d->lock, &limit) == ETIMEDOUT)
			return *flag;
	return 1;
}

void device_wait_aborted(struct comm_devices *d)
{
	pthread_mutex_lock(&d->lock);
	if (!wait_flag(d, &d->aborted))
		give_up(d);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->aborter, NULL);
}

static void *watch(void *arg)
{
	struct comm_devices *d = arg;
	int failed = 0;

	pthread_mutex_lock(&d->lock);
	while (!d->ending && !failed) {
		struct timespec limit = from_now(LOOK_MS * 1e-3, CLOCK_MONOTONIC);
		int overdue;

		pthread_cond_timedwait(&d->changed, &d->lock, &limit);
		overdue = is_overdue(d);
		pthread_mutex_unlock(&d->lock);
		if (overdue)
			device_fail(d, NULL,
			            "a sum over the ranks' devices by %s has not ended for %g s (--comm-timeout): another rank is stopped or cannot "
			            "be reached",
			            d->engine->name, d->timeout);
		else
			look_at_engine(d);
		pthread_mutex_lock(&d->lock);
		failed = d->failed.code;
	}
	if (failed && !wait_flag(d, &d->ending))
		give_up(d);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

int device_watch_begin(struct comm_devices *d, struct err *e)
{
	int failed = thread_start(&d->thread, watch, d);

	if (failed)
		return err_set(e, ERR_NOMEM, "cannot start a thread that watches other ranks: %s", strerror(failed));
	d->watching = 1;
	return 0;
}

void device_watch_end(struct comm_devices *d)
{
	if (!d->watching)
		return;
	pthread_mutex_lock(&d->lock);
	d->ending = 1;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	d->watching = 0;
}
