/* MUON_MOMENTUM, MUON_UNIT, MUON_APPLY on the GPU; kernels/muon.c is the reference. */
#include "kernels/launch.h"

extern "C" {
#include "kernels/optimizer.h"
}

static __global__ void momentum(int64_t n, const double *k, const float *g, float *m, float *u, float mu, float rest)
{
	if (k[COEF_GO] == 0)
		return;
	for (int64_t i = thread_index(); i < n; i += thread_count()) {
		float gi = (float)k[COEF_SCALE] * g[i], mi = mu * m[i] + rest * gi;

		m[i] = mi;
		u[i] = mu * mi + rest * gi;
	}
}

static __global__ void unit(int64_t n, const double *sumsq, float *u)
{
	double norm = sqrt(*sumsq);
	float factor = (float)(1 / (norm > MUON_SMALLEST ? norm : MUON_SMALLEST));

	for (int64_t i = thread_index(); i < n; i += thread_count())
		u[i] *= factor;
}

/* rounded may be NULL. */
static __global__ void apply(int64_t n, const double *k, const float *u, float *p, float *ema, uint16_t *rounded, double scale)
{
	if (k[COEF_GO] == 0)
		return;
	for (int64_t i = thread_index(); i < n; i += thread_count()) {
		float pi = p[i];

		pi -= (float)k[COEF_SHRINK] * pi + (float)(k[COEF_LR] * scale) * u[i];
		p[i] = pi;
		ema[i] = (float)k[COEF_EMA] * ema[i] + (float)k[COEF_REST_EMA] * pi;
		if (rounded)
			rounded[i] = bf16_store(pi);
	}
}

static void momentum_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0];

	if (n)
		LAUNCH(c, momentum, blocks_for(n), BLOCK, n, (const double *)c->in[0].data, (const float *)c->in[1].data, (float *)c->out[0].data,
		       (float *)c->out[1].data, (float)c->attr.muon.momentum, (float)(1 - c->attr.muon.momentum));
}

static void unit_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0];

	if (n)
		LAUNCH(c, unit, blocks_for(n), BLOCK, n, (const double *)c->in[0].data, (float *)c->out[0].data);
}

static void apply_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0];

	if (n)
		LAUNCH(c, apply, blocks_for(n), BLOCK, n, (const double *)c->in[0].data, (const float *)c->in[1].data, (float *)c->out[0].data,
		       (float *)c->out[1].data, c->nout > 2 ? (uint16_t *)c->out[2].data : NULL, c->attr.muon.scale);
}

extern "C" {
extern const struct kernel kernel_muon_momentum_cuda = {momentum_run, NULL};
extern const struct kernel kernel_muon_unit_cuda = {unit_run, NULL};
extern const struct kernel kernel_muon_apply_cuda = {apply_run, NULL};
}
