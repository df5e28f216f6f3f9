/* Weight matrices packed as bf16, int8 or float (kernels/compact.h): packing, unpacking, and the product. */
#include "kernels/compact.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "kernels/compactrun.h"
#include "kernels/cut.h"

enum { NR = COMPACT_NR, KC = GEMM_KC };

const char *const encoder_weights[] = {[COMPACT_NONE] = "f32", [COMPACT_BF16] = "bf16", [COMPACT_INT8] = "int8", NULL};

enum compact_type compact_mapped(enum compact_type type, int map)
{
	return map && type == COMPACT_NONE ? COMPACT_VIEW : type;
}

const char *compact_rounding(enum compact_type t)
{
	return t == COMPACT_BF16 ? "bf16" : t == COMPACT_INT8 ? "int8" : "";
}

static struct compact_panels panels_of(const struct compact *w)
{
	return (struct compact_panels){w->type, w->n, w->k, w->data, w->scale};
}

static int64_t panel_count(const struct compact *w)
{
	return ceil_div(w->n, NR);
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
	return panel_count(w) * NR * (ceil_div(w->k, 2) * 2) * (w->type == COMPACT_BF16 ? 2 : 1);
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
	return data_bytes(w) + (w->scale ? panel_count(w) * NR * (int64_t)sizeof *w->scale : 0);
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
	struct compact_panels b = panels_of(w);
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
			void *panel = compact_panel_at(&b, k0 / KC, r / NR);

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
	struct compact_panels b = panels_of(w);
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
			const void *panel = compact_panel_at(&b, k / KC, r / NR);

			values[r * w->k + k] = w->scale ? (float)((const int8_t *)panel)[place(w, r, k)] * w->scale[r]
			                                : bf16_to_f32(((const uint16_t *)panel)[place(w, r, k)]);
		}
}

/* ---- multiplying ---- */

static struct gemm of_view(const struct compact *w)
{
	struct gemm g = plain(w);

	g.own = 1;
	return g;
}

size_t compact_scratch(const struct compact *w, int workers)
{
	struct gemm packed = w && w->type == COMPACT_VIEW ? of_view(w) : (struct gemm){.tb = GEMM_PACKED};
	size_t few = (size_t)workers * compact_own_bytes(NULL, 0), floats = gemm_scratch_f32(&packed, workers);

	return few > floats ? few : floats;
}

void compact_run(struct pool *p, enum compact_isa isa, const struct compact *w, int64_t m, float *c, int64_t ldc, const float *a, int64_t lda,
                 const struct gemm_epilogue_f32 *ep, void *scratch)
{
	struct gemm g = w->type == COMPACT_VIEW ? of_view(w) : (struct gemm){.tb = GEMM_PACKED, .n = w->n, .k = w->k};
	struct compact_panels b = panels_of(w);

	assert(!ep || (!ep->aux && !ep->row_sums));
	g.m = m;
	g.lda = lda;
	g.ldc = ldc;
	if (w->type == COMPACT_F32 || w->type == COMPACT_VIEW)
		gemm_run_f32(p, &g, c, a, w->data, ep, scratch);
	else
		compact_multiply(p, compact_kernel_of(isa), &g, 0, &b, c, a, ep, scratch, NULL);
}
