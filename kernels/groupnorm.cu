/* GROUPNORM and GROUPNORM_GRAD on the GPU; kernels/groupnorm.c is the reference and explains the rounding errors. Sums per channel and chunk of
 * positions are computed in trees of fixed shape and added in index order; float is used only within a tile of positions. */
#include "kernels/unary.h"

enum { LANES = BLOCK / WARP, TILE = 4, CHUNKS_MOST = 64, CHUNK_LEAST = 64 };

struct groupnorm {
	struct reals x, dy, y, scale, shift;               /* x, dy, y (samples, positions, channels) */
	float *stats;                                      /* (samples, groups, 2) */
	int64_t samples, positions, channels, groups, per; /* per: channels per group */
	int64_t chunk, chunks;
	double *sums; /* (samples, chunks, 2, channels) */
	float *whole; /* in the gradient: (samples, 2, channels), then (samples, groups, 2) */
	int act;      /* enum unary + 1, or 0 */
	double eps;
};

static __device__ inline float scale_at(const struct groupnorm &g, int64_t c)
{
	return g.scale.p ? reals_get(g.scale, c) : 1.f;
}

static __device__ inline float shift_at(const struct groupnorm &g, int64_t c)
{
	return g.shift.p ? reals_get(g.shift, c) : 0.f;
}

/* Functors that add a channel's tile of n positions to two sums; beyond n, x repeats the first position and dy is 0. This one sums x - p and
 * (x - p)^2, where p is the value at the sample's first position; that of the gradient sums dz and dz xhat. */
struct moments {
	__device__ void operator()(const struct groupnorm &, int64_t, int64_t, const float x[TILE], const float *, int n, float p, double s[2]) const
	{
		float sum = 0, square = 0;
		double offset = (double)x[0] - (double)p, all = n * offset;

		UNROLL
		for (int t = 1; t < TILE; t++) {
			float d = x[t] - x[0];

			sum += d;
			square = fmaf(d, d, square);
		}
		s[0] += all + (double)sum;
		s[1] += offset * (all + 2 * (double)sum) + (double)square;
	}
};

static __device__ inline float slope(int act, float z)
{
	switch (act - 1) {
	case UNARY_SILU:
		return unary_slope<UNARY_SILU>()(1.f, z);
	case UNARY_RELU:
		return unary_slope<UNARY_RELU>()(1.f, z);
	default:
		return 1.f;
	}
}

/* Returns dz = dy act'(z) of one element; also computes xhat. */
static __device__ inline float dz_of(const struct groupnorm &g, int64_t b, int64_t c, float x, float dy, float *xhat)
{
	const float *stats = g.stats + (b * g.groups + c / g.per) * 2;

	*xhat = (x - stats[0]) * stats[1];
	return dy * slope(g.act, *xhat * scale_at(g, c) + shift_at(g, c));
}

struct slopes {
	__device__ void operator()(const struct groupnorm &g, int64_t b, int64_t c, const float x[TILE], const float dy[TILE], int, float,
	                           double s[2]) const
	{
		float sum[2] = {0, 0};

		UNROLL
		for (int t = 0; t < TILE; t++) {
			float xhat, dz = dz_of(g, b, c, x[t], dy[t], &xhat);

			sum[0] += dz;
			sum[1] = fmaf(dz, xhat, sum[1]);
		}
		s[0] += (double)sum[0];
		s[1] += (double)sum[1];
	}
};

template <int W> static __device__ inline void take(struct reals a, int64_t at, float v[PACK])
{
	if (W > 1)
		reals_get8(a, at, v);
	else
		v[0] = reals_get(a, at);
}

/* Load a thread's tile: up to TILE positions from `at` on, LANES apart. Returns the number of positions before `end`. x[k][t]: channel k of
 * position t. */
