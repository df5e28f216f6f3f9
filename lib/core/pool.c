/* The thread pool: workers that take the tasks of one loop at a time. */
#include "core/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"

/* Between two products a waiting worker spins for some tens of microseconds (a sleep and a wake-up cost about as much as a
 * small product), then sleeps, so that an idle pool costs nothing. */
enum { SPINS = 2000 };

/* Tasks [next, end), taken from the front. */
struct share {
	_Alignas(64) _Atomic int64_t next;
	int64_t end;
};

struct pool {
	int threads;
	pthread_t *tid;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	_Atomic uint64_t round; /* counts jobs; a change is the start signal */
	struct share *share;    /* [threads], of which the first `parts` hold the tasks */
	int parts;
	_Atomic int active; /* workers that have not finished this round */
	int sleepers;       /* under lock */
	int stop;
	void (*fn)(void *, int64_t, int);
	void *arg;
	const struct progress *progress;
};

struct worker {
	struct pool *p;
	int id;
};

static _Thread_local int inside = -1; /* worker id while running tasks */
static _Thread_local const struct pool *inside_pool;

static void drain(struct pool *p, int id)
{
	inside = id;
	inside_pool = p;
	for (int i = 0; i < p->parts; i++) {
		struct share *s = &p->share[(id + i) % p->parts];

		/* Reading first leaves the cache line of a finished share where it is. */
		while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
			int64_t t = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);

			if (t < s->end)
				p->fn(p->arg, t, id);
		}
	}
	inside = -1;
	inside_pool = NULL;
}

#if defined(__x86_64__)
#define relax() __builtin_ia32_pause()
#else
#define relax() ((void)0)
#endif

static void *worker_main(void *arg)
{
	struct worker w = *(struct worker *)arg;
	struct pool *p = w.p;
	uint64_t seen = 0;

	mem_free(arg);
	for (;;) {
		int spin = 0;

		while (atomic_load_explicit(&p->round, memory_order_acquire) == seen && spin++ < SPINS)
			relax();
		if (atomic_load_explicit(&p->round, memory_order_acquire) == seen) {
			pthread_mutex_lock(&p->lock);
			p->sleepers++;
			while (atomic_load_explicit(&p->round, memory_order_acquire) == seen)
				pthread_cond_wait(&p->wake, &p->lock);
			p->sleepers--;
			pthread_mutex_unlock(&p->lock);
		}
		seen++;
		if (p->stop)
			return NULL;
		drain(p, w.id);
		if (atomic_fetch_sub_explicit(&p->active, 1, memory_order_acq_rel) == 1) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
		}
	}
}

static void start_round(struct pool *p)
{
	atomic_store_explicit(&p->active, p->threads - 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&p->round, 1, memory_order_release);
	pthread_mutex_lock(&p->lock);
	if (p->sleepers)
		pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

struct pool *pool_new(int threads, struct err *e)
{
	struct pool *p = mem_zalloc(1, sizeof *p);

	p->threads = 1;
	if (threads <= 0)
		threads = pool_default_threads();
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	pthread_cond_init(&p->done, NULL);
	p->tid = mem_zalloc((size_t)threads, sizeof *p->tid);
	p->share = mem_try((size_t)threads, sizeof *p->share, "threads", e);
	if (!p->share) {
		pool_free(p);
		return NULL;
	}
	while (p->threads < threads) {
		struct worker *w = mem_alloc(sizeof *w);
		int rc;

		w->p = p;
		w->id = p->threads;
		rc = pthread_create(&p->tid[p->threads], NULL, worker_main, w);
		if (rc) {
			mem_free(w);
			err_set(e, ERR_NOMEM, "cannot start thread %d of %d: %s", p->threads + 1, threads, strerror(rc));
			pool_free(p);
			return NULL;
		}
		p->threads++;
	}
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	p->stop = 1;
	if (p->threads > 1)
		start_round(p);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->tid[i], NULL);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	mem_free(p->tid);
	mem_free(p->share);
	mem_free(p);
}

