/* Matrices packed as bf16 or int8 (kernels/compact.h): choosing the instruction set, packing and unpacking. */
#include "kernels/compact.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "kernels/compacttile.h"
#include "kernels/vmath.h"

enum {
	MR = COMPACT_MR,
	NR = COMPACT_NR,
	KC = GEMM_KC,
	MC = 16 * MR,   /* rows of a task, at most */
	PANELS = 12,    /* panels of a task, at most; each task rounds its rows of x, so few panels would be slow */
	TASKS_EACH = 4, /* with fewer tasks per worker, tasks are made smaller */
};

const char *const encoder_weights[] = {[COMPACT_NONE] = "f32", [COMPACT_BF16] = "bf16", [COMPACT_INT8] = "int8", NULL};

enum compact_type compact_mapped(enum compact_type type, int map)
{
	return map && type == COMPACT_NONE ? COMPACT_VIEW : type;
}

const char *compact_rounding(enum compact_type t)
{
	return t == COMPACT_BF16 ? "bf16" : t == COMPACT_INT8 ? "int8" : "";
}

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* The number of k's in a chunk; chunk_pairs: of pairs of k's. */
static int64_t chunk_len(const struct compact *w, int64_t chunk)
{
	return min64(KC, w->k - chunk * KC);
}

static int64_t chunk_pairs(const struct compact *w, int64_t chunk)
{
	return ceil_div(chunk_len(w, chunk), 2);
}

static int64_t panels(const struct compact *w)
{
	return ceil_div(w->n, NR);
}

static size_t element(const struct compact *w)
{
	return w->type == COMPACT_BF16 ? 2 : 1;
}

/* W as operand B of a product. */
static struct gemm plain(const struct compact *w)
{
	return (struct gemm){.tb = GEMM_T, .n = w->n, .k = w->k, .ldb = w->k};
}

static int64_t data_bytes(const struct compact *w)
{
	struct gemm g = plain(w);

	if (w->type == COMPACT_VIEW)
		return 0;
	if (w->type == COMPACT_F32)
		return gemm_packed_f32(&g) * (int64_t)sizeof(float);
	return panels(w) * NR * (ceil_div(w->k, 2) * 2) * (int64_t)element(w);
}

/* KC is even, so a chunk starts at pair chunk * KC / 2. */
static void *panel_at(const struct compact *w, int64_t chunk, int64_t panel)
{
	int64_t pair = chunk * (KC / 2) * panels(w) + panel * chunk_pairs(w, chunk);

	return (char *)w->data + (size_t)(pair * 2 * NR) * element(w);
}

/* ---- storing ---- */

int compact_init(struct compact *w, enum compact_type type, int64_t n, int64_t k, struct err *e)
{
	size_t rows = (size_t)(ceil_div(n, NR) * NR);

	assert(type != COMPACT_NONE && type != COMPACT_VIEW && n > 0 && k > 0);
	*w = (struct compact){.type = type, .n = n, .k = k};
	w->data = mem_try((size_t)data_bytes(w), 1, "weights", e);
	if (w->data && type == COMPACT_INT8)
		w->scale = mem_try(rows, sizeof *w->scale, "weights", e);
	return w->data && (w->scale || type != COMPACT_INT8) ? 0 : -1;
}

void compact_view(struct compact *w, const float *values, int64_t n, int64_t k)
{
	*w = (struct compact){.type = COMPACT_VIEW, .n = n, .k = k, .data = (void *)(uintptr_t)values};
}

void compact_release(struct compact *w)
{
	mem_free(w->type == COMPACT_VIEW ? NULL : w->data);
	mem_free(w->scale);
	*w = (struct compact){0};
}

int64_t compact_bytes(const struct compact *w)
{
	return data_bytes(w) + (w->scale ? panels(w) * NR * (int64_t)sizeof *w->scale : 0);
}

static float row_scale(const float *x, int64_t k)
{
	float most = 0;

	for (int64_t i = 0; i < k; i++) {
		if (!isfinite(x[i]))
			return NAN;
		most = fmaxf(most, fabsf(x[i]));
	}
	return most / 127;
}

/* Clamped, because rounding of a subnormal scale can push q out of -127 .. 127. */
static int8_t quantise(float x, float scale)
{
	return scale > 0 ? (int8_t)fmaxf(-127, fminf(127, rintf(x / scale))) : 0;
}

