#include "train/objective.h"

#include <string.h>

#include "core/mem.h"
#include "tape/ops.h"

enum { VECTORS = 7 };

/* Validation draws are the same in every run, whatever its seed, so that val_loss compares across runs. */
static const uint64_t VALIDATION_SEED = 0;

int noised_init(struct noised *z, struct device *device, int64_t n, int64_t d, struct err *e)
{
	size_t bytes = VECTORS * (size_t)n * sizeof(float);
	float *host;

	*z = (struct noised){.device = device, .rows = n, .d = d};
	host = mem_try(bytes, 1, "times and weights of a batch", e);
	z->t = host;
	if (!host || !(z->on_device = device->alloc(device, bytes, "times and weights of a batch", e)) ||
	    !(z->x0 = device->alloc(device, (size_t)n * (size_t)d * sizeof *z->x0, "batch", e))) {
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
	mem_free(z->t);
	if (z->device) {
		z->device->release(z->device, z->on_device);
		z->device->release(z->device, z->x0);
	}
	memset(z, 0, sizeof *z);
}

void noised_put(struct noised *z)
{
	device_put(z->device, z->on_device, z->t, VECTORS * (size_t)z->rows * sizeof(float));
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
	struct path_point p = o->path->at(t);
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
	noised_put(z);
	device_put(z->device, z->x0, x0, (size_t)n * (size_t)z->d * sizeof *x0);
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

	tape_bind(l->tape, l->x0, z->x0);
	for (int i = 0; i < VECTORS; i++)
		if (vectors[i])
			tape_bind(l->tape, vectors[i], (char *)z->on_device + (size_t)i * (size_t)z->rows * sizeof(float));
}
