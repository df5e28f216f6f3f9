#include "train/objective.h"

#include <string.h>

#include "core/mem.h"
#include "tape/ops.h"

enum { VECTORS = 7 };

/* Validation draws are the same in every run, whatever its seed, so that val_loss compares across runs. */
static const uint64_t VALIDATION_SEED = 0;

/* Where batches arrive, and the stream they come by. */
enum { PLACES = 2, ARRIVALS = 1 };

static size_t vectors_bytes(const struct noised *z)
{
	return VECTORS * (size_t)z->rows * sizeof(float);
}

/* x0 begins behind the vectors, aligned to 64 bytes as they are. */
static size_t x0_offset(const struct noised *z)
{
	return (vectors_bytes(z) + 63) / 64 * 64;
}

static size_t inputs_bytes(const struct noised *z)
{
	return x0_offset(z) + (size_t)z->rows * (size_t)z->d * sizeof(float);
}

static float *x0_in(const struct noised *z, float *inputs)
{
	return inputs + x0_offset(z) / sizeof *inputs;
}

float *noised_x0(const struct noised *z)
{
	return x0_in(z, z->inputs);
}

static int places_init(struct noised *z, struct err *e)
{
	struct device *d = z->device;

	for (int i = 0; i < PLACES && d->streams > ARRIVALS; i++) {
		if (!(z->arriving[i] = d->alloc(d, inputs_bytes(z), "the next batch", e)))
			return -1;
		z->arrived[i] = d->event_new(d);
		z->taken[i] = d->event_new(d);
	}
	return 0;
}

int noised_init(struct noised *z, struct device *device, int64_t n, int64_t d, struct err *e)
{
	float *host;

	*z = (struct noised){.device = device, .rows = n, .d = d};
	host = mem_try(vectors_bytes(z), 1, "times and weights of a batch", e);
	z->t = host;
	if (!host || !(z->inputs = device->alloc(device, inputs_bytes(z), "batch", e)) || places_init(z, e)) {
		noised_release(z);
		return -1;
	}
	z->weight = host + n;
	z->alpha = host + 2 * n;
	z->sigma = host + 3 * n;
	z->from_x0 = host + 4 * n;
	z->from_eps = host + 5 * n;
	z->label = (int32_t *)(void *)(host + 6 * n);
	return 0;
}

void noised_release(struct noised *z)
{
	struct device *d = z->device;

	mem_free(z->t);
	if (d)
		d->release(d, z->inputs);
	for (int i = 0; d && i < PLACES; i++) {
		d->release(d, z->arriving[i]);
		if (z->arrived[i])
			d->event_free(d, z->arrived[i]);
		if (z->taken[i])
			d->event_free(d, z->taken[i]);
	}
	memset(z, 0, sizeof *z);
}

uint64_t noised_bytes(int64_t n, int64_t d, int streams)
{
	const struct noised z = {.rows = n, .d = d};

	return inputs_bytes(&z) * (streams > ARRIVALS ? 1 + PLACES : 1) + vectors_bytes(&z);
}

void noised_put(struct noised *z)
{
	device_put(z->device, z->inputs, z->t, vectors_bytes(z));
}

static void put_here(struct noised *z, const float *x0, size_t bytes)
{
	noised_put(z);
	device_put(z->device, noised_x0(z), x0, bytes);
}

/* The tape's inputs stay where they are, so that a graph of it stays valid; to them it is a copy within the device. */
static void put_aside(struct noised *z, const float *x0, size_t bytes)
{
	struct device *d = z->device;
	int64_t k = z->batches++ % PLACES;

	if (z->batches > PLACES)
		d->event_follow(d, z->taken[k], ARRIVALS);
	d->put(d, ARRIVALS, z->arriving[k], z->t, vectors_bytes(z));
	d->put(d, ARRIVALS, x0_in(z, z->arriving[k]), x0, bytes);
	d->event_record(d, z->arrived[k], ARRIVALS);
	d->event_follow(d, z->arrived[k], 0);
	d->copy(d, 0, z->inputs, z->arriving[k], x0_offset(z) + bytes);
	d->event_record(d, z->taken[k], 0);
}

struct rows {
	const struct objective *o;
	const int32_t *label, *cluster;
	uint64_t seed, step, first;
	int64_t total; /* 0: training */
};

