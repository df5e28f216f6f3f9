/* The optimizer's passes on the CPU: SUMSQ, TOTAL, RATES, ADAMW, SCHEDULE_FREE. */
#include "core/samemath.h"
#include "core/shortfloat.h"
#include "kernels/optimizer.h"

#include <math.h>

#include "file/safetensors.h"
#include "kernels/device.h"
#include "kernels/real.h"

enum {
	CHUNK = SUMSQ_CHUNK,
	LANES = 16,
	SOON_SUMSQ = 4096, /* elements by which SUMSQ prefetches; */
	SOON_UPDATE = 1024 /* and an update, in each of its five arrays. The processor by itself prefetches too late. */
};

static int64_t chunks(int64_t n)
{
	return (n + CHUNK - 1) / CHUNK;
}

static int64_t chunk_length(int64_t n, int64_t task)
{
	return n - task * CHUNK < CHUNK ? n - task * CHUNK : CHUNK;
}

static void round_weights(uint16_t *restrict rounded, const real *restrict p, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		rounded[i] = f32_to_bf16((float)p[i]);
}

/* Prefetch a run of elements of the gradient and of four arrays that are read and written. Always inlined, because GCC leaves out calls of a function
 * that does nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_run(const real *g, const real *a, const real *b, const real *c, const real *d)
{
	__builtin_prefetch(g + SOON_UPDATE);
	__builtin_prefetch(a + SOON_UPDATE, 1);
	__builtin_prefetch(b + SOON_UPDATE, 1);
	__builtin_prefetch(c + SOON_UPDATE, 1);
	__builtin_prefetch(d + SOON_UPDATE, 1);
}

static void adamw_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	int64_t from = task * CHUNK, n = chunk_length(c->out[0].shape[0], task);
	const double *k = c->in[0].data;
	const real *restrict g = (const real *)c->in[1].data + from, *restrict mask = (const real *)c->in[2].data + from / DECAY_RUN;
	real *restrict p = (real *)c->out[0].data + from, *restrict m = (real *)c->out[1].data + from, *restrict v = (real *)c->out[2].data + from,
		       *restrict ema = (real *)c->out[3].data + from;
	const real b1 = (real)k[COEF_BETA1], c1 = (real)k[COEF_REST1], b2 = (real)k[COEF_BETA2], c2 = (real)k[COEF_REST2];
	const real rate = (real)k[COEF_RATE], root = (real)k[COEF_ROOT], eps = (real)k[COEF_EPS], shrink = (real)k[COEF_SHRINK];
	const real d = (real)k[COEF_EMA], e = (real)k[COEF_REST_EMA], scale = (real)k[COEF_SCALE];

	(void)worker;
	for (int64_t at = 0; at < n; at += DECAY_RUN) {
		const real decay = shrink * mask[at / DECAY_RUN];
		int64_t end = n - at < DECAY_RUN ? n : at + DECAY_RUN;

		prefetch_run(g + at, p + at, m + at, v + at, ema + at);
		for (int64_t i = at; i < end; i++) {
			real gi = scale * g[i], mi = b1 * m[i] + c1 * gi, vi = b2 * v[i] + c2 * gi * gi, pi = p[i];

			pi -= decay * pi + rate * mi / (REAL_M(sqrt)(vi) * root + eps);
			m[i] = mi;
			v[i] = vi;
			p[i] = pi;
			ema[i] = d * ema[i] + e * pi;
		}
	}
	if (c->nout > 4)
		round_weights((uint16_t *)c->out[4].data + from, p, n);
}

static void adamw_run(const struct op_call *c)
{
	if (((const double *)c->in[0].data)[COEF_GO] != 0)
		pool_spread(c->pool, chunks(c->out[0].shape[0]), adamw_chunk, (void *)(uintptr_t)c);
}

static void schedule_free_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	int64_t from = task * CHUNK, n = chunk_length(c->out[0].shape[0], task);
	const double *k = c->in[0].data;
	const real *restrict g = (const real *)c->in[1].data + from, *restrict mask = (const real *)c->in[2].data + from / DECAY_RUN;
	real *restrict y = (real *)c->out[0].data + from, *restrict z = (real *)c->out[1].data + from, *restrict v = (real *)c->out[2].data + from,
		       *restrict x = (real *)c->out[3].data + from;
	const real b1 = (real)k[COEF_BETA1], c1 = (real)k[COEF_REST1], b2 = (real)k[COEF_BETA2], c2 = (real)k[COEF_REST2];
	const real lr = (real)k[COEF_LR], root = (real)k[COEF_ROOT], eps = (real)k[COEF_EPS], shrink = (real)k[COEF_SHRINK];
	const real average = (real)k[COEF_AVERAGE], scale = (real)k[COEF_SCALE];

	(void)worker;
	for (int64_t at = 0; at < n; at += DECAY_RUN) {
		const real decay = shrink * mask[at / DECAY_RUN];
		int64_t end = n - at < DECAY_RUN ? n : at + DECAY_RUN;

		prefetch_run(g + at, y + at, z + at, v + at, x + at);
		for (int64_t i = at; i < end; i++) {
			real gi = scale * g[i], vi = b2 * v[i] + c2 * gi * gi, zi = z[i], xi = x[i];

			zi -= decay * y[i] + lr * gi / (REAL_M(sqrt)(vi) * root + eps);
			xi += average * (zi - xi);
			v[i] = vi;
			z[i] = zi;
			x[i] = xi;
			y[i] = c1 * zi + b1 * xi;
		}
	}
	if (c->nout > 4)
		round_weights((uint16_t *)c->out[4].data + from, y, n);
}

static void schedule_free_run(const struct op_call *c)
{
	if (((const double *)c->in[0].data)[COEF_GO] != 0)
		pool_spread(c->pool, chunks(c->out[0].shape[0]), schedule_free_chunk, (void *)(uintptr_t)c);
}

static void rates_run(const struct op_call *c)
{
	const double *plan = c->in[2].data, loss = *(const double *)c->in[1].data, norm = sqrt(*(const double *)c->in[0].data);
	double *coef = c->out[0].data, *status = c->out[1].data;
	int go = isfinite(norm) && isfinite(loss);
	double n = status[STATUS_UPDATES] + go;

	status[STATUS_UPDATES] = n;
	status[STATUS_SKIPPED_IN_A_ROW] = go ? 0 : status[STATUS_SKIPPED_IN_A_ROW] + 1;
	status[STATUS_FINITE] = go;
	status[STATUS_NORM] = norm;
	status[STATUS_LOSS] = loss;
	status[STATUS_LR_SQUARES] += go ? plan[PLAN_LR] * plan[PLAN_LR] : 0;
	coef[COEF_GO] = go;
	coef[COEF_SCALE] = plan[PLAN_CLIP] > 0 && norm > plan[PLAN_CLIP] ? plan[PLAN_CLIP] / norm : 1;
	coef[COEF_BETA1] = plan[PLAN_BETA1];
	coef[COEF_REST1] = 1 - plan[PLAN_BETA1];
	coef[COEF_BETA2] = plan[PLAN_BETA2];
	coef[COEF_REST2] = 1 - plan[PLAN_BETA2];
	coef[COEF_RATE] = plan[PLAN_LR] / (1 - same_pow(plan[PLAN_BETA1], n));
	coef[COEF_ROOT] = 1 / sqrt(1 - same_pow(plan[PLAN_BETA2], n));
	coef[COEF_EPS] = plan[PLAN_EPS];
	coef[COEF_SHRINK] = plan[PLAN_LR] * plan[PLAN_DECAY];
	coef[COEF_EMA] = plan[PLAN_EMA];
	coef[COEF_REST_EMA] = 1 - plan[PLAN_EMA];
	coef[COEF_LR] = plan[PLAN_LR];
	coef[COEF_AVERAGE] = go ? plan[PLAN_LR] * plan[PLAN_LR] / status[STATUS_LR_SQUARES] : 0;
}

/* Where the chunks' sums go: to y itself, if they are what is wanted. Of one chunk both are the same. */
static double *partial_sums(const struct op_call *c)
{
	return c->out[0].shape[0] > 1 ? c->out[0].data : c->scratch;
}

