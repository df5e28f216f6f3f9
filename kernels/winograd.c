/* Convolutions of stride 1 on the CPU by Winograd's minimal filtering (kernels/winograd.h): transforms tiles, multiplies, transforms back. */
#include "kernels/winograd.h"

#include <assert.h>
#include <string.h>

#include "kernels/cut.h"
#include "kernels/gemm.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"
#include "kernels/walk.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The transform along one dimension of the kernel: F(outputs, taps). ONE: a single tap, no transform. */
enum form { ONE, F2_3, F4_3, F2_5, F3_7 };

enum {
	LINE_MOST = 9,    /* points of a line, at most */
	TAPS_MOST = 7,    /* taps of a line, at most */
	POINTS_MOST = 36, /* points of a tile, at most */
	PIXELS_MOST = 16, /* outputs of a tile, at most */
	KERNEL_MOST = 25, /* taps of a kernel, at most */
	VALUES = 196608,  /* points x tiles x (input + output) channels of a task; its transforms stay in the second-level cache */
	FEWEST = 12,      /* the tiles of a task are a multiple of this, */
	LEAST = 24,       /* at least this, */
	MOST = 96,        /* and at most this */
	COLUMNS = 128,    /* output channels that are multiplied before they are transformed back */
	SUM = 32,         /* channels summed at once, at most: the transforms amplify the errors of long sums */
	APART = 16,       /* padding of rows against conflicts in the cache */
	CHANNELS = 32,    /* with fewer input or output channels the transforms cost more than they save */
	PIXELS = 225,     /* likewise with fewer output pixels per sample, */
	PIXELS_MANY = 64, /* or fewer than this with attribute `many` */
	WEIGHTS = 1 << 21 /* weight transforms by F(4, 3) with more numbers than this do not stay in cache; F(2, 3) is used then */
};

/* The evaluation points of each form, in this order: 0 (if `zero`), pairs of q and -q, infinity. */
static const struct {
	int points, outputs, taps, zero, pairs;
	double at[4]; /* q of each pair */
} forms[] = {
    [ONE] = {1, 1, 1, 0, 0, {0}},
    [F2_3] = {4, 2, 3, 1, 1, {1}},
    [F4_3] = {6, 4, 3, 1, 2, {.75, 1.5}},
    [F2_5] = {6, 2, 5, 1, 2, {.75, 1.5}},
    [F3_7] = {9, 3, 7, 0, 4, {.25, .75, 1.125, 2.125}},
};

/* The forms of the two dimensions. */
struct shape {
	enum form down, across;
};

struct winograd {
	const struct op_call *c;
	const real *x, *w, *bias, *add;
	real *y, *pre;
	int64_t xs[3], ys, as, ps; /* strides: of x by dimension; of the pixels of y, add and pre */
	int64_t samples, h, wide, ch, o, ho, wo, top, left;
	struct shape shape;
	int points, taps;
	int64_t chunk;        /* channels summed at once */
	int64_t down, across; /* number of tiles of a sample along each dimension */
	int64_t block;        /* tiles of a task, possibly of several samples */
	int64_t ldm;          /* row stride of the products */
	int64_t panels;
	int width;
	int act;
	real *u; /* [points][panels][ch][width], points `point` apart */
	int64_t point;
	real *own; /* scratch of worker 0 */
	int64_t each;
};

int REAL_NAME(winograd_takes)(const struct op_call *c)
{
	const struct array *y = &c->out[0], *w = &c->in[1];
	int64_t kh = w->shape[1], kw = w->shape[2];

	if (c->attr.conv.stride != 1 || w->shape[0] < CHANNELS || w->shape[3] < CHANNELS ||
	    y->shape[1] * y->shape[2] < (c->attr.conv.many ? PIXELS_MANY : PIXELS))
		return 0;
	return (kh == kw && (kh == 3 || kh == 5)) || (kh == 1 && (kw == 3 || kw == 7)) || (kw == 1 && (kh == 3 || kh == 7));
}

