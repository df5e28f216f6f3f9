/* Rows of several arrays of one shape, for CUDA kernels in which many rows share an operand, or rows are summed.
 *
 * Leading dimensions are either kept or summed. The shared operand (a scale, a gate, or the sum itself) varies along the kept ones. The rows of
 * one kept index are divided into groups of fixed size, by shape alone; a block processes a group. Group sums go to scratch,
 * [kept][groups][..], and a second kernel adds them in a fixed order. */
#ifndef DDM_KERNELS_GROUP_H
#define DDM_KERNELS_GROUP_H

#include "kernels/launch.h"

enum {
	GROUP_ARRAYS = 12,
	TEAM = 512 /* threads per row at most, PACK columns each */,
	PROCESSORS = 128 /* of a large GPU, about */,
	GROUP_ROWS = 256 /* most rows of a group */
};

struct groups {
	int rank, rank_kept; /* of the leading dimensions, kept ones first; sizes of 1 dropped, neighbours merged */
	int64_t cols, kept, summed, size /* rows of a group */, groups /* for each kept index */;
	int64_t shape[ARRAY_RANK], stride[GROUP_ARRAYS][ARRAY_RANK]; /* an absent array has strides of 0 */
};

/* The number of threads for a row of n > 0 columns, PACK each, rounded up to whole warps. */
static inline unsigned team_of(int64_t n)
{
	return (unsigned)((n + PACK * WARP - 1) / (PACK * WARP) * WARP);
}

/* The number of groups from which they get more rows. */
static inline int64_t groups_most(int64_t cols)
{
	return cols <= 32 * PACK ? 4096 : cols <= 64 * PACK ? 2048 : 1024;
}

/* Rows of a group: few enough for the blocks to fill a large GPU, down to what a block processes at a time; with many rows more, so that fewer
 * sums are written and added. */
static inline int64_t group_size(int64_t cols, int64_t kept, int64_t summed)
{
	int64_t size = 16, most = groups_most(cols);

	while (size > 4 && kept * (summed / size) < PROCESSORS)
		size /= 2;
	while (size < GROUP_ROWS && kept * (summed / size) > most)
		size *= 2;
	return size;
}

/* Bit d is set if `a` varies along leading dimension d of `like`; 0 if a is absent. */
static inline unsigned group_varies(const struct array *like, const struct array *a)
{
	unsigned bits = 0;

	for (int d = 0; a->data && d < like->rank - 1; d++)
		if (like->shape[d] != 1 && a->shape[d] != 1 && a->stride[d])
			bits |= 1u << d;
	return bits;
}

static inline int groups_join(const struct groups *g, int d)
{
	for (int a = 0; a < GROUP_ARRAYS; a++)
		if (g->stride[a][d] != g->stride[a][d + 1] * g->shape[d + 1])
			return 0;
	return 1;
}

static inline void groups_take(struct groups *g, const struct array *like, const struct array *const *arrays, int n, int d, int first)
{
	int64_t stride[GROUP_ARRAYS] = {0};
	int joins = g->rank > first;

	for (int a = 0; a < n; a++) {
		stride[a] = arrays[a]->data && arrays[a]->shape[d] != 1 ? arrays[a]->stride[d] : 0;
		g->stride[a][g->rank] = stride[a];
	}
	g->shape[g->rank] = like->shape[d];
	if (!joins || !groups_join(g, g->rank - 1)) {
		g->rank++;
		return;
	}
	g->shape[g->rank - 1] *= like->shape[d];
	for (int a = 0; a < n; a++)
		g->stride[a][g->rank - 1] = stride[a];
}

