/* Keeps what weights by density are computed from: each expert's own velocities, the mixed one, and the log-densities of every row. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/logdensity.h"
#include "diffusion/mixtureimpl.h"

int mixture_check_density(const struct mixture *m, struct err *e)
{
	if (!policy_uses(&m->policy, WEIGHT_DENSITY))
		return 0;
	if (!m->steps_told || m->own)
		return err_set(e, ERR_USAGE, "weights by density follow ancestral steps: they need a sampler with the solver sde,step=ancestral");
	if (m->owners.expert)
		return err_set(e, ERR_USAGE, "weights by density need experts for all times, and those of this model are for different times");
	if (m->policy.entry[0].select == SELECT_BUDGET)
		return err_set(e, ERR_USAGE, "weights by density run every expert at every evaluation, so a budget cannot limit their cost");
	return 0;
}

int mixer_alloc_density(struct mixer *x, struct err *e)
{
	size_t n = (size_t)x->capacity, k = (size_t)x->m->k, d = (size_t)x->m->d, c = (size_t)x->chunk;

	if (!policy_uses(&x->m->policy, WEIGHT_DENSITY))
		return 0;
	return (x->density = mem_try(n * k, sizeof *x->density, "densities", e)) &&
	               (x->own_v = mem_try(n * k * d, sizeof *x->own_v, "velocities", e)) &&
	               (x->mixed = mem_try(n * d, sizeof *x->mixed, "velocities", e)) && (x->noise = mem_try(n * d, sizeof *x->noise, "noise", e)) &&
	               (x->group_v = mem_try(c * d, sizeof *x->group_v, "velocities", e))
	           ? 0
	           : -1;
}

void mixer_free_density(struct mixer *x)
{
	mem_free(x->density);
	mem_free(x->own_v);
	mem_free(x->mixed);
	mem_free(x->noise);
	mem_free(x->group_v);
}

void mixer_follow(struct mixer *x, const struct mixture_call *c)
{
	const struct mixture *m = x->m;

	x->following = x->density && policy_uses_from(&m->policy, WEIGHT_DENSITY, c->t);
	for (int64_t i = 0; i < c->n && x->following && !c->evaluation; i++)
		logdensity_start(m->k, x->density + i * m->k, mixture_shares(m, c, i), x->present);
}

int mixer_needs(const struct mixer *x, int64_t i, int k)
{
	return x->following && x->present[k] && x->density[i * x->m->k + k] != -INFINITY;
}

void mixer_keep_own(struct mixer *x, int k, int64_t n)
{
	int64_t d = x->m->d;

	device_get(x->device, x->group_v, x->v, (size_t)(n * d) * sizeof *x->group_v);
	for (int64_t i = 0; i < n; i++)
		memcpy(x->own_v + (x->group[i] * (int64_t)x->m->k + k) * d, x->group_v + i * d, (size_t)d * sizeof *x->own_v);
}

int mixer_keep_mixed(struct mixer *x, const float *v, int64_t n, struct err *e)
{
	device_get(x->device, x->mixed, v, (size_t)(n * x->m->d) * sizeof *x->mixed);
	return x->device->error(x->device, e);
}

int mixer_stepped(struct mixer *x, double ratio, const float *z, int64_t n, struct err *e)
{
	int64_t d = x->m->d;
	int k = x->m->k;

	if (!x->following)
		return 0;
	device_get(x->device, x->noise, z, (size_t)(n * d) * sizeof *x->noise);
	for (int64_t i = 0; i < n; i++)
		logdensity_step(k, d, x->density + i * k, ratio, x->mixed + i * d, x->own_v + i * k * d, x->noise + i * d);
	return x->device->error(x->device, e);
}
