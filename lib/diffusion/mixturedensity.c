/* Keeps what weights by density are computed from: each expert's own velocities, the mixed one, and the log-densities of every row; along the flow
 * also the divergences of the experts, by Hutchinson's estimate z'Jz. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/logdensity.h"
#include "diffusion/mixtureimpl.h"
#include "diffusion/solver.h"

int mixture_check_density(const struct mixture *m, struct err *e)
{
	if (!policy_uses(&m->policy, WEIGHT_DENSITY))
		return 0;
	if (!m->steps_told || m->own)
		return err_set(e, ERR_USAGE,
		               "weights by density follow a trajectory: they need a sampler with one of the solvers " SOLVER_RUNGE_KUTTA
		               ", sde,step=ancestral");
	if (m->owners.expert)
		return err_set(e, ERR_USAGE, "weights by density need experts for all times, and those of this model are for different times");
	if (m->policy.entry[0].select == SELECT_BUDGET)
		return err_set(e, ERR_USAGE, "weights by density run every expert at every evaluation, so a budget cannot limit their cost");
	for (int k = 0; m->pull && k < m->k; k++)
		if (m->expert[k].velocity && (m->expert[k].classes || m->expert[k].text_tokens))
			return err_set(e, ERR_USAGE,
			               "weights by density along the flow are estimated without a condition, and these experts have %s: use the "
			               "solver sde,step=ancestral",
			               m->expert[k].classes ? "classes" : "texts");
	return 0;
}

static int alloc_flow(struct mixer *x, size_t n, size_t k, size_t d, struct err *e)
{
	return (x->density = mem_try(n * k, sizeof *x->density, "densities", e)) && (x->kept = mem_try(n * k, sizeof *x->kept, "densities", e)) &&
	               (x->rate = mem_try(SOLVER_STAGES * n * k, sizeof *x->rate, "rates of densities", e)) &&
	               (x->sign = mem_try(n * d, sizeof *x->sign, "signs", e)) && (x->flow_x = mem_try(n * d, sizeof *x->flow_x, "states", e)) &&
	               (x->mixed = mem_try(n * d, sizeof *x->mixed, "velocities", e)) &&
	               (x->pulled_v = mem_try(n * d, sizeof *x->pulled_v, "velocities", e)) &&
	               (x->pulled = mem_try(n * d, sizeof *x->pulled, "gradients", e))
	           ? 0
	           : -1;
}

int mixer_alloc_density(struct mixer *x, struct err *e)
{
	size_t n = (size_t)x->capacity, k = (size_t)x->m->k, d = (size_t)x->m->d, c = (size_t)x->chunk;

	if (!policy_uses(&x->m->policy, WEIGHT_DENSITY))
		return 0;
	if (x->m->pull)
		return alloc_flow(x, n, k, d, e);
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
	mem_free(x->kept);
	mem_free(x->rate);
	mem_free(x->sign);
	mem_free(x->flow_x);
	mem_free(x->pulled_v);
	mem_free(x->pulled);
}

/* Signs for one image, the same for all experts and evaluations: what they have in common cancels in the weights, and only the differences of
 * the experts' Jacobians carry the noise of the estimate. */
static void draw_signs(struct mixer *x, const struct mixture_call *c, int64_t i)
{
	uint64_t seed = c->seed ? c->seed[i] : x->m->seed, index = (uint64_t)(c->index ? c->index[i] : i);

	for (int64_t j = 0; j < x->m->d; j++)
		x->sign[i * x->m->d + j] = rng_uniform(seed, RNG_PROBE, 0, index, (uint32_t)j) < .5 ? -1 : 1;
}

void mixer_follow(struct mixer *x, const struct mixture_call *c)
{
	const struct mixture *m = x->m;
	int follows = x->density && policy_uses_from(&m->policy, WEIGHT_DENSITY, c->t);

	x->following = follows && !m->pull;
	x->flowing = follows && m->pull && c->evaluation + 1 < c->evaluations; /* no weights come after the last evaluation */
	for (int64_t i = 0; i < c->n && follows && !c->evaluation; i++) {
		logdensity_start(m->k, x->density + i * m->k, mixture_shares(m, c, i), x->present);
		if (!m->pull)
			continue;
		memcpy(x->kept + i * m->k, x->density + i * m->k, (size_t)m->k * sizeof *x->kept);
		draw_signs(x, c, i);
	}
}

int mixer_probes(const struct mixer *x, int64_t i, int k)
{
	return x->flowing && x->present[k] && x->kept[i * x->m->k + k] != -INFINITY;
}

int mixer_find_rates(struct mixer *x, const float *v, const struct mixture_call *c, struct err *e)
{
	const struct mixture *m = x->m;
	int64_t d = m->d;
	size_t bytes = (size_t)(c->n * d) * sizeof(float);
	double *rate = x->rate + (int64_t)c->stage * x->capacity * m->k;

	device_get(x->device, x->flow_x, c->x, bytes);
	device_get(x->device, x->mixed, v, bytes);
	if (x->device->error(x->device, e))
		return -1;
	for (int64_t i = 0; i < c->n; i++)
		x->t[i] = (float)c->t;
	for (int k = 0; k < m->k; k++) {
		if (!x->present[k])
			continue;
		if (m->pull(m->pull_arg, k, c->n, x->flow_x, x->t, x->sign, x->pulled_v, x->pulled, e))
			return -1;
		for (int64_t i = 0; i < c->n; i++) {
			double divergence = 0;

			for (int64_t j = i * d; j < (i + 1) * d; j++)
				divergence += (double)x->sign[j] * x->pulled[j];
			rate[i * m->k + k] = logdensity_rate(d, c->t, x->flow_x + i * d, x->mixed + i * d, x->pulled_v + i * d, divergence);
		}
	}
	return 0;
}

void mixer_moved(struct mixer *x, double h, const double *f, int stages, int64_t n, int keep)
{
	int k = x->m->k;

	if (!x->flowing)
		return;
	for (int64_t i = 0; i < n * k; i++) {
		double sum = 0;

		if (x->kept[i] == -INFINITY)
			continue;
		for (int j = 0; j < stages; j++)
			sum += f[j] != 0 ? f[j] * x->rate[j * x->capacity * k + i] : 0;
		x->density[i] = x->kept[i] + h * sum;
	}
	if (keep)
		memcpy(x->kept, x->density, (size_t)(n * k) * sizeof *x->kept);
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
