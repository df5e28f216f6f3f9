#include "diffusion/sampler.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

struct sampler_state {
	const struct sampler *s;
	struct mixer *mixer;
	struct device *device;
	float *x, *work;       /* (batch, d), and of the solver; on the device, as the next */
	struct run_keys *keys; /* of the noise */
	int32_t *chosen;       /* (batch) */
	unsigned char *present;
	struct mixture_call call;
	struct mixture_stats *stats;
};

static int allocate(struct sampler_state *st, struct err *e)
{
	const struct sampler *s = st->s;
	struct device *d = st->device;
	int64_t count = s->batch * s->mixture->d;

	return (st->x = d->alloc(d, (size_t)count * sizeof *st->x, "samples", e)) &&
	               (st->work = d->alloc(d, (size_t)solver_work(&s->solver, count) * sizeof *st->work, "solver", e)) &&
	               (st->keys = d->alloc(d, sizeof *st->keys, "keys of the noise", e))
	           ? 0
	           : -1;
}

struct sampler_state *sampler_new(const struct sampler *s, struct err *e)
{
	const struct mixture *m = s->mixture;
	struct sampler_state *st;
	struct mixer *mixer = mixer_new(m, s->batch, e);

	if (!mixer)
		return NULL;
	st = mem_zalloc(1, sizeof *st);
	st->s = s;
	st->mixer = mixer;
	st->device = mixer_device(mixer);
	st->chosen = mem_zalloc((size_t)s->batch, sizeof *st->chosen);
	st->present = mem_zalloc((size_t)m->k, 1);
	for (int k = 0; k < m->k; k++)
		st->present[k] = m->expert[k].velocity != NULL;
	if (m->policy.kind == POLICY_PRIOR && !s->shares && !s->class_shares)
		err_set(e, ERR_USAGE, "route prior needs the sizes of the clusters and the model does not tell them");
	else if (!allocate(st, e))
		return st;
	sampler_free(st);
	return NULL;
}

void sampler_free(struct sampler_state *st)
{
	if (!st)
		return;
	st->device->release(st->device, st->x);
	st->device->release(st->device, st->work);
	st->device->release(st->device, st->keys);
	mixer_free(st->mixer);
	mem_free(st->chosen);
	mem_free(st->present);
	mem_free(st);
}

/* One op for each run of consecutive images. */
static void start(struct sampler_state *st, int64_t n, const int64_t *index)
{
	int64_t d = st->s->mixture->d;

	for (int64_t i = 0, end; i < n; i = end) {
		const struct run_keys keys = {st->s->seed, 0, (uint64_t)index[i], RNG_SAMPLE};
		struct op_call c = {.nout = 1, .keys = st->keys};

		for (end = i + 1; end < n && index[end] == index[i] + (end - i);)
			end++;
		c.out[0] = (struct array){.data = st->x + i * d, .dtype = DT_F32, .rank = 2, .shape = {end - i, d}, .stride = {d, 1}};
		device_put(st->device, st->keys, &keys, sizeof keys);
		device_run(st->device, OP_NOISE, &c, NULL);
	}
}

static int field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	struct sampler_state *st = arg;

	if (!stage && progress_tell(st->s->progress, "steps", step, st->s->solver.steps))
		return err_set(e, ERR_AGAIN, "interrupted");
	st->call.x = x;
	st->call.t = t;
	st->call.step = step;
	st->call.stage = stage;
	if (mixer_velocity(st->mixer, v, &st->call, st->stats, e))
		return -1;
	if (st->s->observe && !stage)
		st->s->observe(st->s->observe_arg, step, t, st->call.n, mixer_weights(st->mixer));
	return 0;
}

static int draw_prior(struct sampler_state *st, int64_t n, const int64_t *index, const int32_t *label, struct err *e)
{
	const struct sampler *s = st->s;
	int k = s->mixture->k;

	for (int64_t i = 0; i < n; i++) {
		int32_t c = label ? label[i] : -1;
		const double *shares = s->class_shares && c >= 0 && c < s->classes ? s->class_shares + (int64_t)c * k : s->shares;
		double u = rng_uniform(s->seed, RNG_ROUTE, 0, (uint64_t)index[i], 0);

		st->chosen[i] = shares ? route_draw(k, shares, st->present, u) : -1;
		if (st->chosen[i] < 0)
			return err_set(e, ERR_USAGE, "image %lld: no expert that is present has a share", (long long)index[i]);
	}
	return 0;
}

int sampler_run(struct sampler_state *st, float *x, int64_t n, const int64_t *index, const int32_t *label, const int32_t *chosen,
                int32_t *assigned, struct mixture_stats *stats, struct err *e)
{
	const struct sampler *s = st->s;
	struct device *d = st->device;

	assert(n > 0 && n <= s->batch);
	if (s->mixture->policy.kind == POLICY_PRIOR) {
		if (draw_prior(st, n, index, label, e))
			return -1;
		chosen = st->chosen;
	}
	start(st, n, index);
	st->call = (struct mixture_call){.n = n, .index = index, .label = label, .chosen = chosen};
	st->stats = stats;
	if (solver_run(&s->solver, d, st->x, n * s->mixture->d, st->work, field, st, e))
		return -1;
	device_get(d, x, st->x, (size_t)(n * s->mixture->d) * sizeof *x);
	if (d->error(d, e))
		return -1;
	if (assigned)
		memcpy(assigned, mixer_heaviest(st->mixer), (size_t)n * sizeof *assigned);
	return 0;
}