int pool_threads(const struct pool *p)
{
	return p ? p->threads : 1;
}

/* Run the tasks in `parts` shares, at most as many as there are threads. */
static void run_shares(struct pool *p, int parts, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg)
{
	if (tasks <= 0)
		return;
	if (!p || p->threads == 1 || tasks == 1 || inside >= 0) {
		int id = p && inside_pool == p ? inside : 0; /* another pool's memory may not have room for so many workers */

		for (int64_t t = 0; t < tasks; t++)
			fn(arg, t, id);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	p->parts = parts;
	for (int i = 0; i < parts; i++) {
		atomic_store_explicit(&p->share[i].next, tasks / parts * i + tasks % parts * i / parts, memory_order_relaxed);
		p->share[i].end = tasks / parts * (i + 1) + tasks % parts * (i + 1) / parts;
	}
	start_round(p);
	drain(p, 0);
	for (int spin = 0; atomic_load_explicit(&p->active, memory_order_acquire) && spin < SPINS; spin++)
		relax();
	if (atomic_load_explicit(&p->active, memory_order_acquire)) {
		pthread_mutex_lock(&p->lock);
		while (atomic_load_explicit(&p->active, memory_order_acquire))
			pthread_cond_wait(&p->done, &p->lock);
		pthread_mutex_unlock(&p->lock);
	}
}

void pool_run(struct pool *p, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg)
{
	run_shares(p, 1, tasks, fn, arg);
}

void pool_spread(struct pool *p, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg)
{
	run_shares(p, tasks < pool_threads(p) ? (int)tasks : pool_threads(p), tasks, fn, arg);
}

void pool_set_progress(struct pool *p, const struct progress *progress)
{
	if (p)
		p->progress = progress;
}

int pool_report(const struct pool *p, const struct pool_pass *pass, struct err *e)
{
	return p && progress_tell(p->progress, pass->what, pass->done, pass->total) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

struct counted {
	const struct pool *pool;
	struct pool_pass pass; /* its state before the loop */
	int64_t units;
	void (*fn)(void *, int64_t, int);
	void *arg;
	_Atomic int64_t tasks; /* finished */
	_Atomic int stop;
};

static int64_t units_done(const struct counted *t)
{
	int64_t done = t->pass.done + t->tasks * t->units;

	return done < t->pass.total ? done : t->pass.total;
}

/* Worker 0 is the calling thread, which alone may report. */
static void counted_task(void *arg, int64_t task, int worker)
{
	struct counted *t = arg;

	if (t->stop)
		return;
	t->fn(t->arg, task, worker);
	t->tasks++;
	if (worker == 0 && pool_report(t->pool, &(struct pool_pass){t->pass.what, units_done(t), t->pass.total}, NULL))
		t->stop = 1;
}

int pool_run_pass(struct pool *p, struct pool_pass *pass, int64_t units, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker), void *arg,
                  struct err *e)
{
	struct counted t = {.pool = p, .units = units, .fn = fn, .arg = arg};

	if (!p || !p->progress || !pass) {
		pool_run(p, tasks, fn, arg);
		return 0;
	}
	t.pass = *pass;
	pool_run(p, tasks, counted_task, &t);
	pass->done = units_done(&t);
	return t.stop ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

/* cpu.max of cgroup v2: "max PERIOD" or "QUOTA PERIOD". */
static int cgroup_cpus(void)
{
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
	long quota, period;
	int n = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
		n = (int)((quota + period - 1) / period);
	fclose(f);
	return n;
}

int pool_default_threads(void)
{
	cpu_set_t set;
	int n = 1, quota;

	if (!sched_getaffinity(0, sizeof set, &set))
		n = CPU_COUNT(&set);
	quota = cgroup_cpus();
	if (quota && quota < n)
		n = quota;
	return n > 0 ? n : 1;
}
