/* Watches whether a training gets on. */
#include "train/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/thread.h"

/* Say where the main thread is; the lock is held. */
static void describe(const struct watchdog *w, double quiet, char *text, size_t size)
{
	int peer = comm_waits_for(w->comm);
	char rank[64] = "";

	if (peer >= 0)
		snprintf(rank, sizeof rank, ", waiting for rank %d", peer);
	snprintf(text, size, "no step has ended for %.0f s: after step %" PRId64 ", in %s for %.0f s%s", quiet, w->step, w->phase,
	         clock_seconds() - w->since, rank);
}

static void wait_for(struct watchdog *w, double seconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	seconds += (double)t.tv_nsec * 1e-9;
	t.tv_sec += (time_t)seconds;
	t.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
	pthread_cond_timedwait(&w->changed, &w->lock, &t);
}

static void *watch(void *arg)
{
	struct watchdog *w = arg;
	double pause = fmin(w->limit / 10, 1), last = clock_seconds(), quiet = 0;
	uint64_t turns = 0;
	char text[400] = "";

	pthread_mutex_lock(&w->lock);
	while (!w->ending && quiet < w->limit) {
		double now;

		wait_for(w, pause);
		now = clock_seconds();
		/* A longer pause means that the whole process was stopped, or the machine slept. */
		quiet = turns == w->turns ? quiet + fmin(now - last, 2 * pause) : 0;
		turns = w->turns;
		last = now;
	}
	if (!w->ending)
		describe(w, quiet, text, sizeof text);
	pthread_mutex_unlock(&w->lock);
	if (*text)
		w->hung(w->arg, text);
	return NULL;
}

int watchdog_begin(struct watchdog *w, double limit, const struct comm *comm, void (*hung)(void *arg, const char *where), void *arg, struct err *e)
{
	int failed;

	if (!(limit > 0))
		return 0;
	*w = (struct watchdog){.limit = limit, .hung = hung, .arg = arg, .comm = comm, .phase = "preparing", .since = clock_seconds()};
	pthread_mutex_init(&w->lock, NULL);
	condition_init(&w->changed);
	failed = thread_start(&w->thread, watch, w);
	if (failed)
		return err_set(e, ERR_NOMEM, "--hang-timeout: cannot start a thread: %s", strerror(failed));
	w->running = 1;
	return 0;
}

void watchdog_end(struct watchdog *w)
{
	if (!w->running)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = 1;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	w->running = 0;
}

void watchdog_phase(struct watchdog *w, const char *phase)
{
	if (!w->running)
		return;
	pthread_mutex_lock(&w->lock);
	w->phase = phase;
	w->since = clock_seconds();
	pthread_mutex_unlock(&w->lock);
}

void watchdog_turn(struct watchdog *w, int64_t step)
{
	if (!w->running)
		return;
	pthread_mutex_lock(&w->lock);
	w->step = step;
	w->turns++;
	pthread_mutex_unlock(&w->lock);
}
