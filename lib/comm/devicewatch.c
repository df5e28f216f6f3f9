/* Watches the work that sums over the ranks have submitted to this rank's device. The host may wait for the device anywhere, in a call of its
 * runtime that knows nothing of other ranks; if one of these is lost, only the engine's abort, from another thread, lets it go on. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/devicesumimpl.h"
#include "comm/rollcall.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"

enum { LOOK_MS = 20, HELD = 1 /* seconds */, GRACE = 30, WHO = 300 /* bytes of a text that names ranks */ };

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

/* Add those ranks for which `named` holds to the text: "rank 2", "ranks 2, 3". Returns their number. */
static int name_ranks(char who[WHO], const struct comm_answer *all, int n, int64_t call, int (*named)(const struct comm_answer *a, int64_t call))
{
	int count = 0, at = 0;

	for (int r = 0; r < n; r++)
		count += named(&all[r], call);
	for (int r = 0, k = 0; r < n && at < WHO - 20; r++)
		if (named(&all[r], call))
			at += snprintf(who + at, (size_t)(WHO - at), k++ ? ", %d" : count > 1 ? "ranks %d" : "rank %d", r);
	return count;
}

static int first_of(const struct comm_answer *all, int n, int64_t call, int (*named)(const struct comm_answer *a, int64_t call))
{
	for (int r = 0; r < n; r++)
		if (named(&all[r], call))
			return r;
	return -1;
}

static int is_silent(const struct comm_answer *a, int64_t call)
{
	(void)call;
	return !a->answered;
}

static int has_not_come(const struct comm_answer *a, int64_t call)
{
	return a->begun <= call;
}

static int is_past(const struct comm_answer *a, int64_t call)
{
	return a->ended > call;
}

/* Say which rank holds up the sums, as far as the ranks' answers tell. All ranks make the same sums in the same order, so the oldest sum that some
 * rank is still in is the one that the later sums wait for. */
static const char *blame(struct comm_devices *d, char who[WHO])
{
	static const struct {
		int (*named)(const struct comm_answer *a, int64_t call);
		const char *one, *more;
	} fault[] = {{is_silent, "does not answer", "do not answer"},
	             {has_not_come, "has not come to it", "have not come to it"},
	             {is_past, "is past it, and what its GPU sent has not arrived", "are past it, and what their GPUs sent has not arrived"}};
	enum { FAULTS = sizeof fault / sizeof *fault };
	int n = comm_size(d->comm), count = 0, told, reason;
	struct comm_answer *all = mem_zalloc((size_t)n, sizeof *all);
	int64_t call;
	char ranks[WHO];

	comm_answers(d->comm, all);
	call = all[comm_rank(d->comm)].ended;
	for (int r = 0; r < n; r++)
		call = all[r].answered && all[r].ended < call ? all[r].ended : call;
	snprintf(who, WHO, "all ranks answer and are in it");
	told = comm_told_culprit(d->comm, &reason);
	if (told >= 0 && reason >= 0 && reason < FAULTS) {
		snprintf(who, WHO, "rank %d %s", told, fault[reason].one);
		count = 1;
	}
	for (int i = 0; i < FAULTS && !count; i++)
		if ((count = name_ranks(ranks, all, n, call, fault[i].named))) {
			snprintf(who, WHO, "%.*s %s", WHO - 80, ranks, count > 1 ? fault[i].more : fault[i].one);
			comm_tell_culprit(d->comm, first_of(all, n, call, fault[i].named), i);
		}
	mem_free(all);
	return who;
}

/* After the engine has lost a connection, ask who is there, and wait a moment for the answers: "; rank 2 does not answer", or nothing. */
static const char *call_roll(struct comm_devices *d, char who[WHO])
{
	enum { TRIES = 100, PAUSE = 10000000 /* ns */ };
	int n = comm_size(d->comm), missing = 1;
	struct comm_answer *all = mem_zalloc((size_t)n, sizeof *all);
	char ranks[WHO];

	comm_ask(d->comm);
	for (int i = 0; i < TRIES && missing; i++) {
		const struct timespec pause = {.tv_nsec = PAUSE};

		nanosleep(&pause, NULL);
		comm_listen(d->comm);
		comm_answers(d->comm, all);
		missing = name_ranks(ranks, all, n, 0, is_silent);
	}
	*who = 0;
	if (missing)
		snprintf(who, WHO, "; %.*s %s", WHO - 80, ranks, missing > 1 ? "do not answer" : "does not answer");
	mem_free(all);
	return who;
}

int device_settle(struct comm_devices *d, int rc, const char *what, char *why, struct err *e)
{
	enum { AT_ONCE = 500 /* questions, because most calls take the library microseconds */ };
	double since = clock_seconds(), waited;
	int asked = 0;
	char who[WHO];

	for (int tries = 0; !rc; tries++) {
		const struct timespec pause = {.tv_nsec = 50000};

		if (comm_devices_error(d, e))
			return -1;
		pthread_mutex_lock(&d->calling);
		rc = d->engine->done(why);
		pthread_mutex_unlock(&d->calling);
		if (rc)
			break;
		waited = clock_seconds() - since;
		if (waited > d->timeout)
			return device_fail(d, e, "%s by %s was not begun within %g s (--comm-timeout): %s", what, d->engine->name, d->timeout,
			                   blame(d, who));
		if (!asked && waited > ROLL_CALL_AFTER * d->timeout) {
			asked = 1;
			comm_ask(d->comm);
		}
		if (tries >= AT_ONCE)
			nanosleep(&pause, NULL);
	}
	if (rc > 0)
		return comm_devices_error(d, e);
	return device_fail(d, e, "%s by %s failed: %s%s", what, d->engine->name, why, call_roll(d, who));
}

