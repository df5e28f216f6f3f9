#include "train/objective.h"

#include <string.h>

#include "core/mem.h"
#include "tape/ops.h"

/* Validation draws are the same in every run, whatever its seed, so that val_loss compares across runs. */
static const uint64_t VALIDATION_SEED = 0;

int noised_init(struct noised *z, int64_t n, int64_t d, struct err *e)
{
	memset(z, 0, sizeof *z);
	z->x = mem_try((size_t)n, (size_t)d * sizeof *z->x, "noised batch", e);
	z->target = mem_try((size_t)n, (size_t)d * sizeof *z->target, "targets of a batch", e);
	z->t = mem_zalloc((size_t)n, sizeof *z->t);
	z->weight = mem_zalloc((size_t)n, sizeof *z->weight);
	z->label = mem_zalloc((size_t)n, sizeof *z->label);
	if (z->x && z->target)
		return 0;
	noised_release(z);
	return -1;
}

void noised_release(struct noised *z)
{
	mem_free(z->x);
	mem_free(z->target);
	mem_free(z->t);
	mem_free(z->weight);
	mem_free(z->label);
	memset(z, 0, sizeof *z);
}

struct rows {
	const struct objective *o;
	struct noised *z;
	const float *x0;
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

static void noise_row(void *arg, int64_t i, int worker)
{
	const struct rows *r = arg;
	const struct objective *o = r->o;
	struct noised *z = r->z;
	uint64_t index = r->first + (uint64_t)i;
	float *eps = z->target + i * o->d, *xt = z->x + i * o->d; /* the noise becomes the target in place */
	const float *x0 = r->x0 + i * o->d;
	double t = r->total ? ((double)index + .5) / (double)r->total : time_sample(&o->time, r->seed, RNG_TIME, r->step, index);
	struct path_point p = o->path->at(t);

	(void)worker;
	rng_normal(eps, (size_t)o->d, r->seed, r->total ? RNG_VALIDATE : RNG_NOISE, r->step, index);
	path_noise(&p, xt, x0, eps, o->d);
	if (o->kind == NET_DIT)
		path_target(&p, o->prediction, eps, x0, eps, o->d);
	z->t[i] = (float)t;
	z->weight[i] = (float)path_weight(o->path, o->prediction, t);
	z->label[i] = label_of(r, i);
}

void objective_noise(const struct objective *o, struct noised *z, int64_t n, const float *x0, const int32_t *label,
                     const int32_t *cluster, uint64_t seed, uint64_t step, uint64_t first, struct pool *pool)
{
	struct rows r = {o, z, x0, label, cluster, seed, step, first, 0};

	pool_run(pool, n, noise_row, &r);
}

void objective_validate(const struct objective *o, struct noised *z, int64_t n, const float *x0, const int32_t *label,
                        const int32_t *cluster, int64_t first, int64_t total, struct pool *pool)
{
	struct rows r = {o, z, x0, label, cluster, VALIDATION_SEED, 0, (uint64_t)first, total};

	pool_run(pool, n, noise_row, &r);
}

void loss_record(struct loss_tape *l, const struct net_config *c, struct params *p, enum dtype real, int64_t capacity,
                 int backward, int recompute)
{
	struct tape *t = tape_new(real, capacity);
	int64_t shape[4] = {capacity, c->channels, c->size, c->size};

	memset(l, 0, sizeof *l);
	l->tape = t;
	l->x = tape_input(t, real, 4, shape, TAPE_BATCHED);
	l->t = tape_input(t, real, 1, shape, TAPE_BATCHED);
	if (c->kind == NET_ROUTER || c->classes)
		l->label = tape_input(t, DT_I32, 1, shape, TAPE_BATCHED);
	l->out = net_record(t, p, c, l->x, l->t, c->kind == NET_DIT ? l->label : NULL);
	if (c->kind == NET_ROUTER) {
		l->loss = op_xent(t, l->out, l->label);
	} else {
		l->target = tape_input(t, real, 4, shape, TAPE_BATCHED);
		l->weight = tape_input(t, real, 1, shape, TAPE_BATCHED);
		l->loss = op_mse(t, l->out, l->target, l->weight);
	}
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

void loss_bind(struct loss_tape *l, const struct noised *z, int64_t row, const struct objective *o)
{
	tape_bind(l->tape, l->x, z->x + row * o->d);
	tape_bind(l->tape, l->t, z->t + row);
	if (l->label)
		tape_bind(l->tape, l->label, z->label + row);
	if (l->target)
		tape_bind(l->tape, l->target, z->target + row * o->d);
	if (l->weight)
		tape_bind(l->tape, l->weight, z->weight + row);
}
