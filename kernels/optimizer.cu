/* SUMSQ, TOTAL, RATES, ADAMW, SCHEDULE_FREE on the GPU; kernels/optimizer.c is the reference. */
#include "kernels/launch.h"

extern "C" {
#include "kernels/optimizer.h"
}

enum { CHUNK = SUMSQ_CHUNK };

/* Pass one: a block sums a chunk in double into part[chunk]. */
static __global__ void sumsq_chunks(int64_t n, const float *x, double *part)
{
	int64_t chunks = (n + CHUNK - 1) / CHUNK;

	for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
		int64_t end = (c + 1) * CHUNK < n ? (c + 1) * CHUNK : n;
		double sum = 0;

		for (int64_t i = c * CHUNK + threadIdx.x; i < end; i += BLOCK)
			sum += (double)x[i] * (double)x[i];
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			part[c] = sum;
	}
}

/* Pass two, one block: thread i adds part[i], part[i + BLOCK], ..; the total is added to y, or stored with `anew`. */
template <class T> static __global__ void sum_parts(int64_t n, const T *part, int64_t step, double *y, int anew)
{
	double sum = 0;

	for (int64_t i = threadIdx.x; i < n; i += BLOCK)
		sum += (double)part[i * step];
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		*y = anew ? sum : *y + sum;
}

static size_t sumsq_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return (size_t)((c->in[0].shape[0] + CHUNK - 1) / CHUNK) * sizeof(double);
}

static void sumsq_run(const struct op_call *c)
{
	int64_t n = c->in[0].shape[0], chunks = (n + CHUNK - 1) / CHUNK;
	int whole = c->out[0].shape[0] <= 1;
	double *part = (double *)(whole ? c->scratch : c->out[0].data);

	if (chunks)
		LAUNCH(c, sumsq_chunks, (unsigned)(chunks < 1 << 20 ? chunks : 1 << 20), BLOCK, n, (const float *)c->in[0].data, part);
	if (whole)
		LAUNCH(c, sum_parts, 1, BLOCK, chunks, part, (int64_t)1, (double *)c->out[0].data, 1);
}

static void total_run(const struct op_call *c)
{
	const struct array *x = &c->in[0];
	double *y = (double *)c->out[0].data;

	if (x->dtype == DT_F64)
		LAUNCH(c, sum_parts, 1, BLOCK, x->shape[0], (const double *)x->data, x->stride[0], y, c->attr.total.anew);
	else
		LAUNCH(c, sum_parts, 1, BLOCK, x->shape[0], (const float *)x->data, x->stride[0], y, c->attr.total.anew);
}

static __global__ void rates(const double *sumsq, const double *loss, const double *plan, double *coef, double *status)
{
	double norm = sqrt(*sumsq), n;
	int go = isfinite(norm) && isfinite(*loss);

	if (thread_index())
		return;
	n = status[STATUS_UPDATES] + go;
	status[STATUS_UPDATES] = n;
	status[STATUS_SKIPPED_IN_A_ROW] = go ? 0 : status[STATUS_SKIPPED_IN_A_ROW] + 1;
	status[STATUS_FINITE] = go;
	status[STATUS_NORM] = norm;
	status[STATUS_LOSS] = *loss;
	status[STATUS_LR_SQUARES] += go ? plan[PLAN_LR] * plan[PLAN_LR] : 0;
	coef[COEF_GO] = go;
	coef[COEF_SCALE] = plan[PLAN_CLIP] > 0 && norm > plan[PLAN_CLIP] ? plan[PLAN_CLIP] / norm : 1;
	coef[COEF_BETA1] = plan[PLAN_BETA1];
	coef[COEF_REST1] = 1 - plan[PLAN_BETA1];
	coef[COEF_BETA2] = plan[PLAN_BETA2];
	coef[COEF_REST2] = 1 - plan[PLAN_BETA2];
	coef[COEF_RATE] = plan[PLAN_LR] / (1 - pow(plan[PLAN_BETA1], n));
	coef[COEF_ROOT] = 1 / sqrt(1 - pow(plan[PLAN_BETA2], n));
	coef[COEF_EPS] = plan[PLAN_EPS];
	coef[COEF_SHRINK] = plan[PLAN_LR] * plan[PLAN_DECAY];
	coef[COEF_EMA] = plan[PLAN_EMA];
	coef[COEF_REST_EMA] = 1 - plan[PLAN_EMA];
	coef[COEF_LR] = plan[PLAN_LR];
	coef[COEF_AVERAGE] = go ? plan[PLAN_LR] * plan[PLAN_LR] / status[STATUS_LR_SQUARES] : 0;
}

static void rates_run(const struct op_call *c)
{
	LAUNCH(c, rates, 1, WARP, (const double *)c->in[0].data, (const double *)c->in[1].data, (const double *)c->in[2].data,
	       (double *)c->out[0].data, (double *)c->out[1].data);
}

struct adamw_arenas {
	const float *g, *mask;
	float *p, *m, *v, *ema;
	uint16_t *rounded; /* receives p as bfloat16; may be NULL */
};

