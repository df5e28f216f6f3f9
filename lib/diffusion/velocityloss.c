/* Measures the loss of an ensemble's velocity on given samples. */
#include "diffusion/velocityloss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

struct velocity_loss {
	const struct mixture *m;
	struct mixer *mixer;
	struct pool *pool;
	int64_t capacity;
	float *there_x, *there_v;    /* (capacity, d) on the device of the mixer */
	float *eps, *x, *v, *target; /* (capacity, d) */
	/* of the current call */
	const struct velocity_samples *s;
	uint64_t seed;
	double t;
	double *loss;
};

/* States that are not on a trajectory have no evaluation before them, and no expert that was drawn at its start. */
static int check_policy(const struct policy *p, struct err *e)
{
	if (policy_needs_trajectory(p))
		return err_set(e, ERR_USAGE,
		               "a policy with distance, density, keep:MARGIN or budget:GFLOP cannot be measured on single states: it needs "
		               "the evaluations before");
	for (int i = 0; i < p->entries; i++)
		if (p->entry[i].weights == WEIGHT_PRIOR && p->entry[i].select == SELECT_SAMPLE)
			return err_set(e, ERR_USAGE,
			               "prior cannot be measured on single states: it draws one expert for a whole trajectory, which meets "
			               "only states of its own cluster; measure oracle");
	return 0;
}

struct velocity_loss *velocity_loss_new(const struct mixture *m, int64_t capacity, struct pool *pool, struct err *e)
{
	struct velocity_loss *l = mem_zalloc(1, sizeof *l);
	size_t n = (size_t)(capacity * m->d);
	struct device *dev;

	assert(!m->own);
	*l = (struct velocity_loss){.m = m, .pool = pool, .capacity = capacity};
	if (check_policy(&m->policy, e) || !(l->mixer = mixer_new(m, capacity, e)))
		goto fail;
	dev = mixer_device(l->mixer);
	if ((l->there_x = dev->alloc(dev, n * sizeof *l->there_x, "states", e)) &&
	    (l->there_v = dev->alloc(dev, n * sizeof *l->there_v, "velocities", e)) && (l->eps = mem_try(n, sizeof *l->eps, "noise", e)) &&
	    (l->x = mem_try(n, sizeof *l->x, "states", e)) && (l->v = mem_try(n, sizeof *l->v, "velocities", e)) &&
	    (l->target = mem_try(n, sizeof *l->target, "targets", e)))
		return l;
fail:
	velocity_loss_free(l);
	return NULL;
}

void velocity_loss_free(struct velocity_loss *l)
{
	if (!l)
		return;
	if (l->mixer) {
		struct device *dev = mixer_device(l->mixer);

		dev->release(dev, l->there_x);
		dev->release(dev, l->there_v);
	}
	mixer_free(l->mixer);
	mem_free(l->eps);
	mem_free(l->x);
	mem_free(l->v);
	mem_free(l->target);
	mem_free(l);
}

void velocity_state(int64_t d, const float *x0, double t, uint64_t seed, uint64_t id, float *eps, float *x, float *target)
{
	struct path_point p = path_at(&path_linear, t);
	float time = (float)t;
	uint32_t bits;

	memcpy(&bits, &time, sizeof bits);
	rng_normal(eps, (size_t)d, seed, RNG_METRIC, bits, id);
	path_noise(&p, x, x0, eps, d);
	path_target(&p, PREDICT_VELOCITY, target, x0, eps, d);
}

static void make_state(void *arg, int64_t i, int worker)
{
	struct velocity_loss *l = arg;
	int64_t d = l->m->d, at = i * d;

	(void)worker;
	velocity_state(d, l->s->x0 + at, l->t, l->seed, l->s->id[i], l->eps + at, l->x + at, l->target + at);
}

static void find_loss(void *arg, int64_t i, int worker)
{
	struct velocity_loss *l = arg;
	int64_t d = l->m->d;
	const float *v = l->v + i * d, *target = l->target + i * d;
	double sum = 0;

	(void)worker;
	for (int64_t j = 0; j < d; j++)
		sum += ((double)v[j] - target[j]) * ((double)v[j] - target[j]);
	l->loss[i] = sum / (double)d;
}

int velocity_loss(struct velocity_loss *l, const struct velocity_samples *s, double t, uint64_t seed, double *loss, struct mixture_stats *stats,
                  struct err *e)
{
	struct device *dev = mixer_device(l->mixer);
	size_t bytes = (size_t)(s->n * l->m->d) * sizeof *l->x;
	struct mixture_call c = {.n = s->n, .evaluations = 1, .t = t, .x = l->there_x, .index = s->index, .label = s->label, .chosen = s->cluster};

	assert(s->n > 0 && s->n <= l->capacity && t > 0 && t <= 1);
	l->s = s;
	l->t = t;
	l->seed = seed;
	l->loss = loss;
	pool_run(l->pool, s->n, make_state, l);
	device_put(dev, l->there_x, l->x, bytes);
	if (mixer_velocity(l->mixer, l->there_v, &c, stats, e))
		return -1;
	device_get(dev, l->v, l->there_v, bytes);
	if (dev->error(dev, e))
		return -1;
	pool_run(l->pool, s->n, find_loss, l);
	for (int64_t i = 0; i < s->n; i++)
		if (!isfinite(loss[i]))
			return err_set(e, ERR_FAIL, "the velocity at t = %g is not finite", t);
	return 0;
}