static double seconds_between(struct comm_devices *d, void *from, void *to)
{
	return d->failed.code ? 0 : d->own.event_seconds(d->own.arg, from, to);
}

/* Forget the oldest calls that have ended, and count their seconds. The lock is held. */
static void drop_ended(struct comm_devices *d)
{
	for (; d->count; d->first++, d->count--) {
		const struct device_call *call = &d->call[d->first % DEVICE_CALLS];

		if (!call->complete || !d->own.event_reached(d->own.arg, call->end))
			return;
		d->seconds += seconds_between(d, call->begin, call->end);
		d->since = 0;
		d->asked = 0;
		comm_set_progress(d->comm, d->first + d->count, d->first + 1);
	}
}

/* The same of waits. */
static void drop_waits(struct comm_devices *d)
{
	for (; d->waits; d->first_wait++, d->waits--) {
		const struct device_wait *w = &d->wait[d->first_wait % DEVICE_CALLS];

		if (!d->own.event_reached(d->own.arg, w->to))
			return;
		d->exposed += seconds_between(d, w->from, w->to);
	}
}

/* One of the sums of seconds, after `drop` has added what has ended. */
static double counted(struct comm_devices *d, void (*drop)(struct comm_devices *d), const double *seconds)
{
	double now;

	pthread_mutex_lock(&d->lock);
	drop(d);
	now = *seconds;
	pthread_mutex_unlock(&d->lock);
	return now;
}

double comm_devices_seconds(struct comm_devices *d)
{
	return d ? counted(d, drop_ended, &d->seconds) : 0;
}

double comm_devices_exposed_seconds(struct comm_devices *d)
{
	return d ? counted(d, drop_waits, &d->exposed) : 0;
}

/* Let the work of one queue that is submitted later wait for what the other has now. */
static void follow(struct comm_devices *d, enum comm_queue later, enum comm_queue earlier)
{
	d->own.event_record(d->own.arg, d->mark, earlier);
	d->own.event_follow(d->own.arg, d->mark, later);
}

/* If DEVICE_CALLS waits are under way already, the seconds of this one are not counted. */
void comm_devices_await(struct comm_devices *d)
{
	struct device_wait *w = NULL;

	pthread_mutex_lock(&d->lock);
	drop_waits(d);
	if (d->waits < DEVICE_CALLS)
		w = &d->wait[(d->first_wait + d->waits) % DEVICE_CALLS];
	pthread_mutex_unlock(&d->lock);
	if (w)
		d->own.event_record(d->own.arg, w->from, COMM_WORK);
	follow(d, COMM_WORK, COMM_SUMS);
	if (!w)
		return;
	d->own.event_record(d->own.arg, w->to, COMM_WORK);
	pthread_mutex_lock(&d->lock);
	d->waits++;
	pthread_mutex_unlock(&d->lock);
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
	follow(d, COMM_SUMS, COMM_WORK);
	d->own.event_record(d->own.arg, d->open->begin, COMM_SUMS);
	pthread_mutex_lock(&d->lock);
	d->open->complete = 0;
	d->count++;
	comm_set_progress(d->comm, d->first + d->count, d->first);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

void device_call_end(struct comm_devices *d)
{
	d->own.event_record(d->own.arg, d->open->end, COMM_SUMS);
	pthread_mutex_lock(&d->lock);
	d->open->complete = 1;
	pthread_mutex_unlock(&d->lock);
}

/* Look at the oldest call. The time limit counts from the moment when this rank's device has come to it. The lock is held. Returns whether the other
 * ranks should be asked now, or whether it has run out. */
enum lateness { IN_TIME, ASK_NOW, OVERDUE };
static enum lateness lateness_of(struct comm_devices *d)
{
	double waited;

	drop_ended(d);
	if (!d->count)
		return IN_TIME;
	if (!(d->since > 0) && d->own.event_reached(d->own.arg, d->call[d->first % DEVICE_CALLS].begin))
		d->since = clock_seconds();
	waited = d->since > 0 ? clock_seconds() - d->since : 0;
	if (waited > d->timeout)
		return OVERDUE;
	if (d->asked || waited < ROLL_CALL_AFTER * d->timeout)
		return IN_TIME;
	d->asked = 1;
	return ASK_NOW;
}

/* What the engine knows of other ranks; the submitting thread asks too, so it need not be now. */
static void look_at_engine(struct comm_devices *d)
{
	char why[COMM_DEVICE_WHY] = "", who[WHO];
	int rc;

	if (pthread_mutex_trylock(&d->calling))
		return;
	rc = d->engine->done(why);
	pthread_mutex_unlock(&d->calling);
	if (rc < 0)
		device_fail(d, NULL, "%s has lost another rank: %s%s", d->engine->name, why, call_roll(d, who));
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
		enum lateness late;
		char who[WHO];

		pthread_cond_timedwait(&d->changed, &d->lock, &limit);
		late = lateness_of(d);
		pthread_mutex_unlock(&d->lock);
		if (late == ASK_NOW)
			comm_ask(d->comm);
		comm_listen(d->comm);
		if (late == OVERDUE)
			device_fail(d, NULL, "a sum over the ranks' devices by %s has not ended for %g s (--comm-timeout): %s", d->engine->name,
			            d->timeout, blame(d, who));
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