static void sumsq_chunk(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	int64_t n = chunk_length(c->in[0].shape[0], task), i = 0;
	const real *x = (const real *)c->in[0].data + task * CHUNK;
	double lane[LANES] = {0}, sum = 0;

	(void)worker;
	for (; i + LANES <= n; i += LANES) {
		__builtin_prefetch(x + i + SOON_SUMSQ);
		for (int k = 0; k < LANES; k++)
			lane[k] += (double)x[i + k] * (double)x[i + k];
	}
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	for (; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	partial_sums(c)[task] = sum;
}

static void sumsq_run(const struct op_call *c)
{
	const double *partial = c->scratch;
	int64_t n = chunks(c->in[0].shape[0]);
	double sum = 0;

	pool_spread(c->pool, n, sumsq_chunk, (void *)(uintptr_t)c);
	if (c->out[0].shape[0] > 1)
		return;
	for (int64_t i = 0; i < n; i++)
		sum += partial[i];
	*(double *)c->out[0].data = sum;
}

static size_t sumsq_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return (size_t)chunks(c->in[0].shape[0]) * sizeof(double);
}

static void total_run(const struct op_call *c)
{
	const struct array *a = &c->in[0];
	double *y = c->out[0].data, sum = c->attr.total.anew ? 0 : *y;

	for (int64_t i = 0; i < a->shape[0]; i++)
		sum += a->dtype == DT_F64 ? ((const double *)a->data)[i * a->stride[0]] : (double)((const real *)a->data)[i * a->stride[0]];
	*y = sum;
}

const struct kernel REAL_NAME(kernel_adamw) = {adamw_run, NULL};
const struct kernel REAL_NAME(kernel_schedule_free) = {schedule_free_run, NULL};
const struct kernel REAL_NAME(kernel_rates) = {rates_run, NULL};
const struct kernel REAL_NAME(kernel_sumsq) = {sumsq_run, sumsq_scratch};
const struct kernel REAL_NAME(kernel_total) = {total_run, NULL};
