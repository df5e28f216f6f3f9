#include "kernels/winograd.h"

#include <assert.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/walk.h"
#include "kernels/vmath.h"

enum {
	POINTS = 16,     /* of a transform of 4 x 4 */
	VALUES = 12288,  /* tiles times channels of a task: what it transforms stays in the second-level cache */
	FEWEST = 24,     /* tiles of a task, at least */
	MOST = 96,       /* and at most: all multiples of the product's rows */
	COLUMNS = 128,   /* output channels between two transforms back */
	APART = 16,      /* keeps rows off each other's cache sets */
	CHANNELS = 32,   /* below which, in or out, the transforms cost what they save */
	TILES = 100      /* of a sample, likewise */
};

struct winograd {
	const struct op_call *c;
	const real *x, *w, *bias, *add;
	real *y, *pre;
	int64_t xs[3], ys, as, ps; /* strides: of x by dimension, of the others' pixels */
	int64_t h, wide, ch, o, ho, wo, top, left;
	int64_t down, across; /* tiles of 2 x 2 */
	int64_t block, blocks; /* tiles of a task, tasks of a sample */
	int64_t panels;
	int width;
	int act;
	real *u;       /* [POINTS][panels][ch][width], points `point` apart */
	int64_t point;
	real *own;  /* scratch of worker 0 */
	int64_t each;
};

#ifdef REAL_IS_FLOAT
int winograd_takes(const struct op_call *c)
{
	const struct array *y = &c->out[0], *w = &c->in[1];
	int64_t tiles = ((y->shape[1] + 1) / 2) * ((y->shape[2] + 1) / 2);

	return w->shape[1] == 3 && w->shape[2] == 3 && c->attr.i[1] == 1 && w->shape[0] >= CHANNELS && w->shape[3] >= CHANNELS &&
	       tiles >= TILES;
}
#endif

static int64_t row_stride(const struct array *a)
{
	int64_t stride = 0;
	int walks = array_row_stride(a, &stride);

	assert(walks);
	(void)walks;
	return stride;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static void sizes(struct winograd *g, const struct op_call *c)
{
	const struct array *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];

	*g = (struct winograd){.c = c, .h = x->shape[1], .wide = x->shape[2], .ch = x->shape[3], .o = w->shape[0], .ho = y->shape[1],
	                       .wo = y->shape[2], .top = c->attr.i[2], .left = c->attr.i[3], .width = REAL_NAME(gemm_width)()};
	g->down = (g->ho + 1) / 2;
	g->across = (g->wo + 1) / 2;
	g->block = VALUES / g->ch / FEWEST * FEWEST;
	g->block = g->block < FEWEST ? FEWEST : g->block > MOST ? MOST : g->block;
	g->blocks = ceil_div(g->down * g->across, g->block);
	g->panels = ceil_div(g->o, g->width);
	g->each = POINTS * g->block * (g->ch + APART + COLUMNS + APART);
	g->point = g->panels * g->width * g->ch + APART;
	if (g->each < 9 * (g->ch * g->width + APART))
		g->each = 9 * (g->ch * g->width + APART);
	g->each = (g->each + 15) / 16 * 16;
}

size_t REAL_NAME(winograd_scratch)(const struct op_call *c, int workers)
{
	struct winograd g;

	sizes(&g, c);
	return (size_t)(POINTS * g.point + workers * g.each) * sizeof(real);
}

/* G g G^T of n kernels side by side: taps[9] `apart`, u[POINTS] `step` apart. */
static void weights_of(const real *restrict taps, int64_t apart, real *restrict u, int64_t step, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real m[4][3];

		for (int k = 0; k < 3; k++) {
			real a = taps[k * apart + i], b = taps[(3 + k) * apart + i], c = taps[(6 + k) * apart + i];

			m[0][k] = a;
			m[1][k] = (a + b + c) * REAL_C(0.5);
			m[2][k] = (a - b + c) * REAL_C(0.5);
			m[3][k] = c;
		}
		for (int r = 0; r < 4; r++) {
			u[4 * r * step + i] = m[r][0];
			u[(4 * r + 1) * step + i] = (m[r][0] + m[r][1] + m[r][2]) * REAL_C(0.5);
			u[(4 * r + 2) * step + i] = (m[r][0] - m[r][1] + m[r][2]) * REAL_C(0.5);
			u[(4 * r + 3) * step + i] = m[r][2];
		}
	}
}

/* One panel of the weights, for all input channels. */
static void weights_task(void *arg, int64_t panel, int worker)
{
	const struct winograd *g = arg;
	int64_t first = panel * g->width, n = g->o - first < g->width ? g->o - first : g->width, size = g->ch * g->width;
	real *taps = g->own + worker * g->each;

	for (int64_t t = 0; t < 9; t++)
		REAL_NAME(gemm_panel)(taps + t * (size + APART), g->w + (first * 9 + t) * g->ch, 9 * g->ch, n, g->ch);
	weights_of(taps, size + APART, g->u + panel * size, g->point, size);
}

/* B^T d B of one tile: d its 16 pixels (NULL: outside), out[POINTS] `step` apart. */
static void forward_tile(const real *const d[POINTS], real *restrict out, int64_t step, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real m[4][4];

		for (int k = 0; k < 4; k++) {
			real a = d[k][i], b = d[4 + k][i], c = d[8 + k][i], e = d[12 + k][i];

			m[0][k] = a - c;
			m[1][k] = b + c;
			m[2][k] = c - b;
			m[3][k] = b - e;
		}
		for (int r = 0; r < 4; r++) {
			out[4 * r * step + i] = m[r][0] - m[r][2];
			out[(4 * r + 1) * step + i] = m[r][1] + m[r][2];
			out[(4 * r + 2) * step + i] = m[r][2] - m[r][1];
			out[(4 * r + 3) * step + i] = m[r][1] - m[r][3];
		}
	}
}

