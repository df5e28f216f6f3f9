/* Layers, weights and tapes of convolutional networks that are run and not trained. */
#include "net/convnet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

/* ---- recording ---- */

static struct tensor *param(const struct layers *l, const char *prefix, const char *suffix, int rank, const int64_t *shape, int flags)
{
	char name[96];

	snprintf(name, sizeof name, "%.80s%.15s", prefix, suffix);
	return tape_param(l->t, l->p, name, rank, shape, flags, (struct init){.kind = INIT_ZERO});
}

struct tensor *layer_param(const struct layers *l, const char *prefix, const char *suffix, int rank, const int64_t *shape)
{
	return param(l, prefix, suffix, rank, shape, 0);
}

struct tensor *layer_conv(const struct layers *l, struct tensor *x, const char *prefix, const struct conv *c)
{
	int64_t shape[4] = {c->out, c->kh, c->kw ? c->kw : c->kh, x->shape[3]};
	struct tensor *w = param(l, prefix, ".weight", 4, shape, PARAM_BULK), *b = NULL;

	if (!c->no_bias)
		b = layer_param(l, prefix, ".bias", 1, shape);
	return (c->many ? op_conv_many : op_conv_act)(l->t, x, w, b, c->add, c->stride ? c->stride : 1, c->pad, c->act);
}

struct tensor *layer_conv3(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int act, struct tensor *add)
{
	return layer_conv(l, x, prefix, &(struct conv){.out = out, .kh = 3, .pad = {1, 1, 1, 1}, .act = act, .add = add});
}

struct tensor *layer_conv1(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int act)
{
	return layer_conv(l, x, prefix, &(struct conv){.out = out, .kh = 1, .act = act});
}

struct tensor *layer_groupnorm(const struct layers *l, struct tensor *x, const char *prefix, int64_t groups, double eps, int act)
{
	int64_t n = x->shape[x->rank - 1];
	struct tensor *w = layer_param(l, prefix, ".weight", 1, &n), *b = layer_param(l, prefix, ".bias", 1, &n);

	return op_groupnorm(l->t, x, w, b, groups, eps, act);
}

struct tensor *layer_linear(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int no_bias)
{
	int64_t shape[2] = {out, x->shape[x->rank - 1]};
	struct tensor *w = param(l, prefix, ".weight", 2, shape, PARAM_BULK), *b = NULL;

	if (!no_bias)
		b = layer_param(l, prefix, ".bias", 1, shape);
	return op_linear(l->t, x, w, b);
}

struct tensor *channels_last(struct tape *t, struct tensor *x)
{
	static const int order[4] = {0, 2, 3, 1};

	return op_copy(t, op_permute(t, x, order));
}

struct tensor *channels_first(struct tape *t, struct tensor *x)
{
	static const int order[4] = {0, 3, 1, 2};

	return op_copy(t, op_permute(t, x, order));
}

/* ---- weights ---- */

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

/* ---- running ---- */

void convnet_init(struct convnet *n, int (*record)(const void *config, const struct layers *l, struct tensor *x, struct tensor **out),
                  const void *config, int64_t capacity, enum compact_type bulk, struct device *d)
{
	assert(capacity > 0 && d->real == DT_F32);
	*n = (struct convnet){.device = d, .record = record, .config = config, .capacity = capacity, .bulk = bulk};
}

static void drop_tape(struct convnet *n)
{
	tape_free(n->tape);
	n->tape = NULL;
	n->device->release(n->device, n->place);
	n->place = NULL;
}

static void record(struct convnet *n, int64_t capacity, int64_t channels, int64_t h, int64_t w)
{
	int64_t shape[4] = {capacity, channels, h, w};
	struct layers l = {tape_new(n->device->real, capacity), &n->params};

	n->tape = l.t;
	n->in = tape_input(l.t, n->device->real, 4, shape, TAPE_BATCHED);
	n->nout = n->record(n->config, &l, n->in, n->out);
	for (int i = 0; i < n->nout; i++)
		tape_keep(l.t, n->out[i]);
}