/* The groups of rows of `like`; bit d of `kept`: leading dimension d is kept. */
static inline struct groups groups_of(const struct array *like, const struct array *const *arrays, int n, unsigned kept)
{
	struct groups g;

	memset(&g, 0, sizeof g);
	g.cols = like->shape[like->rank - 1];
	g.kept = g.summed = 1;
	for (int pass = 0; pass < 2; pass++) {
		g.rank_kept = g.rank;
		for (int d = 0; d < like->rank - 1; d++)
			if (like->shape[d] != 1 && (int)(kept >> d & 1) != pass) {
				groups_take(&g, like, arrays, n, d, g.rank_kept);
				*(pass ? &g.summed : &g.kept) *= like->shape[d];
			}
	}
	g.size = group_size(g.cols, g.kept, g.summed);
	g.groups = (g.summed + g.size - 1) / g.size;
	return g;
}

/* Whether array a is the same for all rows of a group. */
static inline int groups_common(const struct groups *g, int a)
{
	for (int d = g->rank_kept; d < g->rank; d++)
		if (g->stride[a][d])
			return 0;
	return 1;
}

/* Whether the rows of x are whole aligned packs that fit a team; true for an absent array. Strides of dimensions of size 1 are checked too, so
 * that the kernel, and with it the order of a row's sums, is the same for any batch size. */
static inline int groups_packs(const struct groups *g, const struct array *x)
{
	if (g->cols % PACK || g->cols > PACK * TEAM || (uintptr_t)x->data % 16)
		return 0;
	if (x->data && (x->shape[x->rank - 1] != g->cols || x->stride[x->rank - 1] != 1))
		return 0;
	for (int d = 0; x->data && d < x->rank - 1; d++)
		if (x->stride[d] % PACK)
			return 0;
	return 1;
}

static inline unsigned blocks_of(int64_t n)
{
	return (unsigned)(n < 1 << 20 ? n : 1 << 20);
}

/* If groups of `each` rows are too few for the device's multiprocessors, make every row a group, and return 1. Only for kernels whose results do
 * not depend on the groups. */
static inline int groups_single(struct groups *g, const struct op_call *c, int64_t each)
{
	if (!c->device || g->kept * ((g->summed + each - 1) / each) >= c->device->processors)
		return 0;
	g->size = 1;
	g->groups = g->summed;
	return 1;
}

/* Floats of scratch for sums of the shape of `out` over rows of x; data pointers may be NULL. With fewer samples the groups may be smaller and
 * therefore more. Their number is at most that of rows; beyond groups_most it grows only where all groups have GROUP_ROWS rows; and a group that is
 * cut off, or that was halved because there were less than PROCESSORS, adds at most three for each kept index. */
static inline int64_t groups_scratch(const struct array *x, const struct array *out)
{
	int64_t kept = out->rank ? array_rows(out) : 0, rows = array_rows(x), most = groups_most(x->shape[x->rank - 1]);

	most = (rows / GROUP_ROWS > most ? rows / GROUP_ROWS : most) + 3 * kept;
	return kept ? (rows < most ? rows : most) * out->shape[out->rank - 1] : 0;
}

/* Add to at[a], for the first N arrays, the offset of index i into the dimensions [from, to). */
template <int N> static __device__ inline void groups_walk(const struct groups *g, int from, int to, int64_t i, int64_t at[N])
{
	for (int d = to - 1; d >= from; d--) {
		int64_t k = i;

		if (d > from) {
			i = k / g->shape[d];
			k -= i * g->shape[d];
		}
		for (int a = 0; a < N; a++)
			at[a] += k * g->stride[a][d];
	}
}

/* The group of a block: rows [first, last) of a kept index; base: that index's offset in each array. */
template <int N> struct group {
	int64_t first, last, base[N];
};

template <int N> static __device__ inline struct group<N> group_at(const struct groups *g, int64_t item) {
	struct group<N> u = {
		item % g->groups * g->size, 0,
		{
			0
		}
	};

	u.last = u.first + g->size < g->summed ? u.first + g->size : g->summed;
	groups_walk<N>(g, 0, g->rank_kept, item / g->groups, u.base);
	return u;
}

/* Offsets of row r of the group's kept index. */
template <int N>
static __device__ inline void group_row(const struct groups *g, const struct group<N> *u, int64_t r, int64_t at[N])
{
	for (int a = 0; a < N; a++)
		at[a] = u->base[a];
	groups_walk<N>(g, g->rank_kept, g->rank, r, at);
}

