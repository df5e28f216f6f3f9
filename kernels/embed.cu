/* EMBED, EMBED_GRAD, TIMESTEP. */
#include "kernels/launch.h"

static __global__ void embed_any(int64_t rows, int64_t cols, struct reals y, int64_t y_step, struct reals table, int64_t table_step,
                                 const int32_t *index, int64_t index_step)
{
	for (int64_t i = thread_index(); i < rows * cols; i += thread_count()) {
		int64_t b = i / cols, k = i % cols;

		reals_set(y, b * y_step + k, reals_get(table, index[b * index_step] * table_step + k));
	}
}

static void embed_run(const struct op_call *c)
{
	const struct array *y = &c->out[0], *table = &c->in[0], *index = &c->in[1];
	int64_t count = array_count(y);

	if (count)
		LAUNCH(c, embed_any, blocks_for(count), BLOCK, y->shape[0], y->shape[1], reals_of(y), y->stride[0], reals_of(table),
		       table->stride[0], (const int32_t *)index->data, index->stride[0]);
}

/* A thread owns a column, so that rows are added in the order of b and nothing is added by two. */
static __global__ void embed_grad_columns(int64_t entries, int64_t rows, int64_t cols, struct reals table, int64_t table_step,
                                          struct reals dy, int64_t dy_step, const int32_t *index, int64_t index_step)
{
	for (int64_t k = thread_index(); k < cols; k += thread_count()) {
		for (int64_t v = 0; v < entries; v++)
			reals_set(table, v * table_step + k, 0.f);
		for (int64_t b = 0; b < rows; b++) {
			int64_t at = index[b * index_step] * table_step + k;

			reals_set(table, at, reals_get(table, at) + reals_get(dy, b * dy_step + k));
		}
	}
}

static void embed_grad_run(const struct op_call *c)
{
	const struct array *table = &c->out[0], *dy = &c->in[0], *index = &c->in[1];

	if (table->shape[1])
		LAUNCH(c, embed_grad_columns, blocks_for(table->shape[1]), BLOCK, table->shape[0], dy->shape[0], table->shape[1],
		       reals_of(table), table->stride[0], reals_of(dy), dy->stride[0], (const int32_t *)index->data, index->stride[0]);
}

/* The argument is reduced in double, so that float sees an angle within pi. */
static __global__ void timestep_any(int64_t rows, int64_t half, double log_period, double scale, struct reals y, int64_t y_step,
                                    struct reals t, int64_t t_step)
{
	for (int64_t i = thread_index(); i < rows * half; i += thread_count()) {
		int64_t b = i / half, k = i % half;
		double a = scale * (double)reals_get(t, b * t_step) * exp(-log_period * (double)k / (double)half);

		a -= 6.283185307179586477 * rint(a * 0.15915494309189533577);
		reals_set(y, b * y_step + k, cosf((float)a));
		reals_set(y, b * y_step + half + k, sinf((float)a));
	}
}

static void timestep_run(const struct op_call *c)
{
	const struct array *y = &c->out[0], *t = &c->in[0];
	int64_t half = y->shape[1] / 2;

	if (y->shape[0] && half)
		LAUNCH(c, timestep_any, blocks_for(y->shape[0] * half), BLOCK, y->shape[0], half, log(c->attr.f[0]), c->attr.f[1], reals_of(y),
		       y->stride[0], reals_of(t), t->stride[0]);
}

extern "C" {
extern const struct kernel kernel_embed_cuda = {embed_run, NULL};
extern const struct kernel kernel_embed_grad_cuda = {embed_grad_run, NULL};
extern const struct kernel kernel_timestep_cuda = {timestep_run, NULL};
}