static __device__ inline void adamw_one(const double *k, float g, float mask, float *p, float *m, float *v, float *ema)
{
	g *= (float)k[COEF_SCALE];
	*m = (float)k[COEF_BETA1] * *m + (float)k[COEF_REST1] * g;
	*v = (float)k[COEF_BETA2] * *v + (float)k[COEF_REST2] * g * g;
	*p -= (float)k[COEF_SHRINK] * mask * *p + (float)k[COEF_RATE] * *m / (sqrtf(*v) * (float)k[COEF_ROOT] + (float)k[COEF_EPS]);
	*ema = (float)k[COEF_EMA] * *ema + (float)k[COEF_REST_EMA] * *p;
}

static __global__ void adamw_quads(int64_t quads, const double *coef, struct adamw_arenas a)
{
	double k[COEF_COUNT];

	if (coef[COEF_GO] == 0)
		return;
	for (int i = 0; i < COEF_COUNT; i++)
		k[i] = coef[i];
	for (int64_t i = thread_index(); i < quads; i += thread_count()) {
		float4 g = ((const float4 *)a.g)[i], p = ((float4 *)a.p)[i], m = ((float4 *)a.m)[i], v = ((float4 *)a.v)[i],
		       ema = ((float4 *)a.ema)[i];
		float mask = a.mask[i / (DECAY_RUN / 4)];

		adamw_one(k, g.x, mask, &p.x, &m.x, &v.x, &ema.x);
		adamw_one(k, g.y, mask, &p.y, &m.y, &v.y, &ema.y);
		adamw_one(k, g.z, mask, &p.z, &m.z, &v.z, &ema.z);
		adamw_one(k, g.w, mask, &p.w, &m.w, &v.w, &ema.w);
		((float4 *)a.p)[i] = p;
		((float4 *)a.m)[i] = m;
		((float4 *)a.v)[i] = v;
		((float4 *)a.ema)[i] = ema;
		if (a.rounded)
			((uint2 *)a.rounded)[i] = make_uint2(bf16_pair(p.x, p.y), bf16_pair(p.z, p.w));
	}
}

static __global__ void adamw_rest(int64_t from, int64_t n, const double *coef, struct adamw_arenas a)
{
	if (coef[COEF_GO] == 0)
		return;
	for (int64_t i = from + thread_index(); i < n; i += thread_count()) {
		adamw_one(coef, a.g[i], a.mask[i / DECAY_RUN], &a.p[i], &a.m[i], &a.v[i], &a.ema[i]);
		if (a.rounded)
			a.rounded[i] = bf16_store(a.p[i]);
	}
}

static struct adamw_arenas arenas_of(const struct op_call *c)
{
	struct adamw_arenas a = {(const float *)c->in[1].data,
	                         (const float *)c->in[2].data,
	                         (float *)c->out[0].data,
	                         (float *)c->out[1].data,
	                         (float *)c->out[2].data,
	                         (float *)c->out[3].data,
	                         c->nout > 4 ? (uint16_t *)c->out[4].data : NULL};

	return a;
}

/* Arenas are aligned to 16 bytes, so that four elements are processed at a time. */
static void adamw_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0], quads = n / 4;
	const double *coef = (const double *)c->in[0].data;
	struct adamw_arenas a = arenas_of(c);

	if (quads)
		LAUNCH(c, adamw_quads, blocks_for(quads), BLOCK, quads, coef, a);
	if (n % 4)
		LAUNCH(c, adamw_rest, 1, WARP, quads * 4, n, coef, a);
}

/* One element per thread: y, z, v and x lie in p, m, v and ema. */
static __global__ void schedule_free(int64_t n, const double *k, struct adamw_arenas a)
{
	if (k[COEF_GO] == 0)
		return;
	for (int64_t i = thread_index(); i < n; i += thread_count()) {
		float g = (float)k[COEF_SCALE] * a.g[i], y = a.p[i], z = a.m[i], v = a.v[i], x = a.ema[i];

		v = (float)k[COEF_BETA2] * v + (float)k[COEF_REST2] * g * g;
		z -=
		    (float)k[COEF_SHRINK] * a.mask[i / DECAY_RUN] * y + (float)k[COEF_LR] * g / (sqrtf(v) * (float)k[COEF_ROOT] + (float)k[COEF_EPS]);
		x += (float)k[COEF_AVERAGE] * (z - x);
		y = (float)k[COEF_REST1] * z + (float)k[COEF_BETA1] * x;
		a.p[i] = y;
		a.m[i] = z;
		a.v[i] = v;
		a.ema[i] = x;
		if (a.rounded)
			a.rounded[i] = bf16_store(y);
	}
}

static void schedule_free_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0];

	if (n)
		LAUNCH(c, schedule_free, blocks_for(n), BLOCK, n, (const double *)c->in[0].data, arenas_of(c));
}

extern "C" {
extern const struct kernel kernel_sumsq_cuda = {sumsq_run, sumsq_scratch};
extern const struct kernel kernel_total_cuda = {total_run, NULL};
extern const struct kernel kernel_rates_cuda = {rates_run, NULL};
extern const struct kernel kernel_adamw_cuda = {adamw_run, NULL};
extern const struct kernel kernel_schedule_free_cuda = {schedule_free_run, NULL};
}