static int read_values(struct convnet *n, int (*fill)(const void *config, struct weights *file, const struct param *p, float *out, struct err *e),
                       struct weights *file, struct err *e)
{
	struct device *d = n->device;
	float *host = weightstore_room(&n->params, e);
	size_t bytes = weightstore_bytes(&n->store, &n->params);
	int rc = host ? 0 : -1;

	for (int i = 0; i < n->params.n && !rc; i++) {
		const struct param *p = &n->params.v[i];

		rc = fill(n->config, file, p, host, e);
		if (!rc && !n->values && !(n->values = d->alloc(d, bytes, "weights", e)))
			rc = -1;
		if (!rc)
			weightstore_put(&n->store, p, NULL, d, n->values, host);
	}
	mem_free(host);
	return rc;
}

int convnet_load(struct convnet *n, int64_t channels, int64_t h, int64_t w,
                 int (*fill)(const void *config, struct weights *file, const struct param *p, float *out, struct err *e),
                 struct weights *file, struct err *e)
{
	if (!n->device->compact && weightstore_choose(&n->store, n->bulk, n->device, e))
		return -1;
	record(n, 1, channels, h, w);
	params_layout(&n->params);
	weightstore_layout(&n->store, &n->params, n->tape, n->device);
	drop_tape(n);
	return read_values(n, fill, file, e);
}

int convnet_plan(struct convnet *n, int64_t channels, int64_t h, int64_t w, struct err *e)
{
	struct device *d = n->device;
	int known = n->params.n;

	if (n->tape && n->channels == channels && n->height == h && n->width == w)
		return 0;
	drop_tape(n);
	record(n, n->capacity, channels, h, w);
	assert(n->params.n == known && n->values);
	(void)known;
	weightstore_layout(&n->store, &n->params, n->tape, d);
	if (tape_allocate(n->tape, e) ||
	    !(n->place = d->alloc(d, (size_t)(n->capacity * channels * h * w) * sizeof *n->place, "pictures", e))) {
		drop_tape(n);
		return -1;
	}
	tape_bind(n->tape, n->in, n->place);
	weightstore_bind(&n->store, n->tape, n->values, NULL);
	n->channels = channels;
	n->height = h;
	n->width = w;
	return 0;
}

int64_t convnet_elements(const struct convnet *n, int output)
{
	const struct tensor *x = n->out[output];
	int64_t each = 1;

	for (int d = 0; d < x->rank; d++)
		each *= x->shape[d];
	return each / n->capacity;
}

double convnet_flops(const struct convnet *n)
{
	return tape_flops(n->tape, 1, 0, tape_mark(n->tape));
}

int convnet_run(struct convnet *n, int64_t count, const float *x, int64_t channels, int64_t h, int64_t w, float *const *out,
                struct err *e)
{
	struct device *d = n->device;
	int64_t each = channels * h * w;

	if (convnet_plan(n, channels, h, w, e))
		return -1;
	for (int64_t at = 0; at < count; at += n->capacity) {
		int64_t k = count - at < n->capacity ? count - at : n->capacity;

		device_put(d, n->place, x + at * each, (size_t)(k * each) * sizeof *x);
		tape_run(n->tape, k, 0, tape_mark(n->tape));
		for (int i = 0; i < n->nout; i++) {
			int64_t one = convnet_elements(n, i);

			if (out[i])
				device_get(d, out[i] + at * one, tape_data(n->tape, n->out[i]), (size_t)(k * one) * sizeof *x);
		}
	}
	return 0;
}

void convnet_release(struct convnet *n)
{
	if (!n->device)
		return;
	drop_tape(n);
	n->device->release(n->device, n->values);
	params_release(&n->params);
	memset(n, 0, sizeof *n);
}
