/* The elementwise passes of Muon on the CPU: MUON_MOMENTUM, MUON_UNIT, MUON_APPLY. */
#include <math.h>

#include "core/shortfloat.h"
#include "kernels/device.h"
#include "kernels/optimizer.h"
#include "kernels/real.h"

enum { CHUNK = 16384 };

static int64_t chunk_end(int64_t n, int64_t task)
{
	return (task + 1) * CHUNK < n ? (task + 1) * CHUNK : n;
}

static void momentum_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const double *k = c->in[0].data;
	const real *g = c->in[1].data;
	real *m = c->out[0].data, *u = c->out[1].data;
	const real scale = (real)k[COEF_SCALE], mu = (real)c->attr.muon.momentum, rest = (real)(1 - c->attr.muon.momentum);
	int64_t end = chunk_end(c->out[0].shape[0], task);

	(void)worker;
	for (int64_t i = task * CHUNK; i < end; i++) {
		real gi = scale * g[i];

		m[i] = mu * m[i] + rest * gi;
		u[i] = mu * m[i] + rest * gi;
	}
}

static void unit_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const double norm = sqrt(*(const double *)c->in[0].data);
	const real factor = (real)(1 / (norm > MUON_SMALLEST ? norm : MUON_SMALLEST));
	real *u = c->out[0].data;
	int64_t end = chunk_end(c->out[0].shape[0], task);

	(void)worker;
	for (int64_t i = task * CHUNK; i < end; i++)
		u[i] *= factor;
}

static void apply_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const double *k = c->in[0].data;
	const real *u = c->in[1].data;
	real *p = c->out[0].data, *ema = c->out[1].data;
	uint16_t *rounded = c->nout > 2 ? c->out[2].data : NULL;
	const real rate = (real)(k[COEF_LR] * c->attr.muon.scale), shrink = (real)k[COEF_SHRINK];
	const real d = (real)k[COEF_EMA], e = (real)k[COEF_REST_EMA];
	int64_t end = chunk_end(c->out[0].shape[0], task);

	(void)worker;
	for (int64_t i = task * CHUNK; i < end; i++) {
		p[i] -= shrink * p[i] + rate * u[i];
		ema[i] = d * ema[i] + e * p[i];
		if (rounded)
			rounded[i] = f32_to_bf16((float)p[i]);
	}
}

static void run_chunks(const struct op_call *c, void (*chunk)(void *arg, int64_t task, int worker))
{
	pool_spread(c->pool, (c->out[0].shape[0] + CHUNK - 1) / CHUNK, chunk, (void *)(uintptr_t)c);
}

static void momentum_run(const struct op_call *c)
{
	if (((const double *)c->in[0].data)[COEF_GO] != 0)
		run_chunks(c, momentum_chunk);
}

static void unit_run(const struct op_call *c)
{
	run_chunks(c, unit_chunk);
}

static void apply_run(const struct op_call *c)
{
	if (((const double *)c->in[0].data)[COEF_GO] != 0)
		run_chunks(c, apply_chunk);
}

const struct kernel REAL_NAME(kernel_muon_momentum) = {momentum_run, NULL};
const struct kernel REAL_NAME(kernel_muon_unit) = {unit_run, NULL};
const struct kernel REAL_NAME(kernel_muon_apply) = {apply_run, NULL};