static struct shape shape_of(const struct op_call *c)
{
	const struct array *w = &c->in[1], *y = &c->out[0];
	int64_t kh = w->shape[1], kw = w->shape[2];

	if (kh == 3 && kw == 3 && (y->shape[1] * y->shape[2] < PIXELS || POINTS_MOST * w->shape[0] * w->shape[3] > WEIGHTS))
		return (struct shape){F2_3, F2_3};
	if (kh == 3 && kw == 3)
		return (struct shape){F4_3, F4_3};
	if (kh == 5)
		return (struct shape){F2_5, F2_5};
	return kh == 1 ? (struct shape){ONE, kw == 3 ? F4_3 : F3_7} : (struct shape){kh == 3 ? F4_3 : F3_7, ONE};
}

static int64_t row_stride(const struct array *a)
{
	int64_t stride = 0;
	int walks = array_row_stride(a, &stride);

	assert(walks);
	(void)walks;
	return stride;
}

static void sizes(struct winograd *g, const struct op_call *c)
{
	const struct array *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
	int64_t own;

	*g = (struct winograd){.c = c,
	                       .samples = x->shape[0],
	                       .h = x->shape[1],
	                       .wide = x->shape[2],
	                       .ch = x->shape[3],
	                       .o = w->shape[0],
	                       .ho = y->shape[1],
	                       .wo = y->shape[2],
	                       .top = c->attr.conv.top,
	                       .left = c->attr.conv.left,
	                       .shape = shape_of(c),
	                       .taps = (int)(w->shape[1] * w->shape[2]),
	                       .width = REAL_NAME(gemm_width)()};
	g->points = forms[g->shape.down].points * forms[g->shape.across].points;
	g->chunk = g->shape.down == F2_3 ? g->ch : ceil_div(g->ch, ceil_div(g->ch, SUM));
	g->down = ceil_div(g->ho, forms[g->shape.down].outputs);
	g->across = ceil_div(g->wo, forms[g->shape.across].outputs);
	g->ldm = (g->o < COLUMNS ? ceil_div(g->o, VLEN) * VLEN : COLUMNS) + APART;
	g->block = VALUES / g->points / (g->ch + APART + g->ldm) / FEWEST * FEWEST;
	g->block = g->block < LEAST ? LEAST : g->block > MOST ? MOST : g->block;
	g->panels = ceil_div(g->o, g->width);
	g->point = g->panels * g->width * g->ch + APART;
	g->each = g->points * g->block * (g->ch + APART + g->ldm);
	own = g->taps * (g->ch * g->width + APART);
	if (g->each < own)
		g->each = own;
	g->each = (g->each + 15) / 16 * 16;
}

size_t REAL_NAME(winograd_scratch)(const struct op_call *c, int workers)
{
	struct winograd g;

	sizes(&g, c);
	return (size_t)(g.points * g.point + workers * g.each) * sizeof(real);
}

/* ---- weights ---- */

/* The matrix G: row i holds the powers of point i over the product of its differences from the other points; the last row is infinity's. */
static void values_at(enum form f, real g[LINE_MOST][TAPS_MOST])
{
	double p[LINE_MOST] = {0};
	int n = forms[f].zero;

	for (int k = 0; k < forms[f].pairs; k++) {
		p[n++] = forms[f].at[k];
		p[n++] = -forms[f].at[k];
	}
	for (int i = 0; i < n; i++) {
		double v = 1;

		for (int j = 0; j < n; j++)
			v *= j == i ? 1 : p[i] - p[j];
		v = 1 / v;
		for (int k = 0; k < forms[f].taps; k++, v *= p[i])
			g[i][k] = (real)v;
	}
	for (int k = 0; k < forms[f].taps; k++)
		g[n][k] = k == forms[f].taps - 1;
}