/* The index of W[row][k] in its panel. */
static int64_t place(const struct compact *w, int64_t row, int64_t k)
{
	int64_t pair = k % KC / 2;

	return w->type == COMPACT_BF16 ? (pair * NR + row % NR) * 2 + k % 2 : (pair * 2 + k % 2) * NR + row % NR;
}

void compact_pack(struct compact *w, const float *values)
{
	struct gemm g = plain(w);

	if (w->type == COMPACT_F32) {
		gemm_pack_f32(&g, w->data, values);
		return;
	}
	for (int64_t r = 0; r < w->n; r++) {
		const float *x = values + r * w->k;

		if (w->scale)
			w->scale[r] = row_scale(x, w->k);
		for (int64_t k0 = 0; k0 < w->k; k0 += KC) {
			void *panel = panel_at(w, k0 / KC, r / NR);

			for (int64_t k = k0; k < min64(k0 + KC, w->k); k++)
				if (w->scale)
					((int8_t *)panel)[place(w, r, k)] = quantise(x[k], w->scale[r]);
				else
					((uint16_t *)panel)[place(w, r, k)] = f32_to_bf16(x[k]);
		}
	}
}

void compact_unpack(const struct compact *w, float *values)
{
	struct gemm g = plain(w);

	if (w->type == COMPACT_VIEW) {
		memcpy(values, w->data, (size_t)(w->n * w->k) * sizeof *values);
		return;
	}
	if (w->type == COMPACT_F32) {
		gemm_unpack_f32(&g, values, w->data);
		return;
	}
	for (int64_t r = 0; r < w->n; r++)
		for (int64_t k = 0; k < w->k; k++) {
			const void *panel = panel_at(w, k / KC, r / NR);

			values[r * w->k + k] = w->scale ? (float)((const int8_t *)panel)[place(w, r, k)] * w->scale[r]
			                                : bf16_to_f32(((const uint16_t *)panel)[place(w, r, k)]);
		}
}

/* ---- multiplying ---- */

#if defined(__x86_64__)

enum compact_isa compact_isa(void)
{
	return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? COMPACT_AVX512_BF16
	                                                                                                                        : COMPACT_PORTABLE;
}

static const struct compact_kernel *kernel_of(enum compact_isa isa)
{
	return isa == COMPACT_AVX512_BF16 ? &compact_avx512 : &compact_portable;
}

#else

enum compact_isa compact_isa(void)
{
	return COMPACT_PORTABLE;
}

static const struct compact_kernel *kernel_of(enum compact_isa isa)
{
	(void)isa;
	return &compact_portable;
}

#endif

struct job {
	const struct compact *w;
	const struct compact_kernel *kernel;
	int64_t m, ldc, lda;
	float *c;
	const float *a;
	const struct gemm_epilogue_f32 *ep;
	int64_t mc, np; /* a task's rows and panels */
	int64_t mt;     /* number of tasks along M */
	char *own;      /* scratch of worker 0 */
};

/* Bytes of a worker's scratch: a panel widened to bf16, then rounded rows of x. */
enum { WIDE = COMPACT_PAIRS * NR * 4, OWN = WIDE + MC * KC * 4 };

static struct gemm of_view(const struct compact *w)
{
	struct gemm g = plain(w);

	g.own = 1;
	return g;
}

size_t compact_scratch(const struct compact *w, int workers)
{
	struct gemm packed = w && w->type == COMPACT_VIEW ? of_view(w) : (struct gemm){.tb = GEMM_PACKED};
	size_t few = (size_t)workers * OWN, floats = gemm_scratch_f32(&packed, workers);

	return few > floats ? few : floats;
}

/* Add the earlier chunks, and with `last` apply scale, bias and activation. Inlined for a constant n in the common case. */
static inline __attribute__((always_inline)) void row_finish(const struct job *s, float *restrict c, const float *restrict sum, int64_t j, int64_t n,
                                                             int64_t chunk, int last)
{
	const float *scale = last && s->w->scale ? s->w->scale + j : NULL, *bias = last && s->ep && s->ep->bias ? s->ep->bias + j : NULL;
	enum gemm_act act = last && s->ep ? s->ep->act : GEMM_LINEAR;
	float z[NR];

	for (int64_t v = 0; v < n; v++)
		z[v] = sum[v];
	for (int64_t v = 0; chunk && v < n; v++)
		z[v] += c[v];
	for (int64_t v = 0; scale && v < n; v++)
		z[v] *= scale[v];
	for (int64_t v = 0; bias && v < n; v++)
		z[v] += bias[v];
	if (act == GEMM_SILU)
		for (int64_t v = 0; v < n; v++)
			c[v] = real_silu(z[v]);
	else if (act == GEMM_GELU)
		for (int64_t v = 0; v < n; v++)
			c[v] = real_gelu(z[v]);
	else
		for (int64_t v = 0; v < n; v++)
			c[v] = z[v];
}

