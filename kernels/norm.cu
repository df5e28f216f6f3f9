/* NORM and NORM_GRAD on the GPU. A row of up to 4096 columns is read once and held in registers, eight columns per thread; the block sums it for
 * the mean, and then the squared deviations. The kernels for other shapes read rows several times. x may be a float residual stream among bfloat16
 * activations, so the types of the rows are parameters of the templates. */
#include "kernels/group.h"

enum { ROWS = 4, ROWS_GRAD = 2 /* processed at a time, so that their loads and sums overlap; with few rows, NORM takes one */ };

/* Sum each of N values over a team, in a tree of fixed shape; every thread receives the sums. */
template <int N> static __device__ inline void team_sum(float v[N])
{
	__shared__ float warp[TEAM / WARP][N];

	for (int step = WARP / 2; step; step /= 2)
		UNROLL
	for (int i = 0; i < N; i++)
		v[i] += __shfl_xor_sync(0xffffffffu, v[i], step);
	if (blockDim.x == WARP)
		return;
	__syncthreads(); /* wait until the last call's sums have been read */
	if (threadIdx.x % WARP == 0)
		UNROLL
	for (int i = 0; i < N; i++)
		warp[threadIdx.x / WARP][i] = v[i];
	__syncthreads();
	UNROLL
	for (int i = 0; i < N; i++)
		v[i] = warp[0][i];
	for (unsigned w = 1; w < blockDim.x / WARP; w++)
		UNROLL
	for (int i = 0; i < N; i++)
		v[i] += warp[w][i];
}

/* PACK columns of a row, plus `plus`; `absent` if there is no array. */
static __device__ inline void common8(struct reals a, int64_t at, float absent, float plus, float v[PACK])
{
	for (int k = 0; k < PACK; k++)
		v[k] = absent;
	if (a.p) {
		reals_get8(a, at, v);
		for (int k = 0; k < PACK; k++)
			v[k] += plus;
	}
}

/* The number of threads of a block that processes rows of n columns. */
static unsigned threads_for(int64_t n)
{
	return n < BLOCK ? (unsigned)((n + WARP - 1) / WARP * WARP) : (unsigned)BLOCK;
}

enum { Y, X, STATS, SCALE, SHIFT, NORM_ARRAYS };

struct norm {
	struct reals y, x, scale, shift;
	float *stats;
	float plus, eps;
	int centred;
};

static __device__ inline float norm_value(float x, float mean, float rstd, float scale, float shift, int scaled)
{
	return scaled ? fmaf((x - mean) * rstd, scale, shift) : fmaf(x - mean, rstd, shift);
}

static __device__ inline void stats_set(float *to, float mean, float rstd)
{
	to[0] = mean;
	to[1] = rstd;
}

/* Mean and 1 / standard deviation of N rows. Idle threads hold copies of other threads' values, which are not counted. */
template <int N>
static __device__ inline void norm_stats(const struct norm *k, float x[N][PACK], int idle, int64_t cols, float mean[N], float rstd[N])
{
	UNROLL
	for (int i = 0; i < N; i++)
		mean[i] = 0;
	if (k->centred) {
		UNROLL
		for (int i = 0; i < N; i++)
			for (int j = 0; j < PACK; j++)
				mean[i] += idle ? 0.f : x[i][j];
		team_sum<N>(mean);
		UNROLL
		for (int i = 0; i < N; i++)
			mean[i] /= (float)cols;
	}
	UNROLL
	for (int i = 0; i < N; i++) {
		rstd[i] = 0;
		for (int j = 0; j < PACK; j++) {
			float d = idle ? 0.f : x[i][j] - mean[i];

			rstd[i] = fmaf(d, d, rstd[i]);
		}
	}
	team_sum<N>(rstd);
	UNROLL
	for (int i = 0; i < N; i++)
		rstd[i] = 1.f / sqrtf(rstd[i] / (float)cols + k->eps);
}