template <int W>
static __device__ inline int tile_take(const struct groupnorm &g, int64_t sample, int64_t at, int64_t end, float x[W][TILE], float dy[W][TILE])
{
	int n = 0;

	UNROLL
	for (int t = 0; t < TILE; t++) {
		const int64_t i = at + t * LANES, from = sample + (i < end ? i : at) * g.channels;
		float v[PACK];

		n += i < end;
		take<W>(g.x, from, v);
		UNROLL
		for (int k = 0; k < W; k++)
			x[k][t] = v[k];
		if (g.dy.p)
			take<W>(g.dy, from, v);
		UNROLL
		for (int k = 0; k < W; k++)
			dy[k][t] = g.dy.p && i < end ? v[k] : 0.f;
	}
	return n;
}

/* A block sums a chunk of a sample in the channels of one warp, W per lane; warp r adds positions r, r + LANES, .. */
template <int W, class F> static __global__ void __launch_bounds__(BLOCK, 2) chunk_sums(F f, struct groupnorm g)
{
	__shared__ double rows[LANES][2][WARP * W];
	const int64_t b = blockIdx.x / g.chunks, chunk = blockIdx.x % g.chunks, first = (int64_t)blockIdx.y * WARP * W;
	const int64_t c = first + threadIdx.x % WARP * W, origin = b * g.positions * g.channels + c;
	const int64_t end = (chunk + 1) * g.chunk < g.positions ? (chunk + 1) * g.chunk : g.positions;
	double sum[W][2] = {{0}};
	float x[W][TILE], dy[W][TILE], pilot[PACK];

	if (c < g.channels) {
		take<W>(g.x, origin, pilot);
		for (int64_t i = chunk * g.chunk + threadIdx.x / WARP; i < end; i += LANES * TILE) {
			int n = tile_take<W>(g, origin, i, end, x, dy);

			UNROLL
			for (int k = 0; k < W; k++)
				f(g, b, c + k, x[k], dy[k], n, pilot[k], sum[k]);
		}
	}
	for (int k = 0; k < W; k++)
		for (int i = 0; i < 2; i++)
			rows[threadIdx.x / WARP][i][threadIdx.x % WARP * W + k] = sum[k][i];
	__syncthreads();
	for (int64_t k = threadIdx.x; k < 2 * WARP * W; k += BLOCK) {
		int64_t i = k / (WARP * W), col = k % (WARP * W);
		double all = rows[0][i][col];

		for (int r = 1; r < LANES; r++)
			all += rows[r][i][col];
		if (first + col < g.channels)
			g.sums[((int64_t)blockIdx.x * 2 + i) * g.channels + first + col] = all;
	}
}

/* The sum of v over a warp, in every lane. */
static __device__ inline double warp_sum(double v)
{
	for (int step = WARP / 2; step; step /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, step);
	return v;
}

/* m = a channel's two sums over the chunks. */
static __device__ inline void channel_sums(const struct groupnorm &g, int64_t b, int64_t c, double m[2])
{
	m[0] = m[1] = 0;
	for (int64_t k = 0; k < g.chunks; k++)
		for (int i = 0; i < 2; i++)
			m[i] += g.sums[((b * g.chunks + k) * 2 + i) * g.channels + c];
}

/* A warp computes a group's mean from its channels' means, and the variance from the channels' sums of squares about that mean. */
static __global__ void group_stats(struct groupnorm g)
{
	const int64_t b = blockIdx.x / g.groups, group = blockIdx.x % g.groups, first = group * g.per;
	const double n = (double)g.positions;
	double mean = 0, square = 0, m[2];

	for (int64_t c = first + threadIdx.x; c < first + g.per; c += WARP) {
		channel_sums(g, b, c, m);
		mean += (double)reals_get(g.x, b * g.positions * g.channels + c) + m[0] / n;
	}
	mean = warp_sum(mean) / (double)g.per;
	for (int64_t c = first + threadIdx.x; c < first + g.per; c += WARP) {
		double offset;

		channel_sums(g, b, c, m);
		offset = (double)reals_get(g.x, b * g.positions * g.channels + c) + m[0] / n - mean;
		square += m[1] / n - m[0] / n * (m[0] / n) + offset * offset;
	}
	square = warp_sum(square) / (double)g.per;
	if (threadIdx.x == 0) {
		g.stats[blockIdx.x * 2] = (float)mean;
		g.stats[blockIdx.x * 2 + 1] = (float)(1 / sqrt((square < 0 ? 0 : square) + g.eps));
	}
}

