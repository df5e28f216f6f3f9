/* Draws batches of a dataset ahead of training: order, flips, crops, latents from their moments. */
#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "file/safetensors.h"

struct slot {
	float *x;      /* (batch, C, H, W) */
	float *text;   /* (batch, text_tokens, text_width) */
	float *pooled; /* (batch, pooled_width) */
	int32_t *label, *cluster, *rows;
	int64_t *index;
	int64_t number;
	struct err err;
};

/* A ring of ahead + 1 slots: the caller reads one while the thread fills the others. Slot of batch s: s % slots. */
struct loader {
	struct dataset *d;
	struct loader_options o;
	int64_t numel, text_numel, pooled_numel;
	float *std;       /* (numel), of the sample being read; NULL where there are none */
	uint16_t *text;   /* (text_numel), likewise */
	uint16_t *pooled; /* (pooled_numel), likewise */
	int slots;
	struct slot *slot;
	pthread_t thread;
	int started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t filled; /* batches below this number are ready; under lock */
	int64_t taken;  /* the caller holds batch taken - 1 and has released those below; under lock */
	int stop;       /* under lock */
};

void latent_draw(float *x, const float *std, int64_t n, uint64_t seed, uint64_t step, uint64_t index)
{
	enum { SOME = 1024 };
	float z[SOME];

	for (int64_t at = 0; at < n; at += SOME) {
		int64_t m = n - at < SOME ? n - at : SOME;

		rng_normal_from(z, (size_t)m, seed, RNG_LATENT, step, index, (uint32_t)(at / 4));
		for (int64_t i = 0; i < m; i++)
			x[at + i] += std[at + i] * z[i];
	}
}

void text_expand(float *out, const uint16_t *text, int64_t n)
{
	const struct st_tensor t = {.type = ST_F16, .rank = 1, .shape = {n}, .data = text};

	st_to_f32(out, &t);
}

static uint64_t position(const struct loader *l, int64_t number, int64_t j)
{
	return (uint64_t)number * (uint64_t)l->o.batch + (uint64_t)j;
}

int64_t loader_sample(const struct loader *l, int64_t number, int64_t j)
{
	uint64_t n = (uint64_t)dataset_info(l->d)->count, p = position(l, number, j);

	return (int64_t)rng_permute(p % n, n, l->o.seed, RNG_SHUFFLE, p / n);
}

static int fill_one(struct loader *l, struct slot *s, int64_t j)
{
	const struct loader_options *o = &l->o;
	uint64_t p = position(l, s->number, j);
	int dropped = l->text && o->text_drop > 0 && rng_uniform(o->seed, RNG_LABEL, (uint64_t)s->number, (uint64_t)j, 0) < o->text_drop;
	int64_t at = j - o->from;
	struct dataset_item it = {.x = s->x + at * l->numel, .std = l->std, .text = dropped ? NULL : l->text, .pooled = dropped ? NULL : l->pooled};

	it.mirrored = o->flip && rng_uniform(o->seed, RNG_FLIP, 0, p, 0) < .5;
	s->index[at] = loader_sample(l, s->number, j);
	if (dataset_item(l->d, s->index[at], &it, &s->err))
		return -1;
	s->label[at] = it.label;
	s->cluster[at] = it.cluster;
	if (l->std)
		latent_draw(it.x, l->std, l->numel, o->seed, 0, p);
	if (l->text) {
		text_expand(s->text + at * l->text_numel, dropped ? o->null_text : l->text, l->text_numel);
		s->rows[at] = dropped ? o->null_rows : it.rows;
	}
	if (l->pooled)
		text_expand(s->pooled + at * l->pooled_numel, dropped ? o->null_pooled : l->pooled, l->pooled_numel);
	return 0;
}

