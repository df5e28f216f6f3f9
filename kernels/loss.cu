/* SOFTMAX, XENT, XENT_SOFT, MSE and their gradients on the GPU. A block sums a row or a sample in float, by a tree of fixed shape. */
#include "kernels/launch.h"

/* Rows of up to three arrays: `lead` gives the offsets of a row; its columns are contiguous. */
struct rows {
	struct strided lead;
	int64_t cols;
};

static inline struct rows rows_of(const struct array *like, const struct array *const *arrays, int n)
{
	struct array lead[3], first = *like;
	const struct array *leads[3];
	struct rows r;

	first.rank--;
	for (int a = 0; a < n; a++) {
		lead[a] = *arrays[a];
		lead[a].rank--;
		leads[a] = &lead[a];
	}
	r.lead = strided_of(&first, leads, n);
	r.cols = like->shape[like->rank - 1];
	return r;
}

static inline unsigned row_blocks(int64_t rows)
{
	return (unsigned)(rows < 1 << 20 ? rows : 1 << 20);
}

static __device__ inline float row_max(struct reals x, int64_t at, int64_t n)
{
	float top = -INFINITY;

	for (int64_t i = threadIdx.x; i < n; i += BLOCK)
		top = fmaxf(top, reals_get(x, at + i));
	return block_max(top);
}

static __device__ inline float row_sum_exp(struct reals x, int64_t at, int64_t n, float top)
{
	float sum = 0;

	for (int64_t i = threadIdx.x; i < n; i += BLOCK)
		sum += expf(reals_get(x, at + i) - top);
	return block_sum(sum);
}

static __global__ void softmax_rows(struct rows r, struct reals y, struct reals x)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float top, scale;

		strided_at(&r.lead, row, at);
		top = row_max(x, at[1], r.cols);
		scale = 1.f / row_sum_exp(x, at[1], r.cols, top);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			reals_set(y, at[0] + i, expf(reals_get(x, at[1] + i) - top) * scale);
	}
}

static void softmax_run(const struct op_call *c)
{
	const struct array *const arrays[2] = {&c->out[0], &c->in[0]};
	struct rows r = rows_of(&c->out[0], arrays, 2);

	if (r.lead.count && r.cols)
		LAUNCH(c, softmax_rows, row_blocks(r.lead.count), BLOCK, r, reals_of(&c->out[0]), reals_of(&c->in[0]));
}

static __global__ void softmax_grad_rows(struct rows r, struct reals dx, struct reals dy, struct reals y)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float sum = 0;

		strided_at(&r.lead, row, at);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			sum += reals_get(dy, at[1] + i) * reals_get(y, at[2] + i);
		sum = block_sum(sum);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			reals_set(dx, at[0] + i, reals_get(y, at[2] + i) * (reals_get(dy, at[1] + i) - sum));
	}
}

static void softmax_grad_run(const struct op_call *c)
{
	const struct array *const arrays[3] = {&c->out[0], &c->in[0], &c->in[1]};
	struct rows r = rows_of(&c->out[0], arrays, 3);

	if (r.lead.count && r.cols)
		LAUNCH(c, softmax_grad_rows, row_blocks(r.lead.count), BLOCK, r, reals_of(&c->out[0]), reals_of(&c->in[0]), reals_of(&c->in[1]));
}

/* A strided vector; absent (p NULL) it stands for ones. */
struct vector {
	struct reals v;
	int64_t step;
};

static inline struct vector vector_of(const struct array *a)
{
	struct vector v = {reals_of(a), a->stride[0]};

	return v;
}

static __device__ inline float vector_get(struct vector v, int64_t i)
{
	return v.v.p ? reals_get(v.v, i * v.step) : 1.f;
}

static __global__ void xent_rows(struct rows r, struct vector loss, struct reals x, const int32_t *label, int64_t label_step)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float top, sum;

		strided_at(&r.lead, row, at);
		top = row_max(x, at[0], r.cols);
		sum = row_sum_exp(x, at[0], r.cols, top);
		if (threadIdx.x == 0)
			reals_set(loss.v, row * loss.step, top + logf(sum) - reals_get(x, at[0] + label[row * label_step]));
	}
}

static void xent_run(const struct op_call *c)
{
	const struct array *const arrays[1] = {&c->in[0]};
	struct rows r = rows_of(&c->in[0], arrays, 1);

	if (r.lead.count && r.cols)
		LAUNCH(c, xent_rows, row_blocks(r.lead.count), BLOCK, r, vector_of(&c->out[0]), reals_of(&c->in[0]), (const int32_t *)c->in[1].data,
		       c->in[1].stride[0]);
}

static __global__ void xent_grad_rows(struct rows r, struct reals dx, struct vector dloss, struct reals x, const int32_t *label, int64_t label_step)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float top, f = vector_get(dloss, row), scale;

		strided_at(&r.lead, row, at);
		top = row_max(x, at[1], r.cols);
		scale = f / row_sum_exp(x, at[1], r.cols, top);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			reals_set(dx, at[0] + i, expf(reals_get(x, at[1] + i) - top) * scale - (i == label[row * label_step] ? f : 0.f));
	}
}