template <int W> static __device__ inline void put(struct reals a, int64_t at, const float v[PACK])
{
	if (W > 1)
		reals_set8(a, at, v);
	else
		reals_set(a, at, v[0]);
}

template <int W> static __global__ void apply(struct groupnorm g)
{
	const int64_t per_sample = g.positions * g.channels;

	for (int64_t i = (blockIdx.x * (int64_t)BLOCK + threadIdx.x) * W; i < per_sample; i += (int64_t)gridDim.x * BLOCK * W) {
		const int64_t c = i % g.channels, at = blockIdx.y * per_sample + i;
		float v[PACK];

		take<W>(g.x, at, v);
		for (int k = 0; k < W; k++) {
			const float *stats = g.stats + (blockIdx.y * g.groups + (c + k) / g.per) * 2;

			v[k] = unary_apply(g.act, fmaf(v[k] - stats[0], stats[1] * scale_at(g, c + k), shift_at(g, c + k)));
		}
		put<W>(g.y, at, v);
	}
}

/* In the gradient, a warp computes the channel sums of a group, and the group's means of dz scale and dz scale xhat. */
static __global__ void group_means(struct groupnorm g)
{
	const int64_t b = blockIdx.x / g.groups, first = blockIdx.x % g.groups * g.per;
	const double n = (double)g.per * (double)g.positions;
	double sum[2] = {0, 0}, m[2];

	for (int64_t c = first + threadIdx.x; c < first + g.per; c += WARP) {
		channel_sums(g, b, c, m);
		for (int i = 0; i < 2; i++) {
			g.whole[(b * 2 + i) * g.channels + c] = (float)m[i];
			sum[i] += m[i] * (double)scale_at(g, c);
		}
	}
	for (int i = 0; i < 2; i++) {
		sum[i] = warp_sum(sum[i]);
		if (threadIdx.x == 0)
			g.whole[g.samples * 2 * g.channels + blockIdx.x * 2 + i] = (float)(sum[i] / n);
	}
}

template <int W> static __global__ void grad_apply(struct groupnorm g)
{
	const int64_t per_sample = g.positions * g.channels;

	for (int64_t i = (blockIdx.x * (int64_t)BLOCK + threadIdx.x) * W; i < per_sample; i += (int64_t)gridDim.x * BLOCK * W) {
		const int64_t c = i % g.channels, at = blockIdx.y * per_sample + i;
		float x[PACK], dy[PACK];

		take<W>(g.x, at, x);
		take<W>(g.dy, at, dy);
		for (int k = 0; k < W; k++) {
			const int64_t group = blockIdx.y * g.groups + (c + k) / g.per;
			const float *mean = g.whole + g.samples * 2 * g.channels + group * 2;
			float xhat, dz = dz_of(g, blockIdx.y, c + k, x[k], dy[k], &xhat);

			dy[k] = g.stats[group * 2 + 1] * (dz * scale_at(g, c + k) - mean[0] - xhat * mean[1]);
		}
		put<W>(g.y, at, dy);
	}
}

/* Add the samples' channel sums of one kind, in order. */
static __global__ void add_samples(struct groupnorm g, int kind, struct reals out)
{
	for (int64_t c = thread_index(); c < g.channels; c += thread_count()) {
		double sum = 0;

		for (int64_t b = 0; b < g.samples; b++)
			sum += (double)g.whole[(b * 2 + kind) * g.channels + c];
		reals_set(out, c, (float)sum);
	}
}

static struct reals optional(const struct array *a, int n, int i)
{
	struct reals none = {NULL, 0};

	return i < n && a[i].rank ? reals_of(&a[i]) : none;
}

static struct groupnorm groupnorm_of(const struct op_call *c, const struct array *x)
{
	struct groupnorm g;

