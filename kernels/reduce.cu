/* SUM on the GPU; kernels/reduce.c is the reference. The summed elements, in index order, are divided into groups by shape alone. A group is
 * summed by a tree of fixed shape. If there are several groups, a second launch adds their sums in order. */
#include "kernels/launch.h"

enum { ROWS = BLOCK / WARP, STRIDE = WARP * PACK, GROUPS_MOST = 512 };

struct sum {
	struct strided kept, summed; /* of x and y; of x */
	int64_t group, groups;
	float factor;
	float *part; /* (groups, kept) when groups > 1 */
};

static __device__ inline void sum_store(const struct sum &s, struct reals y, int64_t group, int64_t kept, int64_t y_at, float v)
{
	if (s.groups > 1)
		s.part[group * s.kept.count + kept] = v;
	else
		reals_set(y, y_at, s.factor * v);
}

/* A block sums a group for the kept elements of one warp, W per lane, contiguous if W > 1; warp r adds rows r, r + ROWS, .. */
template <int W> static __global__ void sum_columns(struct sum s, struct reals y, struct reals x)
{
	__shared__ float rows[ROWS][WARP * W];
	int64_t first = (int64_t)blockIdx.x * WARP * W, kept = first + threadIdx.x % WARP * W, group = blockIdx.y;
	int64_t end = (group + 1) * s.group < s.summed.count ? (group + 1) * s.group : s.summed.count, at[4], row[4];
	float sum[W] = {0}, v[PACK];

	if (kept < s.kept.count) {
		strided_at(&s.kept, kept, at);
		for (int64_t i = group * s.group + threadIdx.x / WARP; i < end; i += ROWS) {
			strided_at(&s.summed, i, row);
			if (W > 1)
				reals_get8(x, at[0] + row[0], v);
			else
				v[0] = reals_get(x, at[0] + row[0]);
			for (int k = 0; k < W; k++)
				sum[k] += v[k];
		}
	}
	for (int k = 0; k < W; k++)
		rows[threadIdx.x / WARP][threadIdx.x % WARP * W + k] = sum[k];
	__syncthreads();
	for (int64_t k = threadIdx.x; k < WARP * W && first + k < s.kept.count; k += BLOCK) {
		float all = rows[0][k];

		for (int r = 1; r < ROWS; r++)
			all += rows[r][k];
		strided_at(&s.kept, first + k, at);
		sum_store(s, y, group, first + k, at[1], all);
	}
}

/* A warp sums a group of one kept element; a lane reads W summed elements at a time, contiguous if W > 1. */
template <int W> static __global__ void sum_runs(struct sum s, struct reals y, struct reals x)
{
	int64_t lane = threadIdx.x % WARP, items = s.kept.count * s.groups;

	for (int64_t item = thread_index() / WARP; item < items; item += thread_count() / WARP) {
		int64_t kept = item % s.kept.count, group = item / s.kept.count, at[4], next[4];
		int64_t end = (group + 1) * s.group < s.summed.count ? (group + 1) * s.group : s.summed.count;
		float sum = 0, v[PACK];

		strided_at(&s.kept, kept, at);
		for (int64_t i = group * s.group + lane * W; i < end; i += WARP * W) {
			strided_at(&s.summed, i, next);
			if (W > 1)
				reals_get8(x, at[0] + next[0], v);
			else
				v[0] = reals_get(x, at[0] + next[0]);
			for (int k = 0; k < W; k++)
				sum += v[k];
		}
		for (int step = WARP / 2; step; step /= 2)
			sum += __shfl_down_sync(0xffffffffu, sum, step);
		if (lane == 0)
			sum_store(s, y, group, kept, at[1], sum);
	}
}

static __global__ void sum_groups(struct sum s, struct reals y)
{
	for (int64_t kept = thread_index(); kept < s.kept.count; kept += thread_count()) {
		float sum = 0;
		int64_t at[4];

		for (int64_t g = 0; g < s.groups; g++)
			sum += s.part[g * s.kept.count + kept];
		strided_at(&s.kept, kept, at);
		reals_set(y, at[1], s.factor * sum);
	}
}