/* Add the groups' sums, the first `width` columns of part [kept][groups][step], into y, which is array `which` of g. */
static __global__ void groups_add(struct groups g, int which, struct reals y, int64_t width, const float *part, int64_t step)
{
	__shared__ float share[BLOCK];
	int64_t tiles = (width + WARP - 1) / WARP;
	int lane = threadIdx.x % WARP;

	for (int64_t i = blockIdx.x; i < g.kept * tiles; i += gridDim.x) {
		int64_t k = i / tiles, c = i % tiles * WARP + lane, at = 0;
		float sum = 0;

		for (int64_t j = threadIdx.x / WARP; c < width && j < g.groups; j += BLOCK / WARP)
			sum += part[(k * g.groups + j) * step + c];
		__syncthreads(); /* the last tile's sums have been read */
		share[threadIdx.x] = sum;
		__syncthreads();
		if (threadIdx.x >= WARP || c >= width)
			continue;
		for (int w = 1; w < BLOCK / WARP; w++)
			sum += share[w * WARP + lane];
		for (int d = g.rank_kept - 1; d >= 0; d--) {
			at += k % g.shape[d] * g.stride[which][d];
			k /= g.shape[d];
		}
		reals_set(y, at + c, sum);
	}
}

/* Sum f(offsets of the first N arrays, column) over each group's rows; a thread sums one column. */
template <int N, class F> static __global__ void groups_columns(F f, struct groups g, float *part)
{
	int64_t tiles = (g.cols + BLOCK - 1) / BLOCK;

	for (int64_t i = blockIdx.x; i < g.kept * g.groups * tiles; i += gridDim.x) {
		struct group<N> u = group_at<N>(&g, i / tiles);
		int64_t c = i % tiles * BLOCK + threadIdx.x;
		float sum = 0;

		for (int64_t r = u.first; c < g.cols && r < u.last; r++) {
			int64_t at[N];

			group_row<N>(&g, &u, r, at);
			sum += f(at, c);
		}
		if (c < g.cols)
			part[i / tiles * g.cols + c] = sum;
	}
}

/* Sum f over each group's rows and over the columns. */
template <int N, class F> static __global__ void groups_whole(F f, struct groups g, float *part)
{
	for (int64_t i = blockIdx.x; i < g.kept * g.groups; i += gridDim.x) {
		struct group<N> u = group_at<N>(&g, i);
		float sum = 0;

		for (int64_t r = u.first; r < u.last; r++) {
			int64_t at[N];

			group_row<N>(&g, &u, r, at);
			for (int64_t col = threadIdx.x; col < g.cols; col += BLOCK)
				sum += f(at, col);
		}
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			part[i] = sum;
	}
}

/* Sum f into `out`, of like's rank with size 1 in summed dimensions. arrays: the N arrays whose offsets f receives. */
template <int N, class F>
static inline void groups_sum(const struct op_call *c, F f, const struct array *like, const struct array *const *arrays, const struct array *out)
{
	const struct array *all[N + 1];
	struct groups g;
	float *part = (float *)c->scratch;
	int64_t width = out->shape[out->rank - 1], items;

	for (int a = 0; a < N; a++)
		all[a] = arrays[a];
	all[N] = out;
	g = groups_of(like, all, N + 1, group_varies(like, out));
	items = g.kept * g.groups;
	if (items && width == g.cols)
		LAUNCH(c, (groups_columns<N, F>), blocks_of(items * ((g.cols + BLOCK - 1) / BLOCK)), BLOCK, f, g, part);
	else if (items)
		LAUNCH(c, (groups_whole<N, F>), blocks_of(items), BLOCK, f, g, part);
	if (g.kept > 0 && width > 0)
		LAUNCH(c, groups_add, blocks_of(g.kept * ((width + WARP - 1) / WARP)), BLOCK, g, N, reals_of(out), width, part, width);
}

#endif
