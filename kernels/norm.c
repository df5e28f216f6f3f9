/* NORM and its gradient on the CPU. */
#include <assert.h>

#include "kernels/bf16.h"
#include "kernels/fold.h"
#include "kernels/lanes.h"
#include "kernels/vmath.h"

extern const struct kernel REAL_NAME(kernel_sum);

LANES_SUM(sum_square, (const real *x, real mean, int64_t n), (L(x) - mean) * (L(x) - mean))

struct norm {
	const struct op_call *c;
	struct walk w;
	real *base[4];
	int64_t rows, rows_task, cols;
};

static int is_bf16(const struct op_call *c)
{
	return c->out[0].dtype == DT_BF16;
}

/* Reals of memory for a row that is rounded to bf16 once it is complete. */
static int64_t row_room(const struct op_call *c)
{
	return is_bf16(c) ? (c->in[0].shape[c->in[0].rank - 1] + 15) / 16 * 16 : 0;
}

static size_t norm_scratch(const struct op_call *c, int workers)
{
	return (size_t)(row_room(c) * workers) * sizeof(real);
}

/* y = (x - mean) rstd (scale + one) + shift. */
static void norm_row(real *restrict y, const real *restrict x, const real *restrict scale, const real *restrict shift, real one, real mean, real rstd,
                     int64_t n)
{
	if (scale && shift)
		for (int64_t i = 0; i < n; i++)
			y[i] = REAL_FMA((x[i] - mean) * rstd, scale[i] + one, shift[i]);
	else if (scale)
		for (int64_t i = 0; i < n; i++)
			y[i] = (x[i] - mean) * rstd * (scale[i] + one);
	else if (shift)
		for (int64_t i = 0; i < n; i++)
			y[i] = REAL_FMA(x[i] - mean, rstd, shift[i]);
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = (x[i] - mean) * rstd;
}

static void norm_task(void *arg, int64_t task, int worker)
{
	const struct norm *k = arg;
	const struct op_attr *at = &k->c->attr;
	int64_t first = task * k->rows_task, last = first + k->rows_task < k->rows ? first + k->rows_task : k->rows, n = k->cols;
	real *stats = k->c->out[1].data, *room = (real *)k->c->scratch + worker * row_room(k->c);
	int rounds = is_bf16(k->c);
	struct walk_pos pos;

	walk_seek(&k->w, first, &pos);
	for (int64_t r = first; r < last; r++) {
		real *p[4], mean = 0, rstd;

		for (int a = 0; a < 4; a++)
			p[a] = k->base[a] ? k->base[a] + pos.offset[a] : NULL;
		if (at->norm.kind == NORM_LAYER)
			mean = lanes_sum(p[1], n) / (real)n;
		rstd = 1 / REAL_M(sqrt)(sum_square(p[1], mean, n) / (real)n + (real)at->norm.eps);
		stats[2 * r] = mean;
		stats[2 * r + 1] = rstd;
		norm_row(rounds ? room : p[0], p[1], p[2], p[3], at->norm.one_plus ? REAL_C(1.0) : REAL_C(0.0), mean, rstd, n);
		if (rounds)
			bf16_store((uint16_t *)k->c->out[0].data + pos.offset[0], (const float *)room, n);
		walk_step(&k->w, &pos);
	}
}

static void norm_run(const struct op_call *c)
{
	const struct array *a[4] = {&c->out[0], &c->in[0], &c->in[1], &c->in[2]};
	struct norm k = {.c = c};

	walk_init(&k.w, &c->in[0]);
	for (int i = 0; i < 4; i++) {
		k.base[i] = a[i]->data;
		walk_add(&k.w, a[i]);
		assert(!a[i]->data || k.w.shape[k.w.rank - 1] == 1 || k.w.stride[i][k.w.rank - 1] == 1);
	}
	walk_merge(&k.w, 0, 1);
	k.cols = k.w.shape[k.w.rank - 1];
	k.rows = walk_rows(&k.w);
	k.rows_task = WALK_GRAIN / (k.cols + 1) + 1;
	walk_run(c, k.rows * k.cols, (k.rows + k.rows_task - 1) / k.rows_task, norm_task, &k);
}

/* The sums of g and of g xhat, with g = dy (scale + one) or dy. */
LANES_SUM2(sums_g, (const real *dy, const real *x, const real *scale, real one, real mean, real rstd, int64_t n, real *m1, real *m2),
           L(dy) * (L(scale) + one), (L(x) - mean) * rstd)
LANES_SUM2(sums_dy, (const real *dy, const real *x, real mean, real rstd, int64_t n, real *m1, real *m2), L(dy), (L(x) - mean) * rstd)

enum { DY, X, STATS, SCALE, ACC, DX };