/* X_BF16, Y_BF16: whether x and y are bfloat16. N: rows processed at a time; a row's bits do not depend on it. */
template <int X_BF16, int Y_BF16, int N> static __global__ void __launch_bounds__(TEAM) norm_packs(struct groups g, struct norm k)
{
	const struct reals out = {k.y.p, Y_BF16}, in = {k.x.p, X_BF16};
	int idle = threadIdx.x * PACK >= g.cols;
	int64_t col = idle ? 0 : threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; item < g.kept * g.groups; item += gridDim.x) {
		struct group<NORM_ARRAYS> u = group_at<NORM_ARRAYS>(&g, item);
		float scale[PACK], shift[PACK];

		common8(k.scale, u.base[SCALE] + col, 1, k.plus, scale);
		common8(k.shift, u.base[SHIFT] + col, 0, 0, shift);
		for (int64_t r = u.first; r < u.last; r += N) {
			int64_t at[N][NORM_ARRAYS];
			float x[N][PACK], mean[N], rstd[N];

			UNROLL
			for (int i = 0; i < N; i++) {
				group_row<NORM_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(in, at[i][X] + col, x[i]);
			}
			norm_stats<N>(&k, x, idle, g.cols, mean, rstd);
			UNROLL
			for (int i = 0; i < N; i++) {
				if (threadIdx.x == 0 && r + i < u.last)
					stats_set(k.stats + at[i][STATS], mean[i], rstd[i]);
				for (int j = 0; j < PACK; j++)
					x[i][j] = norm_value(x[i][j], mean[i], rstd[i], scale[j], shift[j], k.scale.p != NULL);
				if (!idle && r + i < u.last)
					reals_set8(out, at[i][Y] + col, x[i]);
			}
		}
	}
}

/* A block per row, of any width and alignment. */
static __global__ void norm_any(struct groups g, struct norm k)
{
	for (int64_t row = blockIdx.x; row < g.kept * g.summed; row += gridDim.x) {
		int64_t at[NORM_ARRAYS] = {0};
		float sum[1] = {0}, mean = 0, rstd;

		groups_walk<NORM_ARRAYS>(&g, 0, g.rank_kept, row / g.summed, at);
		groups_walk<NORM_ARRAYS>(&g, g.rank_kept, g.rank, row % g.summed, at);
		if (k.centred) {
			for (int64_t i = threadIdx.x; i < g.cols; i += blockDim.x)
				sum[0] += reals_get(k.x, at[X] + i);
			team_sum<1>(sum);
			mean = sum[0] / (float)g.cols;
			sum[0] = 0;
		}
		for (int64_t i = threadIdx.x; i < g.cols; i += blockDim.x) {
			float d = reals_get(k.x, at[X] + i) - mean;

			sum[0] = fmaf(d, d, sum[0]);
		}
		team_sum<1>(sum);
		rstd = 1.f / sqrtf(sum[0] / (float)g.cols + k.eps);
		if (threadIdx.x == 0)
			stats_set(k.stats + at[STATS], mean, rstd);
		for (int64_t i = threadIdx.x; i < g.cols; i += blockDim.x)
			reals_set(k.y, at[Y] + i,
			          norm_value(reals_get(k.x, at[X] + i), mean, rstd, k.scale.p ? reals_get(k.scale, at[SCALE] + i) + k.plus : 1.f,
			                     k.shift.p ? reals_get(k.shift, at[SHIFT] + i) : 0.f, k.scale.p != NULL));
	}
}