/* u = G k G'^T for n kernels stored side by side: the taps of a kernel are `apart` elements apart, the points of u `step`. */
static void weights_of(struct shape s, const real *restrict taps, int64_t apart, real *restrict u, int64_t step, int64_t n)
{
	int th = forms[s.down].taps, tw = forms[s.across].taps, ph = forms[s.down].points, pw = forms[s.across].points;
	real gh[LINE_MOST][TAPS_MOST], gw[LINE_MOST][TAPS_MOST];

	values_at(s.down, gh);
	values_at(s.across, gw);
	for (int64_t at = 0; at < n; at += VLEN) {
		vreal line[TAPS_MOST][LINE_MOST];

		for (int y = 0; y < th; y++)
			for (int p = 0; p < pw; p++) {
				vreal sum = v_splat(0);

				for (int x = 0; x < tw; x++)
					sum = v_fma(v_splat(gw[p][x]), v_load(taps + (y * tw + x) * apart + at), sum);
				line[y][p] = sum;
			}
		for (int q = 0; q < ph; q++)
			for (int p = 0; p < pw; p++) {
				vreal sum = v_splat(0);

				for (int y = 0; y < th; y++)
					sum = v_fma(v_splat(gh[q][y]), line[y][p], sum);
				v_store(u + (q * pw + p) * step + at, sum);
			}
	}
}

/* Transform one panel of the weights, for all input channels. */
static void weights_task(void *arg, int64_t panel, int worker)
{
	const struct winograd *g = arg;
	int64_t first = panel * g->width, n = g->o - first < g->width ? g->o - first : g->width, size = g->ch * g->width;
	real *taps = g->own + worker * g->each;

	for (int64_t t = 0; t < g->taps; t++)
		REAL_NAME(gemm_panel)(taps + t * (size + APART), g->w + (first * g->taps + t) * g->ch, g->taps * g->ch, n, g->ch);
	weights_of(g->shape, taps, size + APART, g->u + panel * size, g->point, size);
}

/* ---- transforms of one line, of vectors `step` apart ---- */

/* even + q odd and even - q odd: the values for the points q and -q. */
ALWAYS_INLINE void pair_in(vreal *plus, vreal *minus, vreal even, vreal odd, real q)
{
	*plus = v_fma(v_splat(q), odd, even);
	*minus = v_fma(v_splat(-q), odd, even);
}

/* The coefficients of (x^2 - a) (x^2 - b) (x^2 - c) times d[0], d[2 step], d[4 step], d[6 step]. */
ALWAYS_INLINE vreal cubic(const vreal *d, int step, real a, real b, real c)
{
	vreal v = v_fma(v_splat(-(a + b + c)), d[4 * step], d[6 * step]);

	v = v_fma(v_splat(a * b + a * c + b * c), d[2 * step], v);
	return v_fma(v_splat(-(a * b * c)), d[0], v);
}

