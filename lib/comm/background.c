/* A queue of calls and the thread that makes them. */
#include "comm/background.h"

#include <pthread.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"

struct call {
	int (*fn)(struct comm *c, void *arg, struct err *e);
	void *arg;
};

struct comm_background {
	struct comm *comm;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call *call; /* calls put since the last wait; the first `made` of them have been made */
	int put, made, cap;
	int threaded, ending, rc;
	struct err why;
	double seconds; /* comm_seconds at the last wait */
};

static void make_call(struct comm_background *b, struct call call)
{
	if (!b->rc)
		b->rc = call.fn(b->comm, call.arg, &b->why);
}

static void *make_calls(void *arg)
{
	struct comm_background *b = arg;

	pthread_mutex_lock(&b->lock);
	for (;;) {
		struct call call;

		while (b->made == b->put && !b->ending)
			pthread_cond_wait(&b->changed, &b->lock);
		if (b->made == b->put)
			break;
		call = b->call[b->made];
		pthread_mutex_unlock(&b->lock);
		make_call(b, call);
		pthread_mutex_lock(&b->lock);
		b->made++;
		pthread_cond_broadcast(&b->changed);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

struct comm_background *comm_background_new(struct comm *c)
{
	struct comm_background *b = mem_zalloc(1, sizeof *b);

	b->comm = c;
	b->seconds = comm_seconds(c);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	b->threaded = !thread_start(&b->thread, make_calls, b);
	return b;
}

void comm_background_free(struct comm_background *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->ending = 1;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	if (b->threaded)
		pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	mem_free(b->call);
	mem_free(b);
}

void comm_background_put(struct comm_background *b, int (*fn)(struct comm *c, void *arg, struct err *e), void *arg)
{
	struct call call = {fn, arg};

	if (!b->threaded) {
		make_call(b, call);
		b->seconds = comm_seconds(b->comm); /* the caller waited: nothing was hidden */
		return;
	}
	pthread_mutex_lock(&b->lock);
	if (!b->put)
		b->seconds = comm_seconds(b->comm);
	if (b->put == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 16;
		b->call = mem_resize(b->call, (size_t)b->cap, sizeof *b->call);
	}
	b->call[b->put++] = call;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

int comm_background_wait(struct comm_background *b, struct err *e)
{
	double since = clock_seconds(), hidden;
	int any;

	pthread_mutex_lock(&b->lock);
	any = b->put > 0;
	while (b->made < b->put)
		pthread_cond_wait(&b->changed, &b->lock);
	b->made = b->put = 0;
	pthread_mutex_unlock(&b->lock);
	hidden = comm_seconds(b->comm) - b->seconds - (clock_seconds() - since);
	if (any && hidden > 0)
		comm_count_hidden(b->comm, hidden);
	if (b->rc && e)
		*e = b->why;
	return b->rc;
}