	memset(&g, 0, sizeof g);
	g.x = reals_of(x);
	g.y = reals_of(&c->out[0]);
	g.samples = x->shape[0];
	g.channels = x->shape[x->rank - 1];
	g.positions = g.samples ? array_rows(x) / g.samples : 0;
	g.groups = c->attr.groupnorm.groups;
	g.per = g.channels / g.groups;
	g.act = c->attr.groupnorm.act;
	g.eps = c->attr.groupnorm.eps;
	g.chunk = (g.positions + CHUNKS_MOST - 1) / CHUNKS_MOST;
	if (g.chunk < CHUNK_LEAST)
		g.chunk = CHUNK_LEAST;
	g.chunks = (g.positions + g.chunk - 1) / g.chunk;
	g.sums = (double *)c->scratch;
	g.whole = (float *)(g.sums + g.samples * g.chunks * 2 * g.channels);
	return g;
}

static size_t groupnorm_scratch(const struct op_call *c, int)
{
	struct groupnorm g = groupnorm_of(c, &c->out[0]);

	return (size_t)(g.samples * g.chunks * 2 * g.channels) * sizeof(double) + (size_t)(g.samples * 2 * (g.channels + g.groups)) * sizeof(float);
}

static int packed(const struct groupnorm &g)
{
	return g.channels % PACK == 0 && (uintptr_t)g.x.p % 16 == 0 && (uintptr_t)g.y.p % 16 == 0 && (uintptr_t)g.dy.p % 16 == 0;
}

template <class F> static void run_sums(const struct op_call *c, const struct groupnorm &g, F f)
{
	const int width = packed(g) ? WARP * PACK : WARP;
	dim3 grid((unsigned)(g.samples * g.chunks), (unsigned)((g.channels + width - 1) / width));

	if (packed(g))
		LAUNCH(c, (chunk_sums<PACK, F>), grid, BLOCK, f, g);
	else
		LAUNCH(c, (chunk_sums<1, F>), grid, BLOCK, f, g);
}

static dim3 sample_grid(const struct groupnorm &g)
{
	return dim3(blocks_for(g.positions * g.channels / (packed(g) ? PACK : 1)), (unsigned)g.samples);
}

static void groupnorm_run(const struct op_call *c)
{
	struct groupnorm g = groupnorm_of(c, &c->in[0]);

	if (!g.samples || !g.positions)
		return;
	g.scale = optional(c->in, c->nin, 1);
	g.shift = optional(c->in, c->nin, 2);
	g.stats = (float *)c->out[1].data;
	run_sums(c, g, moments());
	LAUNCH(c, group_stats, (unsigned)(g.samples * g.groups), WARP, g);
	if (packed(g))
		LAUNCH(c, apply<PACK>, sample_grid(g), BLOCK, g);
	else
		LAUNCH(c, apply<1>, sample_grid(g), BLOCK, g);
}

static void groupnorm_grad_run(const struct op_call *c)
{
	struct groupnorm g = groupnorm_of(c, &c->in[1]);
	struct reals dscale = optional(c->out, c->nout, 1), dshift = optional(c->out, c->nout, 2);

	if (!g.samples || !g.positions)
		return;
	g.dy = reals_of(&c->in[0]);
	g.stats = (float *)c->in[2].data;
	g.scale = optional(c->in, c->nin, 3);
	g.shift = optional(c->in, c->nin, 4);
	run_sums(c, g, slopes());
	LAUNCH(c, group_means, (unsigned)(g.samples * g.groups), WARP, g);
	if (packed(g))
		LAUNCH(c, grad_apply<PACK>, sample_grid(g), BLOCK, g);
	else
		LAUNCH(c, grad_apply<1>, sample_grid(g), BLOCK, g);
	if (dscale.p)
		LAUNCH(c, add_samples, blocks_for(g.channels), BLOCK, g, 1, dscale);
	if (dshift.p)
		LAUNCH(c, add_samples, blocks_for(g.channels), BLOCK, g, 0, dshift);
}

extern "C" {
extern const struct kernel kernel_groupnorm_cuda = {groupnorm_run, groupnorm_scratch};
extern const struct kernel kernel_groupnorm_grad_cuda = {groupnorm_grad_run, groupnorm_scratch};
}