/* B^T d in place. Row i of B^T holds the coefficients of the polynomial that is zero at all points except point i. */
ALWAYS_INLINE void line_in(enum form f, vreal *d, int step)
{
	const real q0 = (real)forms[f].at[0], q1 = (real)forms[f].at[1], q2 = (real)forms[f].at[2], q3 = (real)forms[f].at[3];
	const real r0 = q0 * q0, r1 = q1 * q1, r2 = q2 * q2, r3 = q3 * q3;

	if (f == F2_3) {
		vreal first = d[2 * step] - d[0], last = d[3 * step] - d[step], b = d[step], c = d[2 * step];

		d[0] = first;
		d[step] = c + b;
		d[2 * step] = c - b;
		d[3 * step] = last;
	} else if (f == F4_3 || f == F2_5) {
		vreal first = v_fma(v_splat(r0 * r1), d[0], v_fma(v_splat(-(r0 + r1)), d[2 * step], d[4 * step]));
		vreal last = v_fma(v_splat(r0 * r1), d[step], v_fma(v_splat(-(r0 + r1)), d[3 * step], d[5 * step]));
		vreal e0 = v_fma(v_splat(-r1), d[2 * step], d[4 * step]), o0 = v_fma(v_splat(-r1), d[step], d[3 * step]);
		vreal e1 = v_fma(v_splat(-r0), d[2 * step], d[4 * step]), o1 = v_fma(v_splat(-r0), d[step], d[3 * step]);

		d[0] = first;
		pair_in(&d[step], &d[2 * step], e0, o0, q0);
		pair_in(&d[3 * step], &d[4 * step], e1, o1, q1);
		d[5 * step] = last;
	} else if (f == F3_7) {
		vreal last = v_fma(v_splat(-r0), cubic(d, step, r1, r2, r3), cubic(d + 2 * step, step, r1, r2, r3));
		vreal e0 = cubic(d, step, r1, r2, r3), o0 = cubic(d + step, step, r1, r2, r3);
		vreal e1 = cubic(d, step, r0, r2, r3), o1 = cubic(d + step, step, r0, r2, r3);
		vreal e2 = cubic(d, step, r0, r1, r3), o2 = cubic(d + step, step, r0, r1, r3);
		vreal e3 = cubic(d, step, r0, r1, r2), o3 = cubic(d + step, step, r0, r1, r2);

		pair_in(&d[0], &d[step], o0, e0, q0);
		pair_in(&d[2 * step], &d[3 * step], o1, e1, q1);
		pair_in(&d[4 * step], &d[5 * step], o2, e2, q2);
		pair_in(&d[6 * step], &d[7 * step], o3, e3, q3);
		d[8 * step] = last;
	}
}

/* A^T m in place, into the first outputs. A^T holds powers of the points. */
ALWAYS_INLINE void line_out(enum form f, vreal *m, int step)
{
	const real q0 = (real)forms[f].at[0], q1 = (real)forms[f].at[1], q2 = (real)forms[f].at[2], q3 = (real)forms[f].at[3];

	if (f == F2_3) {
		vreal first = m[0] + (m[step] + m[2 * step]);

		m[step] = (m[step] - m[2 * step]) + m[3 * step];
		m[0] = first;
	} else if (f == F4_3 || f == F2_5) {
		vreal s0 = m[step] + m[2 * step], d0 = m[step] - m[2 * step], s1 = m[3 * step] + m[4 * step], d1 = m[3 * step] - m[4 * step];
		vreal last = m[5 * step];

		m[0] = m[0] + (s0 + s1);
		m[step] = v_fma(v_splat(q0), d0, v_splat(q1) * d1);
		if (f == F2_5) {
			m[step] += last;
			return;
		}
		m[2 * step] = v_fma(v_splat(q0 * q0), s0, v_splat(q1 * q1) * s1);
		m[3 * step] = v_fma(v_splat(q0 * q0 * q0), d0, v_fma(v_splat(q1 * q1 * q1), d1, last));
	} else if (f == F3_7) {
		vreal s0 = m[0] + m[step], d0 = m[0] - m[step], s1 = m[2 * step] + m[3 * step], d1 = m[2 * step] - m[3 * step];
		vreal s2 = m[4 * step] + m[5 * step], d2 = m[4 * step] - m[5 * step], s3 = m[6 * step] + m[7 * step];
		vreal d3 = m[6 * step] - m[7 * step], last = m[8 * step];

		m[0] = (s0 + s1) + (s2 + s3);
		m[step] = v_fma(v_splat(q0), d0, v_fma(v_splat(q1), d1, v_fma(v_splat(q2), d2, v_splat(q3) * d3)));
		m[2 * step] =
		    v_fma(v_splat(q0 * q0), s0, v_fma(v_splat(q1 * q1), s1, v_fma(v_splat(q2 * q2), s2, v_fma(v_splat(q3 * q3), s3, last))));
	}
}

/* ---- tiles ---- */