template <int N> static void norm_launch(const struct op_call *c, const struct groups *g, const struct norm *k)
{
	if (k->x.bf16)
		LAUNCH(c, (norm_packs<1, 1, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
	else if (k->y.bf16)
		LAUNCH(c, (norm_packs<0, 1, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
	else
		LAUNCH(c, (norm_packs<0, 0, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
}

static void norm_run(const struct op_call *c)
{
	const struct array *x = &c->in[0], *scale = &c->in[1], *shift = &c->in[2];
	const struct array *const arrays[NORM_ARRAYS] = {&c->out[0], x, &c->out[1], scale, shift};
	struct groups g = groups_of(x, arrays, NORM_ARRAYS, group_varies(x, scale) | group_varies(x, shift));
	struct norm k = {reals_of(&c->out[0]),    reals_of(x),
	                 reals_of(scale),         reals_of(shift),
	                 (float *)c->out[1].data, (float)(c->attr.norm.one_plus != 0),
	                 (float)c->attr.norm.eps, c->attr.norm.kind == NORM_LAYER};
	int packs = k.y.bf16 || !k.x.bf16;

	for (int a = 0; a < NORM_ARRAYS; a++)
		packs &= a == STATS || groups_packs(&g, arrays[a]);
	if (!g.kept || !g.summed || !g.cols)
		return;
	if (packs && groups_single(&g, c, ROWS))
		norm_launch<1>(c, &g, &k);
	else if (packs)
		norm_launch<ROWS>(c, &g, &k);
	else
		LAUNCH(c, norm_any, blocks_of(g.kept * g.summed), threads_for(g.cols), g, k);
}

enum { G_DY, G_X, G_STATS, G_SCALE, G_ACC, G_DX, GRAD_ARRAYS, G_DSCALE = GRAD_ARRAYS, G_DSHIFT, GRAD_ALL };

struct norm_grad {
	struct reals dy, x, scale, acc, dx;
	const float *stats;
	float plus;
	int centred, sums;
};

/* The gradient of one pack of a row, in two steps. grad_shares adds up its g and g xhat, where g = dy scale, and replaces x by xhat. The second
 * step, when the sums are known, replaces x by the gradient. */
static __device__ inline void grad_shares(float x[PACK], const float dy[PACK], const float scale[PACK], float mean, float rstd, float *m1, float *m2)
{
	*m1 = *m2 = 0;
	for (int j = 0; j < PACK; j++) {
		x[j] = (x[j] - mean) * rstd;
		*m1 += dy[j] * scale[j];
		*m2 = fmaf(dy[j] * scale[j], x[j], *m2);
	}
}

static __device__ inline void grad_values(float x[PACK], const float dy[PACK], const float scale[PACK], float rstd, float m1, float m2)
{
	for (int j = 0; j < PACK; j++)
		x[j] = rstd * (dy[j] * scale[j] - m1 - x[j] * m2);
}

/* DY_BF16: whether dy is bfloat16; X_BF16: whether x, acc and dx are. part [kept][groups][2][cols]: receives the sums of dy xhat and of dy. */
template <int DY_BF16, int X_BF16> static __global__ void __launch_bounds__(TEAM) norm_grad_packs(struct groups g, struct norm_grad k, float *part)
{
	enum { N = ROWS_GRAD };
	const struct reals from = {k.dy.p, DY_BF16}, in = {k.x.p, X_BF16}, plus = {k.acc.p, X_BF16}, to = {k.dx.p, X_BF16};
	const struct reals sums = {part, 0};
	int idle = threadIdx.x * PACK >= g.cols;
	int64_t col = idle ? 0 : threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; item < g.kept * g.groups; item += gridDim.x) {
		struct group<GRAD_ARRAYS> u = group_at<GRAD_ARRAYS>(&g, item);
		float scale[PACK], dscale[PACK] = {0}, dshift[PACK] = {0};

		common8(k.scale, u.base[G_SCALE] + col, 1, k.plus, scale);
		for (int64_t r = u.first; r < u.last; r += N) {
			int64_t at[N][GRAD_ARRAYS];
			float x[N][PACK], dy[N][PACK], acc[N][PACK], rstd[N], m[2 * N];

			UNROLL
			for (int i = 0; i < N; i++) {
				group_row<GRAD_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(in, at[i][G_X] + col, x[i]);
				reals_get8(from, at[i][G_DY] + col, dy[i]);
				common8(plus, at[i][G_ACC] + col, 0, 0, acc[i]);
			}
			UNROLL
			for (int i = 0; i < N; i++) {
				rstd[i] = k.stats[at[i][G_STATS] + 1];
				grad_shares(x[i], dy[i], scale, k.stats[at[i][G_STATS]], rstd[i], &m[i], &m[N + i]);
				m[i] = idle ? 0 : m[i];
				m[N + i] = idle ? 0 : m[N + i];
			}
			team_sum<2 * N>(m);
			UNROLL
			for (int i = 0; i < N; i++) {
				for (int j = 0; j < PACK; j++) {
					dscale[j] = r + i < u.last ? fmaf(dy[i][j], x[i][j], dscale[j]) : dscale[j];
					dshift[j] += r + i < u.last ? dy[i][j] : 0.f;
				}
				grad_values(x[i], dy[i], scale, rstd[i], k.centred ? m[i] / (float)g.cols : 0.f, m[N + i] / (float)g.cols);
				for (int j = 0; j < PACK; j++)
					x[i][j] += acc[i][j];
				if (!idle && r + i < u.last)
					reals_set8(to, at[i][G_DX] + col, x[i]);
			}
		}
		if (k.sums && !idle) {
			reals_set8(sums, item * 2 * g.cols + col, dscale);
			reals_set8(sums, (item * 2 + 1) * g.cols + col, dshift);
		}
	}
}

/* Only dx, a block per row. */
static __global__ void norm_grad_any(struct groups g, struct norm_grad k)
{
	for (int64_t row = blockIdx.x; row < g.kept * g.summed; row += gridDim.x) {
		int64_t at[GRAD_ARRAYS] = {0};
		float m[2] = {0, 0}, mean, rstd;

		groups_walk<GRAD_ARRAYS>(&g, 0, g.rank_kept, row / g.summed, at);
		groups_walk<GRAD_ARRAYS>(&g, g.rank_kept, g.rank, row % g.summed, at);
		mean = k.stats[at[G_STATS]];
		rstd = k.stats[at[G_STATS] + 1];
		for (int64_t i = threadIdx.x; i < g.cols; i += blockDim.x) {
			float dy = reals_get(k.dy, at[G_DY] + i) * (k.scale.p ? reals_get(k.scale, at[G_SCALE] + i) + k.plus : 1.f);

			m[0] += dy;
			m[1] = fmaf(dy, (reals_get(k.x, at[G_X] + i) - mean) * rstd, m[1]);
		}
		team_sum<2>(m);
		m[0] = k.centred ? m[0] / (float)g.cols : 0.f;
		m[1] /= (float)g.cols;
		for (int64_t i = threadIdx.x; i < g.cols; i += blockDim.x) {
			float dy = reals_get(k.dy, at[G_DY] + i) * (k.scale.p ? reals_get(k.scale, at[G_SCALE] + i) + k.plus : 1.f);
			float dx = rstd * (dy - m[0] - (reals_get(k.x, at[G_X] + i) - mean) * rstd * m[1]);

			reals_set(k.dx, at[G_DX] + i, dx + (k.acc.p ? reals_get(k.acc, at[G_ACC] + i) : 0.f));
		}
	}
}

struct dscale_term {
	struct reals dy, x;
	const float *stats;
	__device__ float operator()(const int64_t *at, int64_t c) const
	{
		return reals_get(dy, at[G_DY] + c) * ((reals_get(x, at[G_X] + c) - stats[at[G_STATS]]) * stats[at[G_STATS] + 1]);
	}
};

struct dshift_term {
	struct reals dy;
	__device__ float operator()(const int64_t *at, int64_t c) const
	{
		return reals_get(dy, at[G_DY] + c);
	}
};

static int same_shape(const struct array *a, const struct array *b)
{
	for (int d = 0; d < a->rank; d++)
		if (a->shape[d] != b->shape[d])
			return 0;
	return 1;
}

/* Whether norm_grad_packs can be used: its types, whole packs, a scale shared by the rows of a group, and both sums over the same rows. */
static int norm_grad_packed(const struct groups *g, const struct norm_grad *k, const struct array *const *arrays)
{
	const struct array *dscale = arrays[G_DSCALE], *dshift = arrays[G_DSHIFT];

	if ((k->x.bf16 && !k->dy.bf16) || k->dx.bf16 != k->x.bf16 || (k->acc.p && k->acc.bf16 != k->x.bf16))
		return 0;
	for (int a = 0; a < GRAD_ARRAYS; a++)
		if (a != G_STATS && !groups_packs(g, arrays[a]))
			return 0;
	return groups_common(g, G_SCALE) && !(dscale->data && dshift->data && !same_shape(dscale, dshift));
}

static void norm_grad_fused(const struct op_call *c, const struct groups *g, const struct norm_grad *k)
{
	int64_t items = g->kept * g->groups, tiles = (g->cols + WARP - 1) / WARP;
	float *part = (float *)c->scratch;

	if (k->x.bf16)
		LAUNCH(c, (norm_grad_packs<1, 1>), blocks_of(items), team_of(g->cols), *g, *k, part);
	else if (k->dy.bf16)
		LAUNCH(c, (norm_grad_packs<1, 0>), blocks_of(items), team_of(g->cols), *g, *k, part);
	else
		LAUNCH(c, (norm_grad_packs<0, 0>), blocks_of(items), team_of(g->cols), *g, *k, part);
	for (int o = 0; o < 2; o++)
		if (c->out[1 + o].data)
			LAUNCH(c, groups_add, blocks_of(g->kept * tiles), BLOCK, *g, G_DSCALE + o, reals_of(&c->out[1 + o]), g->cols,
			       part + o * g->cols, 2 * g->cols);
}

static void norm_grad_run(const struct op_call *c)
{
	const struct array *x = &c->in[1], *dscale = &c->out[1], *dshift = &c->out[2];
	const struct array *sum = dscale->data ? dscale : dshift->data ? dshift : &c->in[3];
	const struct array *const arrays[GRAD_ALL] = {&c->in[0], x, &c->in[2], &c->in[3], &c->in[4], &c->out[0], dscale, dshift};
	struct groups g = groups_of(x, arrays, GRAD_ALL, group_varies(x, sum));
	struct norm_grad k = {reals_of(&c->in[0]),
	                      reals_of(x),
	                      reals_of(&c->in[3]),
	                      reals_of(&c->in[4]),
	                      reals_of(&c->out[0]),
	                      (const float *)c->in[2].data,
	                      (float)(c->attr.norm.one_plus != 0),
	                      c->attr.norm.kind == NORM_LAYER,
	                      dscale->data || dshift->data};

	if (g.kept > 0 && g.summed > 0 && g.cols > 0 && norm_grad_packed(&g, &k, arrays)) {
		norm_grad_fused(c, &g, &k);
		return;
	}
	if (g.kept > 0 && g.summed > 0 && g.cols > 0)
		LAUNCH(c, norm_grad_any, blocks_of(g.kept * g.summed), threads_for(g.cols), g, k);
	if (dscale->data) {
		struct dscale_term f = {k.dy, k.x, k.stats};

		groups_sum<G_STATS + 1>(c, f, x, arrays, dscale);
	}
	if (dshift->data) {
		struct dshift_term f = {k.dy};

		groups_sum<G_DY + 1>(c, f, x, arrays, dshift);
	}
}

static size_t norm_grad_scratch(const struct op_call *c, int workers)
{
	int64_t a = groups_scratch(&c->in[1], &c->out[1]), b = groups_scratch(&c->in[1], &c->out[2]);

	(void)workers;
	return (size_t)(a > b ? a : b) * 2 * sizeof(float);
}

extern "C" {
extern const struct kernel kernel_norm_cuda = {norm_run, NULL};
extern const struct kernel kernel_norm_grad_cuda = {norm_grad_run, norm_grad_scratch};
}
