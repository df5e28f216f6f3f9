/* EMBED, its gradient and TIMESTEP on the CPU. */
#include <assert.h>

#include "core/samemath.h"
#include "kernels/device.h"

#include "kernels/vmath.h"
#include "kernels/walk.h"

enum { ROWS = 16, COLS = 128 };

static int64_t row_of(const struct array *index, int64_t b, int64_t rows)
{
	int32_t v = ((const int32_t *)index->data)[b * index->stride[0]];

	assert(v >= 0 && v < rows);
	(void)rows;
	return v;
}

static void embed_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *y = &c->out[0], *table = &c->in[0];
	int64_t last = (task + 1) * ROWS < y->shape[0] ? (task + 1) * ROWS : y->shape[0];

	(void)worker;
	for (int64_t b = task * ROWS; b < last; b++)
		memcpy((real *)y->data + b * y->stride[0], (const real *)table->data + row_of(&c->in[1], b, table->shape[0]) * table->stride[0],
		       (size_t)y->shape[1] * sizeof(real));
}

static void embed_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->out[0]), (c->out[0].shape[0] + ROWS - 1) / ROWS, embed_task, (void *)(uintptr_t)c);
}

static void add_row(real *restrict y, const real *restrict x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] += x[i];
}

/* Add the gradient of a block of columns. No two tasks write the same element, and rows are added in the order of b. */
static void embed_grad_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *dy = &c->in[0], *table = &c->out[0];
	int64_t col = task * COLS, n = table->shape[1] - col < COLS ? table->shape[1] - col : COLS;

	(void)worker;
	for (int64_t v = 0; v < table->shape[0]; v++)
		memset((real *)table->data + v * table->stride[0] + col, 0, (size_t)n * sizeof(real));
	for (int64_t b = 0; b < dy->shape[0]; b++)
		add_row((real *)table->data + row_of(&c->in[1], b, table->shape[0]) * table->stride[0] + col,
		        (const real *)dy->data + b * dy->stride[0] + col, n);
}

static void embed_grad_run(const struct op_call *c)
{
	walk_run(c, array_count(&c->out[0]) + array_count(&c->in[0]), (c->out[0].shape[1] + COLS - 1) / COLS, embed_grad_task, (void *)(uintptr_t)c);
}

/* cos and sin of t f. The argument is reduced in double to an angle within pi, then computed in `real`. */
static void waves(real *restrict y, const double *restrict f, double t, int64_t h)
{
	for (int64_t k = 0; k < h; k++) {
		double a = t * f[k];

		a -= 6.283185307179586477 * rint(a * 0.15915494309189533577);
		real_sincos((real)a, &y[h + k], &y[k]);
	}
}

static void timestep_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *y = &c->out[0], *t = &c->in[0];
	int64_t last = (task + 1) * ROWS < y->shape[0] ? (task + 1) * ROWS : y->shape[0];

	(void)worker;
	for (int64_t b = task * ROWS; b < last; b++)
		waves((real *)y->data + b * y->stride[0], c->scratch, c->attr.timestep.scale * (double)((const real *)t->data)[b * t->stride[0]],
		      y->shape[1] / 2);
}

static void timestep_run(const struct op_call *c)
{
	int64_t h = c->out[0].shape[1] / 2;
	double *f = c->scratch;

	for (int64_t k = 0; k < h; k++)
		f[k] = same_exp(-same_log(c->attr.timestep.max_period) * (double)k / (double)h);
	walk_run(c, array_count(&c->out[0]), (c->out[0].shape[0] + ROWS - 1) / ROWS, timestep_task, (void *)(uintptr_t)c);
}

static size_t timestep_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return (size_t)(c->out[0].shape[1] / 2) * sizeof(double);
}

const struct kernel REAL_NAME(kernel_embed) = {embed_run, NULL};
const struct kernel REAL_NAME(kernel_embed_grad) = {embed_grad_run, NULL};
const struct kernel REAL_NAME(kernel_timestep) = {timestep_run, timestep_scratch};