/* B^T d B of one tile with pixels d, for n channels from `at`; out[points] are `step` apart. */
ALWAYS_INLINE void lanes_in(struct shape s, const real *const *d, int64_t at, real *out, int64_t step, int n)
{
	const int ph = forms[s.down].points, pw = forms[s.across].points;
	vreal v[POINTS_MOST];

#pragma GCC unroll 36
	for (int k = 0; k < ph * pw; k++)
		v[k] = n == VLEN ? v_load(d[k] + at) : v_load_part(d[k] + at, n);
#pragma GCC unroll 9
	for (int y = 0; y < ph; y++)
		line_in(s.across, v + y * pw, 1);
#pragma GCC unroll 9
	for (int x = 0; x < pw; x++)
		line_in(s.down, v + x, pw);
#pragma GCC unroll 36
	for (int k = 0; k < ph * pw; k++)
		if (n == VLEN)
			v_store(out + k * step + at, v[k]);
		else
			v_store_part(out + k * step + at, v[k], n);
}

ALWAYS_INLINE void tile_in(struct shape s, const real *const *d, real *out, int64_t step, int64_t n)
{
	int64_t i = 0;

	for (; i + VLEN <= n; i += VLEN)
		lanes_in(s, d, i, out, step, VLEN);
	if (i < n)
		lanes_in(s, d, i, out, step, (int)(n - i));
}

/* Transform n tiles into v [points][block][ch + APART]; `first` counts tiles over all samples; zeros: ch zeros, for pixels outside. */
ALWAYS_INLINE void transform_in(struct shape s, const struct winograd *g, int64_t first, int64_t n, real *v, const real *zeros)
{
	const int ph = forms[s.down].points, pw = forms[s.across].points;
	int64_t ld = g->ch + APART;

	for (int64_t t = 0; t < n; t++) {
		int64_t sample = (first + t) / (g->down * g->across), tile = (first + t) % (g->down * g->across);
		int64_t y = tile / g->across * forms[s.down].outputs - g->top, x = tile % g->across * forms[s.across].outputs - g->left;
		const real *d[POINTS_MOST];

		for (int k = 0; k < ph * pw; k++) {
			int64_t py = y + k / pw, px = x + k % pw;

			d[k] = py < 0 || py >= g->h || px < 0 || px >= g->wide ? zeros : g->x + sample * g->xs[0] + py * g->xs[1] + px * g->xs[2];
		}
		tile_in(s, d, v + t * ld, g->block * ld, g->ch);
	}
}

/* Apply add, bias and activation to n output channels of a pixel from o on, and store them. */
ALWAYS_INLINE void finish(const struct winograd *g, int64_t pixel, int64_t o, vreal z, int n)
{
	real *y = g->y + pixel * g->ys + o;

	if (g->add)
		z += v_load_part(g->add + pixel * g->as + o, n);
	if (g->bias)
		z += v_load_part(g->bias + o, n);
	if (g->pre)
		v_store_part(g->pre + pixel * g->ps + o, z, n);
	if (g->act == UNARY_RELU) {
		__typeof__(z < z) below = z < v_splat(0);

		z = (vreal)((__typeof__(below))z & ~below);
	} else if (g->act == UNARY_SILU || g->act == UNARY_GELU_TANH) {
		real lane[VLEN];

		v_store(lane, z);
		for (int i = 0; i < VLEN; i++)
			lane[i] = g->act == UNARY_SILU ? real_silu(lane[i]) : real_gelu(lane[i]);
		z = v_load(lane);
	}
	v_store_part(y, z, n);
}

/* A^T m A of one tile, stored to its pixels, except negative ones, in channels from o on; m[points] are `step` apart. */
ALWAYS_INLINE void tile_out(struct shape s, const struct winograd *g, const real *m, int64_t step, const int64_t *pixel, int64_t o, int n)
{
	const int ph = forms[s.down].points, pw = forms[s.across].points, oh = forms[s.down].outputs, ow = forms[s.across].outputs;
	vreal v[POINTS_MOST];

#pragma GCC unroll 36
	for (int k = 0; k < ph * pw; k++)
		v[k] = v_load(m + k * step);
#pragma GCC unroll 9
	for (int y = 0; y < ph; y++)
		line_out(s.across, v + y * pw, 1);
#pragma GCC unroll 9
	for (int x = 0; x < ow; x++)
		line_out(s.down, v + x, pw);
#pragma GCC unroll 4
	for (int y = 0; y < oh; y++)
#pragma GCC unroll 4
		for (int x = 0; x < ow; x++)
			if (pixel[y * ow + x] >= 0)
				finish(g, pixel[y * ow + x], o, v[y * pw + x], n);
}