/* v [POINTS][block][ch + APART] of tiles [first, first + n) of a sample; zeros: ch of them. */
static void transform_in(const struct winograd *g, int64_t sample, int64_t first, int64_t n, real *v, const real *zeros)
{
	int64_t ld = g->ch + APART;

	for (int64_t t = 0; t < n; t++) {
		int64_t y = (first + t) / g->across * 2 - g->top, x = (first + t) % g->across * 2 - g->left;
		const real *d[POINTS];

		for (int k = 0; k < POINTS; k++) {
			int64_t py = y + k / 4, px = x + k % 4;

			d[k] = py < 0 || py >= g->h || px < 0 || px >= g->wide ? zeros : g->x + sample * g->xs[0] + py * g->xs[1] + px * g->xs[2];
		}
		forward_tile(d, v + t * ld, g->block * ld, g->ch);
	}
}

static void finish_row(const struct winograd *g, int64_t pixel, int64_t o0, int64_t n, real *restrict z)
{
	real *y = g->y + pixel * g->ys + o0;

	if (g->add)
		for (int64_t i = 0; i < n; i++)
			z[i] += g->add[pixel * g->as + o0 + i];
	if (g->bias)
		for (int64_t i = 0; i < n; i++)
			z[i] += g->bias[o0 + i];
	if (g->pre)
		memcpy(g->pre + pixel * g->ps + o0, z, (size_t)n * sizeof *z);
	if (g->act == UNARY_SILU)
		for (int64_t i = 0; i < n; i++)
			y[i] = real_silu(z[i]);
	else if (g->act == UNARY_GELU_TANH)
		for (int64_t i = 0; i < n; i++)
			y[i] = real_gelu(z[i]);
	else if (g->act == UNARY_RELU)
		for (int64_t i = 0; i < n; i++)
			y[i] = z[i] < 0 ? 0 : z[i];
	else
		memcpy(y, z, (size_t)n * sizeof *y);
}

/* A^T m A of one tile: m[POINTS] `step` apart to the four pixels of out[4][COLUMNS]. */
static void back_tile(const real *restrict m, int64_t step, real (*restrict out)[COLUMNS], int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		real s[2][4];

		for (int k = 0; k < 4; k++) {
			real a = m[k * step + i], b = m[(4 + k) * step + i], c = m[(8 + k) * step + i], e = m[(12 + k) * step + i];

			s[0][k] = a + b + c;
			s[1][k] = b - c - e;
		}
		for (int r = 0; r < 2; r++) {
			out[2 * r][i] = s[r][0] + s[r][1] + s[r][2];
			out[2 * r + 1][i] = s[r][1] - s[r][2] - s[r][3];
		}
	}
}

static void transform_out(const struct winograd *g, int64_t sample, int64_t first, int64_t n, const real *m, int64_t o0, int64_t columns)
{
	int64_t ld = COLUMNS + APART;
	real out[4][COLUMNS];

	for (int64_t t = 0; t < n; t++) {
		int64_t y = (first + t) / g->across * 2, x = (first + t) % g->across * 2;

		back_tile(m + t * ld, g->block * ld, out, columns);
		for (int k = 0; k < 4; k++)
			if (y + k / 2 < g->ho && x + k % 2 < g->wo)
				finish_row(g, (sample * g->ho + y + k / 2) * g->wo + x + k % 2, o0, columns, out[k]);
	}
}

static void block_task(void *arg, int64_t task, int worker)
{
	const struct winograd *g = arg;
	int64_t sample = task / g->blocks, first = task % g->blocks * g->block, all = g->down * g->across;
	int64_t n = all - first < g->block ? all - first : g->block, ld = g->ch + APART, size = g->ch * g->width;
	real *v = g->own + worker * g->each, *m = v + POINTS * g->block * ld;

	memset(m, 0, (size_t)g->ch * sizeof *m); /* zeros, for now */
	transform_in(g, sample, first, n, v, m);
	for (int64_t o0 = 0; o0 < g->o; o0 += COLUMNS) {
		int64_t columns = g->o - o0 < COLUMNS ? g->o - o0 : COLUMNS;

		for (int64_t k = 0; k < POINTS; k++)
			REAL_NAME(gemm_panels)(m + k * g->block * (COLUMNS + APART), COLUMNS + APART, v + k * g->block * ld, ld,
			                       g->u + k * g->point + o0 / g->width * size, n, columns, g->ch);
		transform_out(g, sample, first, n, m, o0, columns);
	}
}

static const real *optional(const struct array *a, int n, int i)
{
	return i < n ? a[i].data : NULL;
}

void REAL_NAME(winograd_run)(const struct op_call *c)
{
	struct winograd g;

	sizes(&g, c);
	g.x = c->in[0].data;
	memcpy(g.xs, c->in[0].stride, sizeof g.xs);
	g.w = c->in[1].data;
	g.bias = optional(c->in, c->nin, 2);
	g.add = optional(c->in, c->nin, 3);
	g.y = c->out[0].data;
	g.pre = (real *)optional(c->out, c->nout, 1);
	g.ys = row_stride(&c->out[0]);
	g.as = g.add ? row_stride(&c->in[3]) : 0;
	g.ps = g.pre ? row_stride(&c->out[1]) : 0;
	g.act = (int)c->attr.i[0] - 1;
	g.u = c->scratch;
	g.own = g.u + POINTS * g.point;
	pool_run(c->pool, g.panels, weights_task, &g);
	pool_run(c->pool, c->in[0].shape[0] * g.blocks, block_task, &g);
}
