/* SEGMENT_SUM on the CPU. */
#include "kernels/device.h"

#include <assert.h>
#include <string.h>

#include "kernels/real.h"

enum { COLS = 64 };

static void count_rows(const struct op_call *c)
{
	const int32_t *index = c->in[1].data;
	int64_t k = c->out[1].shape[0];
	int32_t *count = c->out[1].data;

	if (c->attr.segment_sum.anew)
		memset(count, 0, (size_t)k * sizeof *count);
	for (int64_t i = 0; i < c->in[1].shape[0]; i++) {
		assert(index[i] >= 0 && index[i] < k);
		count[index[i]]++;
	}
}

/* Add up a block of columns; no two tasks write the same element. */
static void segment_sum_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *x = &c->in[0];
	int64_t d = x->shape[1], col = task * COLS, n = d - col < COLS ? d - col : COLS;
	const int32_t *index = c->in[1].data;
	double *sum = (double *)c->out[0].data + col;

	(void)worker;
	for (int64_t k = 0; k < c->out[0].shape[0] && c->attr.segment_sum.anew; k++)
		memset(sum + k * d, 0, (size_t)n * sizeof *sum);
	for (int64_t i = 0; i < x->shape[0]; i++) {
		const real *row = (const real *)x->data + i * d + col;
		double *to = sum + index[i] * d;

		for (int64_t o = 0; o < n; o++)
			to[o] += (double)row[o];
	}
}

static void segment_sum_run(const struct op_call *c)
{
	count_rows(c);
	pool_spread(c->pool, (c->in[0].shape[1] + COLS - 1) / COLS, segment_sum_task, (void *)(uintptr_t)c);
}

const struct kernel REAL_NAME(kernel_segment_sum) = {segment_sum_run, NULL};