ALWAYS_INLINE void transform_out(struct shape s, const struct winograd *g, int64_t first, int64_t n, const real *m, int64_t o0, int64_t columns)
{
	const int oh = forms[s.down].outputs, ow = forms[s.across].outputs;

	for (int64_t t = 0; t < n; t++) {
		int64_t sample = (first + t) / (g->down * g->across), tile = (first + t) % (g->down * g->across);
		int64_t y = tile / g->across * oh, x = tile % g->across * ow, pixel[PIXELS_MOST];

		for (int k = 0; k < oh * ow; k++)
			pixel[k] = y + k / ow < g->ho && x + k % ow < g->wo ? (sample * g->ho + y + k / ow) * g->wo + x + k % ow : -1;
		for (int64_t i = 0; i < columns; i += VLEN)
			tile_out(s, g, m + t * g->ldm + i, g->block * g->ldm, pixel, o0 + i, (int)(columns - i < VLEN ? columns - i : VLEN));
	}
}

ALWAYS_INLINE void block_run(struct shape s, const struct winograd *g, int64_t task, int worker)
{
	int64_t first = task * g->block, all = g->samples * g->down * g->across;
	int64_t n = all - first < g->block ? all - first : g->block, ld = g->ch + APART, size = g->ch * g->width;
	real *v = g->own + worker * g->each, *m = v + g->points * g->block * ld;

	memset(m, 0, (size_t)g->ch * sizeof *m); /* m serves as the zeros of transform_in */
	transform_in(s, g, first, n, v, m);
	for (int64_t o0 = 0; o0 < g->o; o0 += COLUMNS) {
		int64_t columns = g->o - o0 < COLUMNS ? g->o - o0 : COLUMNS;

		for (int64_t k = 0; k < g->points; k++)
			/* clang-format off */
			REAL_NAME(gemm_panels)(m + k * g->block * g->ldm, g->ldm, v + k * g->block * ld, ld,
			                       g->u + k * g->point + o0 / g->width * size, n, columns, g->ch, g->chunk);
		/* clang-format on */
		transform_out(s, g, first, n, m, o0, columns);
	}
}

/* One function per shape, so that the compiler unrolls its transforms. */
#define TASK(down, across) \
	static void task_##down##_##across(void *arg, int64_t task, int worker) \
	{ \
		block_run((struct shape){down, across}, arg, task, worker); \
	}
TASK(F2_3, F2_3)
TASK(F4_3, F4_3)
TASK(F2_5, F2_5)
TASK(ONE, F4_3)
TASK(F4_3, ONE)
TASK(ONE, F3_7)
TASK(F3_7, ONE)

static void (*task_of(struct shape s))(void *, int64_t, int)
{
	switch (s.down) {
	case F2_3:
		return task_F2_3_F2_3;
	case F4_3:
		return s.across == ONE ? task_F4_3_ONE : task_F4_3_F4_3;
	case F2_5:
		return task_F2_5_F2_5;
	case F3_7:
		return task_F3_7_ONE;
	default:
		return s.across == F4_3 ? task_ONE_F4_3 : task_ONE_F3_7;
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
	g.act = c->attr.conv.act - 1;
	g.u = c->scratch;
	g.own = g.u + g.points * g.point;
	pool_spread(c->pool, g.panels, weights_task, &g);
	pool_spread(c->pool, ceil_div(g.samples * g.down * g.across, g.block), task_of(g.shape), &g);
}
