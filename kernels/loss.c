/* SOFTMAX, XENT, XENT_SOFT, MSE and their gradients, and QSAMPLE, on the CPU. */
#include <assert.h>

#include "kernels/device.h"

#include "kernels/lanes.h"
#include "kernels/vmath.h"
#include "kernels/walk.h"

/* Rows of up to three arrays, WALK_GRAIN elements to a task. */
struct rows {
	const struct op_call *c;
	struct walk w;
	real *base[3];
	int64_t rows, rows_task, cols;
	void (*fn)(const struct rows *k, real *const p[], int64_t row);
};

static void rows_task(void *arg, int64_t task, int worker)
{
	const struct rows *k = arg;
	int64_t first = task * k->rows_task, last = first + k->rows_task < k->rows ? first + k->rows_task : k->rows;
	struct walk_pos pos;

	(void)worker;
	walk_seek(&k->w, first, &pos);
	for (int64_t r = first; r < last; r++) {
		real *p[3];

		for (int a = 0; a < k->w.arrays; a++)
			p[a] = k->base[a] + pos.offset[a];
		k->fn(k, p, r);
		walk_step(&k->w, &pos);
	}
}

static void rows_run(const struct op_call *c, const struct array *const a[], int n, void (*fn)(const struct rows *, real *const[], int64_t))
{
	struct rows k = {.c = c, .fn = fn};

	walk_init(&k.w, a[0]);
	for (int i = 0; i < n; i++) {
		k.base[i] = a[i]->data;
		walk_add(&k.w, a[i]);
	}
	walk_merge(&k.w, 0, 1);
	k.cols = k.w.shape[k.w.rank - 1];
	k.rows = walk_rows(&k.w);
	k.rows_task = WALK_GRAIN / (k.cols + 1) + 1;
	walk_run(c, k.rows * k.cols, (k.rows + k.rows_task - 1) / k.rows_task, rows_task, &k);
}

static void exp_row(real *restrict y, const real *restrict x, real top, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = real_exp_down(x[i] - top);
}

static void scale_row(real *y, real f, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] *= f;
}

static void softmax_row(const struct rows *k, real *const p[], int64_t row)
{
	(void)row;
	exp_row(p[0], p[1], lanes_max(p[1], k->cols), k->cols);
	scale_row(p[0], 1 / lanes_sum(p[0], k->cols), k->cols);
}

static void softmax_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->out[0], &c->in[0]}, 2, softmax_row);
}

LANES_SUM(sum_squared_error, (const real *a, const real *b, int64_t n), (L(a) - L(b)) * (L(a) - L(b)))

static void softmax_grad_row(const struct rows *k, real *const p[], int64_t row)
{
	const real *restrict dy = p[1], *restrict y = p[2];
	real *restrict dx = p[0], sum = lanes_dot(dy, y, k->cols);

	(void)row;
	for (int64_t i = 0; i < k->cols; i++)
		dx[i] = y[i] * (dy[i] - sum);
}

static void softmax_grad_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->out[0], &c->in[0], &c->in[1]}, 3, softmax_grad_row);
}

static int32_t label_of(const struct array *a, int64_t row, int64_t classes)
{
	int32_t v = ((const int32_t *)a->data)[row * a->stride[0]];

	assert(v >= 0 && v < classes);
	(void)classes;
	return v;
}

static real sum_exp(const real *x, real top, int64_t n)
{
	enum { PIECE = 512 };
	real p[PIECE], sum = 0;

	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t m = n - at < PIECE ? n - at : PIECE;

		exp_row(p, x + at, top, m);
		sum += lanes_sum(p, m);
	}
	return sum;
}

static void xent_row(const struct rows *k, real *const p[], int64_t row)
{
	const struct array *loss = &k->c->out[0];
	real top = lanes_max(p[0], k->cols);
	real lse = top + real_log(sum_exp(p[0], top, k->cols));

	((real *)loss->data)[row * loss->stride[0]] = lse - p[0][label_of(&k->c->in[1], row, k->cols)];
}

static void xent_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->in[0]}, 1, xent_row);
}

static void xent_grad_row(const struct rows *k, real *const p[], int64_t row)
{
	const struct array *dloss = &k->c->in[0];
	real f = ((const real *)dloss->data)[row * dloss->stride[0]];

	exp_row(p[0], p[1], lanes_max(p[1], k->cols), k->cols);
	scale_row(p[0], f / lanes_sum(p[0], k->cols), k->cols);
	p[0][label_of(&k->c->in[2], row, k->cols)] -= f;
}

static void xent_grad_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->out[0], &c->in[1]}, 2, xent_grad_row);
}

LANES_SUM(sum_surprise, (const real *target, const real *x, real lse, int64_t n), L(target) * (lse - L(x)))

static void xent_soft_row(const struct rows *k, real *const p[], int64_t row)
{
	const struct array *loss = &k->c->out[0];
	real top = lanes_max(p[0], k->cols);
	real lse = top + real_log(sum_exp(p[0], top, k->cols));

	((real *)loss->data)[row * loss->stride[0]] = sum_surprise(p[1], p[0], lse, k->cols);
}

static void xent_soft_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->in[0], &c->in[1]}, 2, xent_soft_row);
}