static void add_dimension(struct strided *s, int64_t size, int64_t x_stride, int64_t y_stride)
{
	s->shape[s->rank] = size;
	s->stride[0][s->rank] = x_stride;
	s->stride[1][s->rank++] = y_stride;
}

/* The plan of a sum. Group sizes are multiples of what a warp adds at a time. */
static struct sum sum_of(const struct op_call *c)
{
	const struct array *x = &c->in[0], *y = &c->out[0];
	struct sum s;

	memset(&s, 0, sizeof s);
	s.kept.arrays = 2;
	s.summed.arrays = 1;
	for (int d = 0; d < x->rank; d++)
		if (x->shape[d] != 1 && y->shape[d] == 1)
			add_dimension(&s.summed, x->shape[d], x->stride[d], 0);
		else if (x->shape[d] != 1)
			add_dimension(&s.kept, x->shape[d], x->stride[d], y->stride[d]);
	for (struct strided *w = &s.kept; w; w = w == &s.kept ? &s.summed : NULL) {
		if (!w->rank)
			add_dimension(w, 1, 0, 0);
		strided_merge(w);
	}
	s.group = (s.summed.count / GROUPS_MOST / STRIDE + 1) * STRIDE;
	s.groups = s.summed.count ? (s.summed.count + s.group - 1) / s.group : 1;
	s.factor = (float)c->attr.sum.factor;
	return s;
}

/* Whether x's elements can be read PACK at a time along the last dimension of `inner`. The stride of a batch of one sample is checked too, so that
 * the answer does not depend on the batch size. */
static int packs(const struct array *x, const struct strided *inner, const struct strided *outer)
{
	const struct strided *both[2] = {inner, outer};

	if (inner->stride[0][inner->rank - 1] != 1 || inner->shape[inner->rank - 1] % PACK || (uintptr_t)x->data % 16)
		return 0;
	if (x->shape[0] == 1 && x->stride[0] % PACK)
		return 0;
	for (int w = 0; w < 2; w++)
		for (int d = 0; d < both[w]->rank - (w == 0); d++)
			if (both[w]->stride[0][d] % PACK)
				return 0;
	return 1;
}

static void launch_columns(const struct op_call *c, const struct sum *s)
{
	const struct array *x = &c->in[0], *y = &c->out[0];
	int wide = packs(x, &s->kept, &s->summed), take = WARP * (wide ? PACK : 1);
	dim3 grid((unsigned)((s->kept.count + take - 1) / take), (unsigned)s->groups);

	if (wide)
		LAUNCH(c, sum_columns<PACK>, grid, BLOCK, *s, reals_of(y), reals_of(x));
	else
		LAUNCH(c, sum_columns<1>, grid, BLOCK, *s, reals_of(y), reals_of(x));
}

static void launch_runs(const struct op_call *c, const struct sum *s)
{
	const struct array *x = &c->in[0], *y = &c->out[0];
	unsigned blocks = blocks_for(s->kept.count * s->groups * WARP);

	if (packs(x, &s->summed, &s->kept))
		LAUNCH(c, sum_runs<PACK>, blocks, BLOCK, *s, reals_of(y), reals_of(x));
	else
		LAUNCH(c, sum_runs<1>, blocks, BLOCK, *s, reals_of(y), reals_of(x));
}

static void sum_run(const struct op_call *c)
{
	struct sum s = sum_of(c);

	if (!s.kept.count)
		return;
	s.part = (float *)c->scratch;
	if (s.summed.count > 1 && array_sums_runs(&c->in[0], &c->out[0]))
		launch_runs(c, &s);
	else
		launch_columns(c, &s);
	if (s.groups > 1)
		LAUNCH(c, sum_groups, blocks_for(s.kept.count), BLOCK, s, reals_of(&c->out[0]));
}

/* An upper bound that no smaller batch exceeds. */
static size_t sum_scratch(const struct op_call *c, int)
{
	struct sum s = sum_of(c);
	int64_t groups = s.summed.count / STRIDE + 1, most = GROUPS_MOST;

	return (size_t)((groups < most ? groups : most) * s.kept.count) * sizeof(float);
}

extern "C" {
extern const struct kernel kernel_sum_cuda = {sum_run, sum_scratch};
}