static void xent_grad_run(const struct op_call *c)
{
	const struct array *const arrays[2] = {&c->out[0], &c->in[1]};
	struct rows r = rows_of(&c->out[0], arrays, 2);

	if (r.lead.count && r.cols)
		LAUNCH(c, xent_grad_rows, row_blocks(r.lead.count), BLOCK, r, reals_of(&c->out[0]), vector_of(&c->in[0]), reals_of(&c->in[1]),
		       (const int32_t *)c->in[2].data, c->in[2].stride[0]);
}

static __global__ void xent_soft_rows(struct rows r, struct vector loss, struct reals x, struct reals target)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float top, lse, sum = 0;

		strided_at(&r.lead, row, at);
		top = row_max(x, at[0], r.cols);
		lse = top + logf(row_sum_exp(x, at[0], r.cols, top));
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			sum += reals_get(target, at[1] + i) * (lse - reals_get(x, at[0] + i));
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			reals_set(loss.v, row * loss.step, sum);
	}
}

static void xent_soft_run(const struct op_call *c)
{
	const struct array *const arrays[2] = {&c->in[0], &c->in[1]};
	struct rows r = rows_of(&c->in[0], arrays, 2);

	if (r.lead.count && r.cols)
		LAUNCH(c, xent_soft_rows, row_blocks(r.lead.count), BLOCK, r, vector_of(&c->out[0]), reals_of(&c->in[0]), reals_of(&c->in[1]));
}

static __global__ void xent_soft_grad_rows(struct rows r, struct reals dx, struct vector dloss, struct reals x, struct reals target)
{
	for (int64_t row = blockIdx.x; row < r.lead.count; row += gridDim.x) {
		int64_t at[4];
		float top, f = vector_get(dloss, row), scale, sum = 0;

		strided_at(&r.lead, row, at);
		top = row_max(x, at[1], r.cols);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			sum += reals_get(target, at[2] + i);
		sum = block_sum(sum);
		scale = f * sum / row_sum_exp(x, at[1], r.cols, top);
		for (int64_t i = threadIdx.x; i < r.cols; i += BLOCK)
			reals_set(dx, at[0] + i, expf(reals_get(x, at[1] + i) - top) * scale - f * reals_get(target, at[2] + i));
	}
}

static void xent_soft_grad_run(const struct op_call *c)
{
	const struct array *const arrays[3] = {&c->out[0], &c->in[1], &c->in[2]};
	struct rows r = rows_of(&c->out[0], arrays, 3);

	if (r.lead.count && r.cols)
		LAUNCH(c, xent_soft_grad_rows, row_blocks(r.lead.count), BLOCK, r, reals_of(&c->out[0]), vector_of(&c->in[0]), reals_of(&c->in[1]),
		       reals_of(&c->in[2]));
}

static __global__ void mse_samples(int64_t samples, int64_t size, struct vector loss, struct reals a, struct reals b, struct vector weight)
{
	for (int64_t s = blockIdx.x; s < samples; s += gridDim.x) {
		float sum = 0;

		for (int64_t i = s * size + threadIdx.x; i < (s + 1) * size; i += BLOCK) {
			float d = reals_get(a, i) - reals_get(b, i);

			sum += d * d;
		}
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			reals_set(loss.v, s * loss.step, vector_get(weight, s) * (sum / (float)size));
	}
}

static void mse_run(const struct op_call *c)
{
	int64_t n = c->in[0].shape[0], size = n ? array_count(&c->in[0]) / n : 0;

	if (n && size)
		LAUNCH(c, mse_samples, row_blocks(n), BLOCK, n, size, vector_of(&c->out[0]), reals_of(&c->in[0]), reals_of(&c->in[1]),
		       vector_of(&c->in[2]));
}

static __global__ void mse_grad_any(int64_t count, int64_t size, struct reals da, struct vector dloss, struct reals a, struct reals b,
                                    struct vector weight)
{
	for (int64_t i = thread_index(); i < count; i += thread_count()) {
		float f = vector_get(dloss, i / size) * vector_get(weight, i / size) * (2.f / (float)size);

		reals_set(da, i, f * (reals_get(a, i) - reals_get(b, i)));
	}
}

static void mse_grad_run(const struct op_call *c)
{
	int64_t count = array_count(&c->out[0]);

	if (count)
		LAUNCH(c, mse_grad_any, blocks_for(count), BLOCK, count, count / c->out[0].shape[0], reals_of(&c->out[0]), vector_of(&c->in[0]),
		       reals_of(&c->in[1]), reals_of(&c->in[2]), vector_of(&c->in[3]));
}

extern "C" {
extern const struct kernel kernel_softmax_cuda = {softmax_run, NULL};
extern const struct kernel kernel_softmax_grad_cuda = {softmax_grad_run, NULL};
extern const struct kernel kernel_xent_cuda = {xent_run, NULL};
extern const struct kernel kernel_xent_grad_cuda = {xent_grad_run, NULL};
extern const struct kernel kernel_xent_soft_cuda = {xent_soft_run, NULL};
extern const struct kernel kernel_xent_soft_grad_cuda = {xent_soft_grad_run, NULL};
extern const struct kernel kernel_mse_cuda = {mse_run, NULL};
extern const struct kernel kernel_mse_grad_cuda = {mse_grad_run, NULL};
}