static void fill(struct loader *l, struct slot *s, int64_t number)
{
	s->number = number;
	s->err = (struct err){0};
	for (int64_t j = l->o.from; j < l->o.from + l->o.count; j++)
		if (fill_one(l, s, j))
			return;
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
	size_t n = (size_t)l->o.count;

	s->x = mem_try(n, (size_t)l->numel * sizeof *s->x, "batch", e);
	s->label = mem_try(n, sizeof *s->label, "batch", e);
	s->cluster = mem_try(n, sizeof *s->cluster, "batch", e);
	s->index = mem_try(n, sizeof *s->index, "batch", e);
	if (!s->x || !s->label || !s->cluster || !s->index)
		return -1;
	if (!l->text)
		return 0;
	s->text = mem_try(n, (size_t)l->text_numel * sizeof *s->text, "texts of a batch", e);
	s->rows = mem_try(n, sizeof *s->rows, "batch", e);
	if (l->pooled && !(s->pooled = mem_try(n, (size_t)l->pooled_numel * sizeof *s->pooled, "texts of a batch", e)))
		return -1;
	return s->text && s->rows ? 0 : -1;
}

/* Buffers for one sample. */
static int places_init(struct loader *l, const struct dataset_info *info, struct err *e)
{
	l->numel = info->numel;
	l->text_numel = info->text_tokens * info->text_width;
	l->pooled_numel = info->pooled_width;
	if (info->deviations && !(l->std = mem_try((size_t)l->numel, sizeof *l->std, "a sample", e)))
		return -1;
	if (l->text_numel && !(l->text = mem_try((size_t)l->text_numel, sizeof *l->text, "a text", e)))
		return -1;
	if (l->pooled_numel && !(l->pooled = mem_try((size_t)l->pooled_numel, sizeof *l->pooled, "a text", e)))
		return -1;
	return 0;
}

static int slots_of(int ahead)
{
	return ahead > 0 ? ahead + 1 : 1;
}

uint64_t loader_bytes(const struct dataset *d, int64_t batch, int ahead)
{
	const struct dataset_info *f = dataset_info(d);

	return (uint64_t)slots_of(ahead) * (uint64_t)batch * sizeof(float) * (uint64_t)(f->numel + f->text_tokens * f->text_width + f->pooled_width);
}

struct loader *loader_new(struct dataset *d, const struct loader_options *o, struct err *e)
{
	struct loader *l = mem_zalloc(1, sizeof *l);
	int rc = 0;

	l->d = d;
	l->o = *o;
	l->o.count = o->count ? o->count : o->batch;
	l->slots = slots_of(o->ahead);
	l->filled = l->taken = o->first;
	l->slot = mem_zalloc((size_t)l->slots, sizeof *l->slot);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	if (o->batch < 1 || o->first < 0 || o->from < 0 || o->from + l->o.count > o->batch)
		rc = err_set(e, ERR_USAGE, "batch %lld from number %lld", (long long)o->batch, (long long)o->first);
	if (!rc)
		rc = places_init(l, dataset_info(d), e);
	for (int i = 0; i < l->slots && !rc; i++)
		rc = slot_init(&l->slot[i], l, e);
	if (!rc && o->ahead > 0) {
		int failed = pthread_create(&l->thread, NULL, loader_main, l);

		if (failed)
			rc = err_set(e, ERR_NOMEM, "cannot start the loader's thread: %s", strerror(failed));
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
		mem_free(l->slot[i].text);
		mem_free(l->slot[i].pooled);
		mem_free(l->slot[i].rows);
		mem_free(l->slot[i].label);
		mem_free(l->slot[i].cluster);
		mem_free(l->slot[i].index);
	}
	mem_free(l->slot);
	mem_free(l->std);
	mem_free(l->text);
	mem_free(l->pooled);
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
	*b = (struct batch){.number = number,
	                    .n = l->o.count,
	                    .x = s->x,
	                    .text = s->text,
	                    .pooled = s->pooled,
	                    .label = s->label,
	                    .cluster = s->cluster,
	                    .rows = s->rows,
	                    .index = s->index};
	return 0;
}
