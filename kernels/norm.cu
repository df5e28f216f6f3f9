/* NORM and NORM_GRAD on the GPU. A row of up to 4096 columns is read once and held in registers, eight columns per thread; the block sums it for
 * the mean, and then the squared deviations. The kernels for other shapes read rows several times. x may be a float residual stream among bfloat16
 * activations, so the types of the rows are parameters of the templates. A residual stream is often gated and then normalised: with a gate both are
 * one pass, with the bits of GATE and NORM, and so are their gradients. */
#include "kernels/group.h"

extern "C" const struct kernel kernel_gate_cuda, kernel_gate_grad_cuda;

static const struct array absent = {NULL, DT_F32, 0, {0}, {0}};

enum { ROWS = 4, ROWS_GRAD = 2 /* processed at a time, so that their loads and sums overlap; with few or very wide rows, NORM takes one */ };
enum { TEAM_MANY = TEAM / 2 /* threads per row at most in a kernel that needs many registers */ };

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

/* What a value is when it has been stored. */
template <int BF16> static __device__ inline float stored(float v)
{
	return BF16 ? bf16_load(bf16_store(v)) : v;
}

enum { Y, X, STATS, SCALE, SHIFT, GATE, H, S, NORM_ARRAYS };

struct norm {
	struct reals y, x, scale, shift;
	float *stats;
	float plus, eps;
	int centred;
	struct reals gate, h, s;
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

/* X_BF16, Y_BF16: whether x (and s), and y (and h) are bfloat16. N: rows processed at a time; a row's bits do not depend on it. GATED: with a
 * gate. The minimum of one block lets the kernels of many rows use as many registers as they need. */
template <int X_BF16, int Y_BF16, int N, int GATED>
static __global__ void __launch_bounds__(N > 1 ? TEAM_MANY : TEAM, 1) norm_packs(struct groups g, struct norm k)
{
	const struct reals out = {k.y.p, Y_BF16}, in = {k.x.p, X_BF16}, by = {k.h.p, Y_BF16}, sum = {k.s.p, X_BF16};
	int idle = threadIdx.x * PACK >= g.cols;
	int64_t col = idle ? 0 : threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; item < g.kept * g.groups; item += gridDim.x) {
		struct group<NORM_ARRAYS> u = group_at<NORM_ARRAYS>(&g, item);
		float scale[PACK], shift[PACK], gate[PACK];

		if (GATED)
			reals_get8(k.gate, u.base[GATE] + col, gate);
		common8(k.scale, u.base[SCALE] + col, 1, k.plus, scale);
		common8(k.shift, u.base[SHIFT] + col, 0, 0, shift);
		for (int64_t r = u.first; r < u.last; r += N) {
			int64_t at[N][NORM_ARRAYS];
			float x[N][PACK], h[N][PACK], mean[N], rstd[N];

			UNROLL
			for (int i = 0; i < N; i++) {
				group_row<NORM_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(in, at[i][X] + col, x[i]);
				if (GATED)
					reals_get8(by, at[i][H] + col, h[i]);
			}
			UNROLL
			for (int i = 0; GATED && i < N; i++) {
				for (int j = 0; j < PACK; j++)
					x[i][j] = stored<X_BF16>(fmaf(gate[j], h[i][j], x[i][j]));
				if (!idle && r + i < u.last)
					reals_set8(sum, at[i][S] + col, x[i]);
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

static struct norm norm_call(const struct op_call *c, const struct array *x)
{
	const int gated = c->nin > 4;
	struct norm k = {reals_of(&c->out[0]),
	                 reals_of(x),
	                 reals_of(&c->in[1]),
	                 reals_of(&c->in[2]),
	                 (float *)c->out[1].data,
	                 (float)(c->attr.norm.one_plus != 0),
	                 (float)c->attr.norm.eps,
	                 c->attr.norm.kind == NORM_LAYER,
	                 reals_of(gated ? &c->in[3] : &absent),
	                 reals_of(gated ? &c->in[4] : &absent),
	                 reals_of(gated ? &c->out[2] : &absent)};

	return k;
}

template <int N, int GATED> static void norm_launch(const struct op_call *c, const struct groups *g, const struct norm *k)
{
	if (k->x.bf16)
		LAUNCH(c, (norm_packs<1, 1, N, GATED>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
	else if (k->y.bf16)
		LAUNCH(c, (norm_packs<0, 1, N, GATED>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
	else
		LAUNCH(c, (norm_packs<0, 0, N, GATED>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, *k);
}

/* NORM of the array that takes x's place, without a gate. */
static void norm_of(const struct op_call *c, const struct array *x)
{
	const struct array *scale = &c->in[1], *shift = &c->in[2];
	const struct array *const arrays[NORM_ARRAYS] = {&c->out[0], x, &c->out[1], scale, shift, &absent, &absent, &absent};
	struct groups g = groups_of(x, arrays, NORM_ARRAYS, group_varies(x, scale) | group_varies(x, shift));
	struct norm k = norm_call(c, x);
	int packs = k.y.bf16 || !k.x.bf16;

	for (int a = 0; a < NORM_ARRAYS; a++)
		packs &= a == STATS || groups_packs(&g, arrays[a]);
	if (!g.kept || !g.summed || !g.cols)
		return;
	if (packs && (groups_single(&g, c, ROWS) || g.cols > PACK * TEAM_MANY))
		norm_launch<1, 0>(c, &g, &k);
	else if (packs)
		norm_launch<ROWS, 0>(c, &g, &k);
	else
		LAUNCH(c, norm_any, blocks_of(g.kept * g.summed), threads_for(g.cols), g, k);
}

/* NORM of x + gate h, where one kernel can compute both: with whole packs, and a gate, scale and shift that are the same for all rows of a group. */
static int norm_gated(const struct op_call *c)
{
	const struct array *x = &c->in[0], *scale = &c->in[1], *shift = &c->in[2], *gate = &c->in[3], *h = &c->in[4], *s = &c->out[2];
	const struct array *const arrays[NORM_ARRAYS] = {&c->out[0], x, &c->out[1], scale, shift, gate, h, s};
	struct groups g = groups_of(x, arrays, NORM_ARRAYS, group_varies(x, scale) | group_varies(x, shift) | group_varies(x, gate));
	struct norm k = norm_call(c, x);

	if (!g.kept || !g.summed || !g.cols || k.s.bf16 != k.x.bf16 || k.h.bf16 != k.y.bf16 || (k.x.bf16 && !k.y.bf16))
		return 0;
	for (int a = 0; a < NORM_ARRAYS; a++)
		if (a != STATS && !groups_packs(&g, arrays[a]))
			return 0;
	if (groups_single(&g, c, ROWS) || g.cols > PACK * TEAM_MANY)
		norm_launch<1, 1>(c, &g, &k);
	else
		norm_launch<ROWS, 1>(c, &g, &k);
	return 1;
}

static void norm_run(const struct op_call *c)
{
	struct op_call gate = *c;

	if (c->nin < 5 || !c->in[4].data) {
		norm_of(c, &c->in[0]);
		return;
	}
	if (norm_gated(c))
		return;
	gate.nin = 3;
	gate.nout = 1;
	gate.in[1] = c->in[3];
	gate.in[2] = c->in[4];
	gate.out[0] = c->out[2];
	kernel_gate_cuda.run(&gate);
	norm_of(c, &c->out[2]);
}

enum { G_DY, G_X, G_STATS, G_SCALE, G_ACC, G_DX, G_GATE, G_H, G_DH, GRAD_ARRAYS, G_DSCALE = GRAD_ARRAYS, G_DSHIFT, G_DG, GRAD_ALL };

enum { SUMS = G_DG - G_DSCALE + 1 };

struct norm_grad {
	struct reals dy, x, scale, acc, dx, gate, h, dh;
	const float *stats;
	float plus;
	int centred, sums; /* sums: whether any are asked for */
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

/* DY_BF16: whether dy, h and dh are bfloat16; X_BF16: whether x, acc and dx are. GATED: with a gate. part [kept][groups][SUMS][cols]: receives the
 * sums of dy xhat, of dy, and of dx h. */
template <int DY_BF16, int X_BF16, int GATED>
static __global__ void __launch_bounds__(GATED ? TEAM_MANY : TEAM) norm_grad_packs(struct groups g, struct norm_grad k, float *part)
{
	enum { N = ROWS_GRAD };
	const struct reals from = {k.dy.p, DY_BF16}, in = {k.x.p, X_BF16}, plus = {k.acc.p, X_BF16}, to = {k.dx.p, X_BF16};
	const struct reals by = {k.h.p, DY_BF16}, gated = {k.dh.p, DY_BF16}, sums = {part, 0};
	int idle = threadIdx.x * PACK >= g.cols;
	int64_t col = idle ? 0 : threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; item < g.kept * g.groups; item += gridDim.x) {
		struct group<GRAD_ARRAYS> u = group_at<GRAD_ARRAYS>(&g, item);
		float scale[PACK], gate[PACK], dscale[PACK] = {0}, dshift[PACK] = {0}, dg[PACK] = {0};

		if (GATED)
			reals_get8(k.gate, u.base[G_GATE] + col, gate);
		common8(k.scale, u.base[G_SCALE] + col, 1, k.plus, scale);
		for (int64_t r = u.first; r < u.last; r += N) {
			int64_t at[N][GRAD_ARRAYS];
			float x[N][PACK], dy[N][PACK], acc[N][PACK], h[N][PACK], rstd[N], m[2 * N];

			UNROLL
			for (int i = 0; i < N; i++) {
				group_row<GRAD_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(in, at[i][G_X] + col, x[i]);
				reals_get8(from, at[i][G_DY] + col, dy[i]);
				common8(plus, at[i][G_ACC] + col, 0, 0, acc[i]);
				if (GATED)
					reals_get8(by, at[i][G_H] + col, h[i]);
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
				for (int j = 0; GATED && j < PACK; j++) {
					x[i][j] = stored<X_BF16>(x[i][j]);
					dg[j] = r + i < u.last ? fmaf(x[i][j], h[i][j], dg[j]) : dg[j];
					x[i][j] *= gate[j];
				}
				if (GATED && !idle && r + i < u.last)
					reals_set8(gated, at[i][G_DH] + col, x[i]);
			}
		}
		if (k.sums && !idle) {
			reals_set8(sums, item * SUMS * g.cols + col, dscale);
			reals_set8(sums, (item * SUMS + 1) * g.cols + col, dshift);
			if (GATED)
				reals_set8(sums, (item * SUMS + 2) * g.cols + col, dg);
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

/* The output that receives the sums for G_DSCALE + o. */
static const struct array *sums_out(const struct op_call *c, int o)
{
	return o < 2 ? &c->out[1 + o] : c->nout > 4 ? &c->out[4] : &absent;
}

/* Whether norm_grad_packs can be used: its types, whole packs, a scale and a gate shared by the rows of a group, and all sums over the same rows. */
static int norm_grad_packed(const struct groups *g, const struct norm_grad *k, const struct array *const *arrays)
{
	const struct array *first = NULL;

	if ((k->x.bf16 && !k->dy.bf16) || k->dx.bf16 != k->x.bf16 || (k->acc.p && k->acc.bf16 != k->x.bf16))
		return 0;
	if (k->h.p && (k->h.bf16 != k->dy.bf16 || k->dh.bf16 != k->dy.bf16 || g->cols > PACK * TEAM_MANY))
		return 0;
	for (int a = 0; a < GRAD_ARRAYS; a++)
		if (a != G_STATS && !groups_packs(g, arrays[a]))
			return 0;
	for (int a = G_DSCALE; a <= G_DG; a++) {
		if (arrays[a]->data && first && !same_shape(arrays[a], first))
			return 0;
		first = arrays[a]->data ? arrays[a] : first;
	}
	return groups_common(g, G_SCALE) && groups_common(g, G_GATE);
}

template <int GATED> static void norm_grad_fused(const struct op_call *c, const struct groups *g, const struct norm_grad *k)
{
	int64_t items = g->kept * g->groups, tiles = (g->cols + WARP - 1) / WARP;
	float *part = (float *)c->scratch;

	if (k->x.bf16)
		LAUNCH(c, (norm_grad_packs<1, 1, GATED>), blocks_of(items), team_of(g->cols), *g, *k, part);
	else if (k->dy.bf16)
		LAUNCH(c, (norm_grad_packs<1, 0, GATED>), blocks_of(items), team_of(g->cols), *g, *k, part);
	else
		LAUNCH(c, (norm_grad_packs<0, 0, GATED>), blocks_of(items), team_of(g->cols), *g, *k, part);
	for (int o = 0; o < SUMS; o++)
		if (sums_out(c, o)->data)
			LAUNCH(c, groups_add, blocks_of(g->kept * tiles), BLOCK, *g, G_DSCALE + o, reals_of(sums_out(c, o)), g->cols,
			       part + o * g->cols, SUMS * g->cols);
}

/* NORM_GRAD, and GATE_GRAD of its result: gate and h are what the GATE read, dh and dg their gradients. All four are &absent for NORM_GRAD alone.
 * Returns 0, and computes nothing, if no kernel does both for these arrays. */
static int norm_grad_of(const struct op_call *c, const struct array *gate, const struct array *h, const struct array *dh, const struct array *dg)
{
	const struct array *x = &c->in[1], *dscale = &c->out[1], *dshift = &c->out[2];
	const struct array *sum = dscale->data ? dscale : dshift->data ? dshift : dg->data ? dg : &c->in[3];
	const struct array *const arrays[GRAD_ALL] = {&c->in[0], x, &c->in[2], &c->in[3], &c->in[4], &c->out[0], gate, h, dh, dscale, dshift, dg};
	struct groups g = groups_of(x, arrays, GRAD_ALL, group_varies(x, sum));
	struct norm_grad k = {reals_of(&c->in[0]),
	                      reals_of(x),
	                      reals_of(&c->in[3]),
	                      reals_of(&c->in[4]),
	                      reals_of(&c->out[0]),
	                      reals_of(gate),
	                      reals_of(h),
	                      reals_of(dh),
	                      (const float *)c->in[2].data,
	                      (float)(c->attr.norm.one_plus != 0),
	                      c->attr.norm.kind == NORM_LAYER,
	                      dscale->data || dshift->data || dg->data};
	int any = g.kept > 0 && g.summed > 0 && g.cols > 0, packed = any && norm_grad_packed(&g, &k, arrays);

	if (h->data && !packed)
		return 0;
	if (packed) {
		(h->data ? norm_grad_fused<1> : norm_grad_fused<0>)(c, &g, &k);
		return 1;
	}
	if (any)
		LAUNCH(c, norm_grad_any, blocks_of(g.kept * g.summed), threads_for(g.cols), g, k);
	if (dscale->data) {
		struct dscale_term f = {k.dy, k.x, k.stats};

		groups_sum<G_STATS + 1>(c, f, x, arrays, dscale);
	}
	if (dshift->data) {
		struct dshift_term f = {k.dy};

		groups_sum<G_DY + 1>(c, f, x, arrays, dshift);
	}
	return 1;
}

static void norm_grad_run(const struct op_call *c)
{
	struct op_call back = *c;

	if (c->nin < 7 || !c->in[6].data) {
		norm_grad_of(c, &absent, &absent, &absent, &absent);
		return;
	}
	if (norm_grad_of(c, &c->in[5], &c->in[6], &c->out[3], sums_out(c, 2)))
		return;
	back.nout = 3; /* without the sums of the gate */
	norm_grad_of(&back, &absent, &absent, &absent, &absent);
	back.nin = 3;
	back.nout = 2;
	back.in[0] = c->out[0];
	back.in[1] = c->in[5];
	back.in[2] = c->in[6];
	back.out[0] = c->out[3];
	back.out[1] = *sums_out(c, 2);
	kernel_gate_grad_cuda.run(&back);
}

static size_t norm_grad_scratch(const struct op_call *c, int workers)
{
	int64_t most = 0;

	(void)workers;
	for (int o = 0; o < SUMS; o++) {
		int64_t n = groups_scratch(&c->in[1], sums_out(c, o));

		most = n > most ? n : most;
	}
	return (size_t)most * SUMS * sizeof(float);
}

extern "C" {
extern const struct kernel kernel_norm_cuda = {norm_run, NULL};
extern const struct kernel kernel_norm_grad_cuda = {norm_grad_run, norm_grad_scratch};
}