static int32_t label_of(const struct rows *r, int64_t i)
{
	const struct objective *o = r->o;
	int32_t y;

	if (o->kind == NET_ROUTER)
		return r->cluster[i];
	if (o->condition == CONDITION_NONE)
		return 0;
	y = o->condition == CONDITION_CLASS ? r->label[i] : r->cluster[i];
	if (y < 0 || (!r->total && o->class_dropout > 0 &&
	              rng_uniform(r->seed, RNG_LABEL, r->step, r->first + (uint64_t)i, 0) < o->class_dropout))
		return (int32_t)o->classes;
	return y;
}

static void decide(const struct rows *r, struct noised *z, int64_t i)
{
	const struct objective *o = r->o;
	uint64_t index = r->first + (uint64_t)i;
	double t = r->total ? ((double)index + .5) / (double)r->total : time_sample(&o->time, r->seed, RNG_TIME, r->step, index);
	struct path_point p = path_at(o->path, t);
	double a, b;

	path_target_weights(&p, o->prediction, &a, &b);
	z->t[i] = (float)t;
	z->weight[i] = (float)path_weight(o->path, o->prediction, t);
	z->alpha[i] = (float)p.alpha;
	z->sigma[i] = (float)p.sigma;
	z->from_x0[i] = (float)a;
	z->from_eps[i] = (float)b;
	z->label[i] = label_of(r, i);
}

static void fill(const struct rows *r, struct noised *z, struct loss_tape *l, int64_t n, const float *x0)
{
	const struct run_keys keys = {r->seed, r->step, r->first, r->total ? RNG_VALIDATE : RNG_NOISE};

	for (int64_t i = 0; i < n; i++)
		decide(r, z, i);
	(z->arriving[0] ? put_aside : put_here)(z, x0, (size_t)n * (size_t)z->d * sizeof *x0);
	tape_seed(l->tape, &keys);
}

void objective_noise(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const float *x0,
                     const int32_t *label, const int32_t *cluster, uint64_t seed, uint64_t step, uint64_t first)
{
	struct rows r = {o, label, cluster, seed, step, first, 0};

	fill(&r, z, l, n, x0);
}

void objective_validate(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const float *x0,
                        const int32_t *label, const int32_t *cluster, int64_t first, int64_t total)
{
	struct rows r = {o, label, cluster, VALIDATION_SEED, 0, (uint64_t)first, total};

	fill(&r, z, l, n, x0);
}

static struct tensor *vector(struct tape *t)
{
	int64_t n = tape_capacity(t);

	return tape_input(t, tape_real(t), 1, &n, TAPE_BATCHED);
}

void loss_record(struct loss_tape *l, const struct net_config *c, struct params *p, enum dtype real, int64_t capacity,
                 int backward, int recompute)
{
	struct tape *t = tape_new(real, capacity);
	int64_t shape[4] = {capacity, c->channels, c->size, c->size};
	struct net_input in = {0};
	struct tensor *eps;

	*l = (struct loss_tape){.tape = t, .x0 = tape_input(t, real, 4, shape, TAPE_BATCHED), .alpha = vector(t), .sigma = vector(t)};
	l->t = vector(t);
	if (c->kind == NET_ROUTER || c->classes)
		l->label = tape_input(t, DT_I32, 1, shape, TAPE_BATCHED);
	eps = op_noise(t, 4, shape);
	l->x = op_qsample(t, l->x0, eps, l->alpha, l->sigma);
	l->network = tape_mark(t);
	in.x = l->x;
	in.time = l->t;
	in.label = c->kind == NET_ROUTER ? NULL : l->label;
	l->out = net_record(t, p, c, &in);
	if (c->kind == NET_ROUTER) {
		l->loss = op_xent(t, l->out, l->label);
	} else {
		l->from_x0 = vector(t);
		l->from_eps = vector(t);
		l->weight = vector(t);
		l->loss = op_mse(t, l->out, op_qsample(t, l->x0, eps, l->from_x0, l->from_eps), l->weight);
	}
	tape_keep(t, l->x);
	tape_keep(t, l->out);
	tape_keep(t, l->loss);
	l->forward_end = tape_mark(t);
	if (backward) {
		l->dloss = tape_input(t, real, 1, shape, TAPE_BATCHED);
		tape_recompute(t, recompute);
		tape_backward(t, l->loss, l->dloss);
	}
	l->end = tape_mark(t);
	params_layout(p);
}

void loss_bind(struct loss_tape *l, const struct noised *z)
{
	struct tensor *const vectors[VECTORS] = {l->t, l->weight, l->alpha, l->sigma, l->from_x0, l->from_eps, l->label};

	tape_bind(l->tape, l->x0, noised_x0(z));
	for (int i = 0; i < VECTORS; i++)
		if (vectors[i])
			tape_bind(l->tape, vectors[i], z->inputs + (int64_t)i * z->rows);
}
