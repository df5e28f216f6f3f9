/* Takes tensors from a file one by one, and tells which were left over. */
#include "net/weightpick.h"

#include <string.h>

#include "core/mem.h"

void weights_init(struct weights *w, const struct safetensors *s, const char *where)
{
	*w = (struct weights){.s = s, .where = where, .taken = mem_zalloc((size_t)st_tensors(s) + 1, 1)};
}

void weights_release(struct weights *w)
{
	mem_free(w->taken);
	w->taken = NULL;
}

int weights_has(const struct weights *w, const char *name)
{
	return st_find(w->s, name) != NULL;
}

/* Whether the tensor has these sizes and beyond them only sizes of 1. */
static int has_shape(const struct st_tensor *t, int rank, const int64_t *shape)
{
	for (int d = 0; d < t->rank || d < rank; d++)
		if ((d < t->rank ? t->shape[d] : 0) != (d < rank ? shape[d] : 1))
			return 0;
	return 1;
}

/* [O, C, taps] to [O, taps, C]. */
static void turn(float *out, const float *in, int64_t o, int64_t channels, int64_t taps)
{
	for (int64_t i = 0; i < o; i++)
		for (int64_t c = 0; c < channels; c++)
			for (int64_t k = 0; k < taps; k++)
				out[(i * taps + k) * channels + c] = in[(i * channels + c) * taps + k];
}

static int mark(struct weights *w, const struct st_tensor *t)
{
	for (int i = 0; i < st_tensors(w->s); i++)
		if (st_get(w->s, i) == t)
			w->taken[i] = 1;
	return 0;
}

int weights_take(struct weights *w, const char *name, const struct param *p, float *out, struct err *e)
{
	const struct st_tensor *t = st_need(w->s, name, -1, NULL, e);
	int64_t shape[4];
	float *flat;

	if (!t)
		return -1;
	memcpy(shape, p->shape, sizeof shape);
	if (p->rank == 4) {
		shape[1] = p->shape[3];
		shape[2] = p->shape[1];
		shape[3] = p->shape[2];
	}
	if (!has_shape(t, p->rank, shape))
		return err_set(e, ERR_DATA, "%s: %s is not of the shape that this network's %s has", w->where, name, p->name);
	mark(w, t);
	if (p->rank < 4 || p->shape[1] * p->shape[2] == 1) {
		st_to_f32(out, t);
		return 0;
	}
	if (!(flat = mem_try((size_t)p->count, sizeof *flat, "a weight", e)))
		return -1;
	st_to_f32(flat, t);
	turn(out, flat, p->shape[0], p->shape[3], p->shape[1] * p->shape[2]);
	mem_free(flat);
	return 0;
}

int weights_end(const struct weights *w, const char *prefix, struct err *e)
{
	for (int i = 0; i < st_tensors(w->s); i++)
		if (!w->taken[i] && st_get(w->s, i)->rank && !strncmp(st_get(w->s, i)->name, prefix, strlen(prefix)))
			return err_set(e, ERR_DATA, "%s: holds %s, which this network does not have", w->where, st_get(w->s, i)->name);
	return 0;
}

struct filling {
	weights_filler *fill;
	const void *config;
	struct weights *w;
};

static int fill_one(void *arg, const struct param *p, float *out, struct err *e)
{
	const struct filling *f = arg;

	return f->fill(f->config, f->w, p, out, e);
}

int weights_fill(struct weights *w, struct runner *r, weights_filler *fill, const void *config, struct err *e)
{
	struct filling f = {fill, config, w};

	return runner_fill(r, fill_one, &f, e);
}