/* Compute one panel's columns of rows [i0, i1), one chunk of K. */
static void panel_run(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, int64_t panel, const char *rows, void *wide)
{
	const struct compact *w = s->w;
	int64_t pairs = chunk_pairs(w, chunk), j = panel * NR, n = min64(NR, w->n - j), step = s->kernel->row(pairs);
	int last = (chunk + 1) * KC >= w->k;
	const void *b = panel_at(w, chunk, panel);
	float sum[MR * NR] __attribute__((aligned(64)));

	if (w->type == COMPACT_INT8) {
		s->kernel->widen(wide, b, pairs);
		b = wide;
	}
	for (int64_t i = i0; i < i1; i += MR) {
		int64_t m = min64(MR, i1 - i);
		float *c = s->c + i * s->ldc + j;

		for (int64_t r = 0; r < m; r++)
			for (int64_t v = 0; v < n; v += 16)
				__builtin_prefetch(c + r * s->ldc + v, 1);
		s->kernel->tile(sum, rows + (i - i0) * step, b, pairs, m);
		for (int64_t r = 0; r < m; r++)
			if (n == NR)
				row_finish(s, c + r * s->ldc, sum + r * NR, j, NR, chunk, last);
			else
				row_finish(s, c + r * s->ldc, sum + r * NR, j, n, chunk, last);
	}
}

static void task_tile(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	const struct compact *w = s->w;
	int64_t i0 = task % s->mt * s->mc, i1 = min64(i0 + s->mc, s->m), p0 = task / s->mt * s->np, p1 = min64(p0 + s->np, panels(w));
	char *wide = s->own + (size_t)worker * OWN, *rows = wide + WIDE;

	for (int64_t chunk = 0; chunk * KC < w->k; chunk++) {
		int64_t step = s->kernel->row(chunk_pairs(w, chunk));

		for (int64_t i = i0; i < i1; i++)
			s->kernel->round(rows + (i - i0) * step, s->a + i * s->lda + chunk * KC, chunk_len(w, chunk));
		for (int64_t p = p0; p < p1; p++)
			panel_run(s, i0, i1, chunk, p, rows, wide);
	}
}

/* Halve tasks until there is work for every worker: first along panels while there are enough, then along rows, then along panels again. */
static void job_cut(struct job *s, int workers)
{
	int64_t want = workers > 1 ? (int64_t)workers * TASKS_EACH : 1, all = panels(s->w);

	s->mc = min64(MC, ceil_div(s->m, MR) * MR);
	s->np = min64(PANELS, all);
	while (ceil_div(s->m, s->mc) * ceil_div(all, s->np) < want) {
		if (s->np > 4)
			s->np = ceil_div(s->np, 2);
		else if (s->mc > 4 * MR)
			s->mc = ceil_div(s->mc / 2, MR) * MR;
		else if (s->np > 1)
			s->np = ceil_div(s->np, 2);
		else
			break;
	}
	s->mt = ceil_div(s->m, s->mc);
}

void compact_run(struct pool *p, enum compact_isa isa, const struct compact *w, int64_t m, float *c, int64_t ldc, const float *a, int64_t lda,
                 const struct gemm_epilogue_f32 *ep, void *scratch)
{
	struct job s = {.w = w, .kernel = kernel_of(isa), .m = m, .ldc = ldc, .lda = lda, .c = c, .a = a, .ep = ep, .own = scratch};
	struct gemm g = w->type == COMPACT_VIEW ? of_view(w) : (struct gemm){.tb = GEMM_PACKED, .n = w->n, .k = w->k};

	assert(!ep || (!ep->aux && !ep->row_sums));
	if (!m)
		return;
	if (w->type == COMPACT_F32 || w->type == COMPACT_VIEW) {
		g.m = m;
		g.lda = lda;
		g.ldc = ldc;
		gemm_run_f32(p, &g, c, a, w->data, ep, scratch);
		return;
	}
	job_cut(&s, pool_threads(p));
	pool_run(p, s.mt * ceil_div(panels(w), s.np), task_tile, &s);
}
