/* EMBED, EMBED_GRAD and TIMESTEP on the GPU. */
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
		LAUNCH(c, embed_any, blocks_for(count), BLOCK, y->shape[0], y->shape[1], reals_of(y), y->stride[0], reals_of(table), table->stride[0],
		       (const int32_t *)index->data, index->stride[0]);
}

/* The gradient of a table entry v adds the rows of dy with index v in the order of b. A block owns a strip of one entry's columns, so no two
 * blocks add to the same element. It scans BLOCK indices at a time; each thread that finds v sets a bit. */
enum { COLUMNS = 4, STRIP = COLUMNS * BLOCK };

struct embedded {
	struct reals table, dy;
	int64_t table_step, dy_step, index_step, rows, cols;
	const int32_t *index;
};

static __device__ inline void add_row(const struct embedded *e, int64_t b, int64_t k, float sum[COLUMNS])
{
	UNROLL
	for (int c = 0; c < COLUMNS; c++)
		if (k + c * BLOCK < e->cols)
			sum[c] += reals_get(e->dy, b * e->dy_step + k + c * BLOCK);
}

static __device__ inline void sum_entry(const struct embedded *e, int64_t v, int64_t k, float sum[COLUMNS])
{
	__shared__ uint32_t found[BLOCK / WARP];

	for (int64_t from = 0; from < e->rows; from += BLOCK) {
		int64_t b = from + threadIdx.x;
		uint32_t mine = __ballot_sync(0xffffffffu, b < e->rows && e->index[b * e->index_step] == v);

		if (threadIdx.x % WARP == 0)
			found[threadIdx.x / WARP] = mine;
		__syncthreads();
		for (int w = 0; w < BLOCK / WARP; w++)
			for (uint32_t bits = found[w]; bits; bits &= bits - 1)
				add_row(e, from + w * WARP + __ffs((int)bits) - 1, k, sum);
		__syncthreads(); /* all threads have read `found` */
	}
}

static __global__ void embed_grad_strips(int64_t entries, struct embedded e)
{
	int64_t strips = (e.cols + STRIP - 1) / STRIP;

	for (int64_t i = blockIdx.x; i < entries * strips; i += gridDim.x) {
		int64_t v = i / strips, k = i % strips * STRIP + threadIdx.x;
		float sum[COLUMNS] = {0};

		sum_entry(&e, v, k, sum);
		UNROLL
		for (int c = 0; c < COLUMNS; c++)
			if (k + c * BLOCK < e.cols)
				reals_set(e.table, v * e.table_step + k + c * BLOCK, sum[c]);
	}
}

static void embed_grad_run(const struct op_call *c)
{
	const struct array *table = &c->out[0], *dy = &c->in[0], *index = &c->in[1];
	struct embedded e = {reals_of(table),  reals_of(dy), table->stride[0], dy->stride[0],
	                     index->stride[0], dy->shape[0], table->shape[1],  (const int32_t *)index->data};
	int64_t blocks = table->shape[0] * ((table->shape[1] + STRIP - 1) / STRIP);

	if (blocks)
		LAUNCH(c, embed_grad_strips, (unsigned)(blocks < 1 << 20 ? blocks : 1 << 20), BLOCK, table->shape[0], e);
}

/* The argument is reduced in double to an angle within pi before cos and sin in float. */
static __global__ void timestep_any(int64_t rows, int64_t half, double log_period, double scale, struct reals y, int64_t y_step, struct reals t,
                                    int64_t t_step)
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
		LAUNCH(c, timestep_any, blocks_for(y->shape[0] * half), BLOCK, y->shape[0], half, log(c->attr.timestep.max_period),
		       c->attr.timestep.scale, reals_of(y), y->stride[0], reals_of(t), t->stride[0]);
}

extern "C" {
extern const struct kernel kernel_embed_cuda = {embed_run, NULL};
extern const struct kernel kernel_embed_grad_cuda = {embed_grad_run, NULL};
extern const struct kernel kernel_timestep_cuda = {timestep_run, NULL};
}
