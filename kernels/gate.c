/* GATE and its gradient on the CPU. */
#include "kernels/device.h"

#include "kernels/bf16.h"
#include "kernels/fold.h"
#include "kernels/lanes.h"

static void gate_dense(real *y, const real *x, const real *g, const real *h, int64_t n)
{
	INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = REAL_FMA(g[i], h[i], x[i]);
}

static void gate_value(real *y, const real *x, real g, const real *h, int64_t n)
{
	INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = REAL_FMA(g, h[i], x[i]);
}

static void gate_span(const struct each *e, real *const p[], int64_t n)
{
	int64_t s[4], dense = 1;

	for (int a = 0; a < 4; a++)
		s[a] = each_step(e, a);
	dense = s[0] == 1 && s[1] == 1 && s[3] == 1;
	if (dense && s[2] == 1)
		gate_dense(p[0], p[1], p[2], p[3], n);
	else if (dense && !s[2])
		gate_value(p[0], p[1], p[2][0], p[3], n);
	else
		for (int64_t i = 0; i < n; i++)
			p[0][i * s[0]] = REAL_FMA(p[2][i * s[2]], p[3][i * s[3]], p[1][i * s[1]]);
}

static void gate_run(const struct op_call *c)
{
	struct each e;

	each_init(&e, c, &c->out[0]);
	each_add(&e, &c->out[0]);
	for (int i = 0; i < 3; i++)
		each_add(&e, &c->in[i]);
	each_run(&e, gate_span);
}

enum { DY, G, H, DH, BLOCK = 32 };

/* n <= BLOCK numbers of dh, rounded to bf16. Inlined for constants. */
static inline __attribute__((always_inline)) void round_gated(uint16_t *dh, const real *g, int64_t gs, const real *dy, int64_t n)
{
	real x[BLOCK];

	for (int64_t i = 0; i < n; i++)
		x[i] = g[i * gs] * dy[i];
	bf16_store(dh, (const float *)x, n);
}

static void round_row(uint16_t *dh, const real *g, int64_t gs, const real *dy, int64_t n)
{
	int64_t i = 0;

	for (; gs == 1 && i + BLOCK <= n; i += BLOCK)
		round_gated(dh + i, g + i, 1, dy + i, BLOCK);
	for (; i < n; i += BLOCK)
		round_gated(dh + i, g + i * gs, gs, dy + i, n - i < BLOCK ? n - i : BLOCK);
}

static void gate_grad_row(const struct fold *f, real *const p[], real *const sum[])
{
	int64_t gs = f->w.stride[G][f->w.rank - 1], n = f->cols;
	const real *restrict dy = p[DY], *restrict g = p[G], *restrict h = p[H];
	real *restrict dh = p[DH], *restrict to = sum[0];

	if (to && f->width == n && n > 1)
		for (int64_t i = 0; i < n; i++)
			to[i] = REAL_FMA(dy[i], h[i], to[i]);
	else if (to)
		to[0] += lanes_dot(dy, h, n);
	if (f->c->out[0].dtype == DT_BF16)
		round_row((uint16_t *)(void *)dh, g, gs, dy, n);
	else if (gs == 1)
		for (int64_t i = 0; i < n; i++)
			dh[i] = g[i] * dy[i];
	else
		for (int64_t i = 0; i < n; i++)
			dh[i] = g[i * gs] * dy[i];
}

static void gate_grad_run(const struct op_call *c)
{
	struct fold f;

	fold_init(&f, c, &c->in[0]);
	for (int i = 0; i < 3; i++)
		fold_add(&f, &c->in[i]);
	fold_add(&f, &c->out[0]);
	if (c->out[1].data)
		fold_sum(&f, 0, &c->out[1]);
	fold_run(&f, gate_grad_row);
}

static size_t gate_grad_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return fold_scratch(&c->in[0], &c->out[1]);
}

const struct kernel REAL_NAME(kernel_gate) = {gate_run, NULL};
const struct kernel REAL_NAME(kernel_gate_grad) = {gate_grad_run, gate_grad_scratch};
