/* Writes a checkpoint in the background while training goes on. */
#include "train/checkpointwriter.h"

#include <string.h>

#include "core/clock.h"
#include "core/mem.h"

/* The arenas of a state, of which `best` may be NULL. */
static int arenas_of(struct train_state *s, float **arena[CHECKPOINT_ARENAS], size_t count[CHECKPOINT_ARENAS])
{
	size_t total = (size_t)s->params->total, trainable = (size_t)s->params->trainable;
	float **const all[] = {&s->values, &s->ema, &s->m, &s->v, &s->best};
	const size_t counts[] = {total, total, trainable, trainable, total};

	memcpy(arena, all, sizeof all);
	memcpy(count, counts, sizeof counts);
	return s->best ? CHECKPOINT_ARENAS : CHECKPOINT_ARENAS - 1;
}

static size_t bytes_of(const size_t count[CHECKPOINT_ARENAS], int n)
{
	size_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += count[i] * sizeof(float);
	return bytes;
}

/* Copies with an `owner` stay for the next checkpoint. */
static void copies_free(struct checkpoint_writer *w)
{
	for (int i = 0; !w->owner && i < CHECKPOINT_ARENAS; i++) {
		mem_free(w->copy[i]);
		w->copy[i] = NULL;
	}
}

/* 1 if the copies would take more than `room` bytes or cannot be allocated. */
static int copies_alloc(struct checkpoint_writer *w, const size_t count[CHECKPOINT_ARENAS], int n)
{
	if (bytes_of(count, n) > w->room)
		return 1;
	for (int i = 0; i < n; i++)
		if (!(w->copy[i] = mem_try(count[i], sizeof(float), "a copy of the state", NULL))) {
			copies_free(w);
			return 1;
		}
	return 0;
}

/* Let w->state point to copies of the whole arenas in host memory. 1 if there is no memory for them, -1 with w->why if they cannot be gathered; then
 * it is unchanged. */
static int copy_arenas(struct checkpoint_writer *w)
{
	struct device *d = w->state.device;
	float **arena[CHECKPOINT_ARENAS];
	size_t count[CHECKPOINT_ARENAS];
	int n = arenas_of(&w->state, arena, count);

	if (!w->owner && copies_alloc(w, count, n))
		return 1;
	for (int i = 0; i < n; i++) {
		float *x;
		int on_host;

		if (state_whole(&w->state, i, &x, &w->why)) {
			copies_free(w);
			return -1;
		}
		on_host = d->host || (x == *arena[i] && w->state.offload && (arena[i] == &w->state.m || arena[i] == &w->state.v));
		if (on_host)
			memcpy(w->copy[i], x, count[i] * sizeof(float));
		else
			device_get(d, w->copy[i], x, count[i] * sizeof(float));
	}
	for (int i = 0; i < n; i++)
		*arena[i] = w->copy[i];
	w->state.shares = NULL;
	return 0;
}

static void free_arenas(void *arg)
{
	struct checkpoint_writer *w = arg;

	pthread_mutex_lock(&w->lock);
	w->arenas_free = 1;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void write_checkpoint(void *arg)
{
	struct checkpoint_writer *w = arg;

	if (!w->arenas_free && !copy_arenas(w))
		free_arenas(w);
	w->state.savers = pool_threads(w->state.device->pool);
	w->state.device = NULL;
	w->rc = checkpoint_save(w->dir, &w->state, w->stamp, free_arenas, w, &w->why);
	copies_free(w);
	free_arenas(w);
	w->seconds = clock_seconds() - w->began;
	pthread_mutex_lock(&w->lock);
	w->finished = 1;
	pthread_mutex_unlock(&w->lock);
}

void checkpoint_writer_prepare(struct checkpoint_writer *w, const struct train_state *s, uint64_t room)
{
	struct train_state state = *s;
	float **arena[CHECKPOINT_ARENAS];
	size_t count[CHECKPOINT_ARENAS];
	int n = arenas_of(&state, arena, count);

	if (s->device->host || bytes_of(count, n) > room)
		return;
	w->owner = s->device;
	for (int i = 0; i < n; i++)
		if (!(w->copy[i] = s->device->alloc_host(s->device, count[i] * sizeof(float), "a copy of the state", NULL))) {
			checkpoint_writer_release(w);
			return;
		}
}

void checkpoint_writer_release(struct checkpoint_writer *w)
{
	for (int i = 0; w->owner && i < CHECKPOINT_ARENAS; i++)
		w->owner->release_host(w->owner, w->copy[i]);
	*w = (struct checkpoint_writer){0};
}

/* A writer that has nothing to do, but keeps what it has prepared. */
static struct checkpoint_writer idle(const struct checkpoint_writer *w)
{
	struct checkpoint_writer next = {.owner = w->owner};

	if (w->owner)
		memcpy(next.copy, w->copy, sizeof next.copy);
	return next;
}

void checkpoint_writer_start(struct checkpoint_writer *w, const char *dir, const struct train_state *s, const char *stamp, uint64_t room)
{
	int copied;

	*w = idle(w);
	w->state = *s;
	w->dir = dir;
	w->stamp = stamp;
	w->room = room;
	w->active = 1;
	w->began = clock_seconds();
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	if (s->offload)
		s->device->sync(s->device, NULL);
	if (s->device->host && !s->shares) {
		ahead_start(&w->ahead, write_checkpoint, w);
	} else if (!(copied = copy_arenas(w))) {
		w->arenas_free = 1;
		if (!(w->rc = s->device->error(s->device, &w->why)))
			ahead_start(&w->ahead, write_checkpoint, w);
		else
			w->finished = 1;
	} else {
		w->rc = copied > 0 ? checkpoint_save(dir, s, stamp, NULL, NULL, &w->why) : -1;
		w->seconds = clock_seconds() - w->began;
		w->arenas_free = w->finished = 1;
	}
}

void checkpoint_writer_wait_arenas(struct checkpoint_writer *w)
{
	if (!w->active)
		return;
	pthread_mutex_lock(&w->lock);
	while (!w->arenas_free)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

int checkpoint_writer_has_finished(struct checkpoint_writer *w)
{
	int finished;

	if (!w->active)
		return 0;
	pthread_mutex_lock(&w->lock);
	finished = w->finished;
	pthread_mutex_unlock(&w->lock);
	return finished;
}

int checkpoint_writer_end(struct checkpoint_writer *w, int64_t *step, double *seconds, struct err *e)
{
	int rc;

	if (!w->active)
		return 1;
	ahead_wait(&w->ahead);
	copies_free(w);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	*step = w->state.step;
	*seconds = w->seconds;
	rc = w->rc;
	if (rc && e)
		*e = w->why;
	*w = idle(w);
	return rc;
}
