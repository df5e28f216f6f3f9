#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/dataset.h"

struct slot {
	float *x; /* (batch, C, H, W) */
	int32_t *label, *cluster;
	int64_t *index;
	int64_t number;
	struct err err;
};

/* A ring of ahead + 1 slots: the caller reads one while the thread fills the others. Slot of batch s: s % slots. */
struct loader {
	struct dataset *d;
	struct loader_options o;
	int64_t numel;
	int slots;
	struct slot *slot;
	pthread_t thread;
	int started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t filled; /* batches below this number are ready; under lock */
	int64_t taken;  /* the caller holds taken - 1 and is done with those below; under lock */
	int stop;       /* under lock */
};

static void mirror(float *x, int64_t rows, int64_t width)
{
	for (int64_t r = 0; r < rows; r++, x += width)
		for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
			float t = x[a];

			x[a] = x[b];
			x[b] = t;
		}
}

static void fill(struct loader *l, struct slot *s, int64_t number)
{
	const struct dataset_info *info = dataset_info(l->d);
	uint64_t n = (uint64_t)info->count;

	s->number = number;
	s->err = (struct err){0};
	for (int64_t j = 0; j < l->o.batch; j++) {
		uint64_t p = (uint64_t)number * (uint64_t)l->o.batch + (uint64_t)j;
		float *x = s->x + j * l->numel;

		s->index[j] = (int64_t)rng_permute(p % n, n, l->o.seed, RNG_SHUFFLE, p / n);
		if (dataset_read(l->d, s->index[j], x, &s->label[j], &s->cluster[j], &s->err))
			return;
		if (l->o.flip && rng_uniform(l->o.seed, RNG_FLIP, 0, p, 0) < .5)
			mirror(x, (int64_t)info->channels * info->height, info->width);
	}
}

static void *loader_main(void *arg)
{
	struct loader *l = arg;

	pthread_mutex_lock(&l->lock);
	for (;;) {
		int64_t number = l->filled;
		struct slot *s = &l->slot[number % l->slots];

		/* The slot was last used by batch number - slots: free once the caller has gone past it. */
		while (!l->stop && number - l->slots >= l->taken - 1)
			pthread_cond_wait(&l->changed, &l->lock);
		if (l->stop)
			break;
		pthread_mutex_unlock(&l->lock);
		fill(l, s, number);
		pthread_mutex_lock(&l->lock);
		l->filled = number + 1;
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int slot_init(struct slot *s, const struct loader *l, struct err *e)
{
	size_t n = (size_t)l->o.batch;

	s->x = mem_try(n, (size_t)l->numel * sizeof *s->x, "batch", e);
	s->label = mem_try(n, sizeof *s->label, "batch", e);
	s->cluster = mem_try(n, sizeof *s->cluster, "batch", e);
	s->index = mem_try(n, sizeof *s->index, "batch", e);
	return s->x && s->label && s->cluster && s->index ? 0 : -1;
}

struct loader *loader_new(struct dataset *d, const struct loader_options *o, struct err *e)
{
	const struct dataset_info *info = dataset_info(d);
	struct loader *l = mem_zalloc(1, sizeof *l);
	int rc = 0;

	l->d = d;
	l->o = *o;
	l->numel = (int64_t)info->channels * info->height * info->width;
	l->slots = o->ahead > 0 ? o->ahead + 1 : 1;
	l->filled = l->taken = o->first;
	l->slot = mem_zalloc((size_t)l->slots, sizeof *l->slot);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	if (o->batch < 1 || o->first < 0)
		rc = err_set(e, ERR_USAGE, "batch %lld from number %lld", (long long)o->batch, (long long)o->first);
	for (int i = 0; i < l->slots && !rc; i++)
		rc = slot_init(&l->slot[i], l, e);
	if (!rc && o->ahead > 0) {
		errno = pthread_create(&l->thread, NULL, loader_main, l);
		if (errno)
			rc = err_errno(e, "cannot start the loader's thread");
		else
			l->started = 1;
	}
	if (rc) {
		loader_free(l);
		return NULL;
	}
	return l;
}

void loader_free(struct loader *l)
{
	if (!l)
		return;
	if (l->started) {
		pthread_mutex_lock(&l->lock);
		l->stop = 1;
		pthread_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
	}
	for (int i = 0; i < l->slots; i++) {
		mem_free(l->slot[i].x);
		mem_free(l->slot[i].label);
		mem_free(l->slot[i].cluster);
		mem_free(l->slot[i].index);
	}
	mem_free(l->slot);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	mem_free(l);
}

int loader_next(struct loader *l, struct batch *b, struct err *e)
{
	int64_t number = l->taken;
	struct slot *s = &l->slot[number % l->slots];

	if (l->started) {
		pthread_mutex_lock(&l->lock);
		l->taken = number + 1;
		pthread_cond_broadcast(&l->changed);
		while (l->filled <= number)
			pthread_cond_wait(&l->changed, &l->lock);
		pthread_mutex_unlock(&l->lock);
	} else {
		l->taken = number + 1;
		fill(l, s, number);
	}
	if (s->err.code)
		return err_set(e, s->err.code, "%s", s->err.msg);
	*b = (struct batch){number, l->o.batch, s->x, s->label, s->cluster, s->index};
	return 0;
}