static void xent_soft_grad_row(const struct rows *k, real *const p[], int64_t row)
{
	const struct array *dloss = &k->c->in[0];
	real f = ((const real *)dloss->data)[row * dloss->stride[0]], scale;
	real *restrict dx = p[0];
	const real *restrict target = p[2];

	exp_row(dx, p[1], lanes_max(p[1], k->cols), k->cols);
	scale = f * lanes_sum(target, k->cols) / lanes_sum(dx, k->cols);
	for (int64_t i = 0; i < k->cols; i++)
		dx[i] = dx[i] * scale - f * target[i];
}

static void xent_soft_grad_run(const struct op_call *c)
{
	rows_run(c, (const struct array *[]){&c->out[0], &c->in[1], &c->in[2]}, 3, xent_soft_grad_row);
}

/* Contiguous samples, cut into pieces of WALK_GRAIN elements. */
struct samples {
	const struct op_call *c;
	int64_t count, size, piece, pieces, samples_task;
	void (*fn)(const struct samples *k, int64_t sample, int64_t at, int64_t n);
};

static void samples_task(void *arg, int64_t task, int worker)
{
	const struct samples *k = arg;
	int64_t first = task / k->pieces * k->samples_task, at = task % k->pieces * k->piece;
	int64_t last = first + k->samples_task < k->count ? first + k->samples_task : k->count;

	(void)worker;
	for (int64_t s = first; s < last; s++)
		k->fn(k, s, at, k->size - at < k->piece ? k->size - at : k->piece);
}

/* Run fn over all samples; with `whole`, a sample is not divided into pieces. */
static void samples_run(const struct op_call *c, const struct array *like, int whole, void (*fn)(const struct samples *, int64_t, int64_t, int64_t))
{
	struct samples k = {.c = c, .count = like->shape[0], .fn = fn};

	k.size = 1;
	for (int d = 1; d < like->rank; d++)
		k.size *= like->shape[d];
	k.piece = whole || k.size < WALK_GRAIN ? k.size : WALK_GRAIN;
	k.pieces = k.piece ? (k.size + k.piece - 1) / k.piece : 1;
	k.samples_task = WALK_GRAIN / (k.piece + 1) + 1;
	walk_run(c, k.count * k.size, (k.count + k.samples_task - 1) / k.samples_task * k.pieces, samples_task, &k);
}

/* Element `row` of an optional vector; 1 if it is absent. */
static real value_of(const struct array *a, int64_t row)
{
	return a->data ? ((const real *)a->data)[row * a->stride[0]] : 1;
}

static void mse_sample(const struct samples *k, int64_t sample, int64_t at, int64_t n)
{
	enum { PIECE = 4096 };
	const real *a = (const real *)k->c->in[0].data + sample * k->size, *b = (const real *)k->c->in[1].data + sample * k->size;
	const struct array *loss = &k->c->out[0];
	real sum = 0;

	for (; at < n; at += PIECE)
		sum += sum_squared_error(a + at, b + at, n - at < PIECE ? n - at : PIECE);
	((real *)loss->data)[sample * loss->stride[0]] = value_of(&k->c->in[2], sample) * (sum / (real)n);
}

static void mse_run(const struct op_call *c)
{
	samples_run(c, &c->in[0], 1, mse_sample);
}

static void scaled_difference(real *restrict y, const real *restrict a, const real *restrict b, real f, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = f * (a[i] - b[i]);
}

static void mse_grad_piece(const struct samples *k, int64_t sample, int64_t at, int64_t n)
{
	const struct array *in = k->c->in;
	int64_t i = sample * k->size + at;
	real f = value_of(&in[0], sample) * value_of(&in[3], sample) * (2 / (real)k->size);

	scaled_difference((real *)k->c->out[0].data + i, (const real *)in[1].data + i, (const real *)in[2].data + i, f, n);
}

static void mse_grad_run(const struct op_call *c)
{
	samples_run(c, &c->in[1], 0, mse_grad_piece);
}

static void mix(real *restrict y, const real *restrict x0, const real *restrict eps, real alpha, real sigma, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = alpha * x0[i] + sigma * eps[i];
}

static void qsample_piece(const struct samples *k, int64_t sample, int64_t at, int64_t n)
{
	const struct array *in = k->c->in;
	int64_t i = sample * k->size + at;

	mix((real *)k->c->out[0].data + i, (const real *)in[0].data + i, (const real *)in[1].data + i, value_of(&in[2], sample),
	    value_of(&in[3], sample), n);
}

static void qsample_run(const struct op_call *c)
{
	samples_run(c, &c->in[0], 0, qsample_piece);
}

const struct kernel REAL_NAME(kernel_softmax) = {softmax_run, NULL};
const struct kernel REAL_NAME(kernel_softmax_grad) = {softmax_grad_run, NULL};
const struct kernel REAL_NAME(kernel_xent) = {xent_run, NULL};
const struct kernel REAL_NAME(kernel_xent_grad) = {xent_grad_run, NULL};
const struct kernel REAL_NAME(kernel_xent_soft) = {xent_soft_run, NULL};
const struct kernel REAL_NAME(kernel_xent_soft_grad) = {xent_soft_grad_run, NULL};
const struct kernel REAL_NAME(kernel_mse) = {mse_run, NULL};
const struct kernel REAL_NAME(kernel_mse_grad) = {mse_grad_run, NULL};
const struct kernel REAL_NAME(kernel_qsample) = {qsample_run, NULL};