static void add_scale(real *restrict sum, const real *restrict dy, const real *restrict x, real mean, real rstd, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] = REAL_FMA(dy[i], (x[i] - mean) * rstd, sum[i]);
}

static void add_shift(real *restrict sum, const real *restrict dy, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += dy[i];
}

/* dx = rstd (g - m1 - xhat m2) [+ acc]; dx may be acc. */
static void write_dx(real *dx, const real *dy, const real *x, const real *scale, real one, const real *acc, real mean, real rstd, real m1, real m2,
                     int64_t n)
{
#define DX_LOOP(g, plus) INDEPENDENT for (int64_t i = 0; i < n; i++) dx[i] = rstd * (g - m1 - (x[i] - mean) * rstd * m2) plus
	if (scale && acc)
		DX_LOOP(dy[i] * (scale[i] + one), +acc[i]);
	else if (scale)
		DX_LOOP(dy[i] * (scale[i] + one), );
	else if (acc)
		DX_LOOP(dy[i], +acc[i]);
	else
		DX_LOOP(dy[i], );
#undef DX_LOOP
}

/* write_dx, add_scale and add_shift in one pass over the row. */
static void write_all(real *dx, real *dscale, real *dshift, const real *dy, const real *x, const real *scale, real one, const real *acc, real mean,
                      real rstd, real m1, real m2, int64_t n)
{
#define ALL_LOOP(plus) \
	INDEPENDENT for (int64_t i = 0; i < n; i++) \
	{ \
		real xhat = (x[i] - mean) * rstd, d = dy[i]; \
		dscale[i] = REAL_FMA(d, xhat, dscale[i]); \
		dshift[i] += d; \
		dx[i] = rstd * (d * (scale[i] + one) - m1 - xhat * m2) plus; \
	}
	if (acc)
		ALL_LOOP(+acc[i])
	else
		ALL_LOOP()
#undef ALL_LOOP
}

static void norm_grad_row(const struct fold *f, real *const p[], real *const sum[])
{
	const struct op_attr *at = &f->c->attr;
	real mean = p[STATS][0], rstd = p[STATS][1], one = at->norm.one_plus ? REAL_C(1.0) : REAL_C(0.0), m1 = 0, m2;
	int64_t n = f->cols;

	if (p[SCALE])
		sums_g(p[DY], p[X], p[SCALE], one, mean, rstd, n, &m1, &m2);
	else
		sums_dy(p[DY], p[X], mean, rstd, n, &m1, &m2);
	m1 = at->norm.kind == NORM_LAYER ? m1 / (real)n : 0;
	m2 /= (real)n;
	if (p[SCALE] && sum[0] && sum[1]) {
		write_all(p[DX], sum[0], sum[1], p[DY], p[X], p[SCALE], one, p[ACC], mean, rstd, m1, m2, n);
		return;
	}
	if (sum[0])
		add_scale(sum[0], p[DY], p[X], mean, rstd, n);
	if (sum[1])
		add_shift(sum[1], p[DY], n);
	write_dx(p[DX], p[DY], p[X], p[SCALE], one, p[ACC], mean, rstd, m1, m2, n);
}

static int same_pattern(const struct array *a, const struct array *b)
{
	for (int d = 0; d < a->rank; d++)
		if (a->shape[d] != b->shape[d])
			return 0;
	return 1;
}

static void norm_grad_run(const struct op_call *c)
{
	const struct array *dscale = &c->out[1], *dshift = &c->out[2];
	const struct array *a[] = {&c->in[0], &c->in[1], &c->in[2], &c->in[3], &c->in[4], &c->out[0]};
	struct fold f;

	fold_init(&f, c, &c->in[0]);
	for (size_t i = 0; i < sizeof a / sizeof *a; i++)
		fold_add(&f, a[i]);
	if (dscale->data)
		fold_sum(&f, 0, dscale);
	if (dshift->data && (!dscale->data || same_pattern(dscale, dshift)))
		fold_sum(&f, 1, dshift);
	assert(!f.width || f.width == f.cols);
	fold_run(&f, norm_grad_row);
	if (dshift->data && !f.out[1]) {
		struct op_call sum = {.nin = 1, .nout = 1, .in = {c->in[0]}, .out = {*dshift}, .pool = c->pool, .scratch = c->scratch};

		sum.attr.sum.factor = 1;
		REAL_NAME(kernel_sum).run(&sum);
	}
}

static size_t norm_grad_scratch(const struct op_call *c, int workers)
{
	size_t a = fold_scratch(&c->in[0], &c->out[1]), b = fold_scratch(&c->in[0], &c->out[2]);

	(void)workers;
	return a > b ? a : b;
}

const struct kernel REAL_NAME(kernel_norm) = {norm_run, norm_scratch};
const struct kernel REAL_NAME(kernel_norm_grad) = {norm_grad_run, norm_grad_scratch};
