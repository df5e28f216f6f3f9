/* ATTENTION, ATTENTION_GRAD on tensor cores (Dao, "FlashAttention-2", 2023): a block owns a tile of rows, whose sums stay in
 * registers, and streams tiles of the other side through two stages of shared memory. The softmax is kept as a running maximum and sum,
 * in powers of two with the scale folded in. The gradient has one kernel whose blocks own keys (dk, dv) and one whose blocks own
 * queries (dq): a product more each, and no sum whose order could change.
 *
 * A warp owns whole rows, MT times 16, so that scores become operands of the next product where they are; the first kernel of the
 * gradient therefore computes them transposed. Rows in shared memory are 8 elements longer than the padded head: eight of them meet
 * all banks. */
#include "kernels/mma.h"

#include <math.h>

static __device__ const float LOG2_E = 1.44269504088896340736f, LN_2 = .69314718055994530942f;

/* DP: d rounded up to what a tile holds; BN: rows of a streamed tile. No launch asks for more than 99 KB, which every processor has. */
template <class REAL, int DP_, int WARPS, int MT_, int BN_> struct tiles {
	typedef REAL T;
	static constexpr int DP = DP_, MT = MT_, BN = BN_, THREADS = WARPS * WARP, ROWS = 16 * MT, OWN = WARPS * ROWS, PITCH = DP + 8;
	static constexpr size_t BYTES = (size_t)(OWN + 4 * BN) * PITCH * sizeof(T);
	static_assert(BN % 16 == 0 && DP % 16 == 0, "fragments are 16 long");
	static constexpr size_t GRAD_BYTES = BYTES + (size_t)OWN * PITCH * sizeof(T) + 4 * BN * sizeof(float);
	static_assert(BYTES <= 99 << 10, "more shared memory than every processor has");
};

/* What is read from shared memory once serves MT products of 16 rows: two of bfloat16 where the accumulators (one of DP columns, two in
 * key_tiles) and the scores leave room for them in 255 registers. */
template <class T, int DP> struct forward_tiles;
template <int DP> struct forward_tiles<uint16_t, DP> : tiles<uint16_t, DP, 4, 2, DP <= 96 ? 64 : 32> {};
template <int DP> struct forward_tiles<float, DP> : tiles<float, DP, 4, 1, DP <= 64 ? 32 : 16> {};
template <class T, int DP> struct key_tiles;
template <int DP> struct key_tiles<uint16_t, DP> : tiles<uint16_t, DP, 4, DP <= 64 ? 2 : 1, 32> {};
template <int DP> struct key_tiles<float, DP> : tiles<float, DP, DP <= 96 ? 4 : 2, 1, 16> {};
template <class T, int DP> struct query_tiles;
template <int DP> struct query_tiles<uint16_t, DP> : tiles<uint16_t, DP, 4, DP <= 96 ? 2 : 1, 32> {};
template <int DP> struct query_tiles<float, DP> : key_tiles<float, DP> {};

/* An operand (B, T, heads, d); the last dimension is contiguous. */
struct side {
	void *p;
	int64_t sample, token, head;
};

/* Statistics (B, heads, T). */
struct stats {
	struct reals a;
	int64_t sample, head, token;
};

struct attention {
	int64_t t, s; /* queries, keys */
	int heads, d, causal, bf16;
	int packed; /* every row of every operand is whole words of 16 bytes, aligned */
	float scale, unscaled; /* unscaled: 1 / scale */
	struct side q, k, v, o, dy, dq, dk, dv;
	struct stats lse;
	float *delta; /* (B, heads, T): sum of dy o */
	struct reals bias; /* (B, heads, T, S); p NULL: none */
	int64_t bias_stride[4];
};

/* The rows [first, first + OWN) of one head that a block owns. */
struct place {
	int64_t b, h, first;
};

/* Under a causal mask the last queries have the most keys, the first keys the most queries: they begin first. */
template <class P> static __device__ inline struct place place_of(const struct attention &a, int64_t rows, int from_last)
{
	int64_t tiles = (rows + P::OWN - 1) / P::OWN, item = blockIdx.x, tile = item % tiles, bh = item / tiles;
	struct place w = {bh / a.heads, bh % a.heads, (from_last ? tiles - 1 - tile : tile) * P::OWN};

	return w;
}

template <class T> static __device__ inline T *side_at(const struct side &s, const struct place &w)
{
	return (T *)s.p + w.b * s.sample + w.h * s.head;
}

static __device__ inline float stats_get(const struct stats &l, const struct place &w, int64_t row)
{
	return reals_get(l.a, w.b * l.sample + w.h * l.head + row * l.token);
}

static __device__ inline float delta_get(const struct attention &a, const struct place &w, int64_t row)
{
	return a.delta[(w.b * a.heads + w.h) * a.t + row];
}

/* Rows [first, first + rows) of `s` into a tile (rows, DP), zeros from row `end` and column d on. There after copy_wait and a barrier. */
template <class P>
static __device__ inline void tile_load(typename P::T *tile, int rows, const struct side &s, const struct place &w, int64_t first,
                                        int64_t end, const struct attention &a)
{
	typedef typename P::T T;
	const T *from = side_at<const T>(s, w);
	constexpr int WORD = 16 / sizeof(T), WORDS = P::DP / WORD;

	for (int i = (int)threadIdx.x; i < rows * WORDS; i += P::THREADS) {
		int row = i / WORDS, col = i % WORDS * WORD, valid = first + row < end && col < a.d;
		const T *x = from + (valid ? (first + row) * s.token + col : 0);
		T *y = tile + row * P::PITCH + col;

		if (a.packed)
			copy_async(y, x, valid);
		else
			for (int k = 0; k < WORD; k++)
				y[k] = valid && col + k < a.d ? x[k] : (T)0;
	}
}

static __device__ inline float bias_get(const struct attention &a, const struct place &w, int64_t query, int64_t key)
{
	return reals_get(a.bias, w.b * a.bias_stride[0] + w.h * a.bias_stride[1] + query * a.bias_stride[2] + key * a.bias_stride[3]);
}

/* c (ROWS, BN) = x y^T of a warp's rows of x and all of y, both (.., DP). */
template <class P>
static __device__ inline void scores(float c[P::MT][P::BN / 8][4], const typename P::T *x, const typename P::T *y)
{
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
		for (int n = 0; n < P::BN / 8; n++)
			for (int e = 0; e < 4; e++)
				c[m][n][e] = 0;
	UNROLL
	for (int k = 0; k < P::DP; k += 16) {
		frag_a<typename P::T> f[P::MT];

		UNROLL
		for (int m = 0; m < P::MT; m++)
			frag_load(&f[m], x + 16 * m * P::PITCH + k, P::PITCH);
		UNROLL
		for (int n = 0; n < P::BN; n += 16) {
			frag_b<typename P::T> g[2];

			frag_load_rows(g, y + n * P::PITCH + k, P::PITCH);
			UNROLL
			for (int m = 0; m < P::MT; m++) {
				mma(c[m][n / 8], f[m], g[0]);
				mma(c[m][n / 8 + 1], f[m], g[1]);
			}
		}
	}
}

/* sum (ROWS, DP) += p (ROWS, BN) y (BN, DP) */
template <class P>
static __device__ inline void weighted(float sum[P::MT][P::DP / 8][4], const float p[P::MT][P::BN / 8][4], const typename P::T *y)
{
	UNROLL
	for (int k = 0; k < P::BN; k += 16) {
		frag_a<typename P::T> f[P::MT];

		UNROLL
		for (int m = 0; m < P::MT; m++)
			frag_of(&f[m], p[m][k / 8], p[m][k / 8 + 1]);
		UNROLL
		for (int n = 0; n < P::DP; n += 16) {
			frag_b<typename P::T> g[2];

			frag_load_columns(g, y + k * P::PITCH + n, P::PITCH);
			UNROLL
			for (int m = 0; m < P::MT; m++) {
				mma(sum[m][n / 8], f[m], g[0]);
				mma(sum[m][n / 8 + 1], f[m], g[1]);
			}
		}
	}
}

/* Row and column of element e of C, within its 16 x 8. */
static __device__ inline int row_of(int e)
{
	return warp_lane() / 4 + e / 2 * 8;
}

static __device__ inline int col_of(int e)
{
	return warp_lane() % 4 * 2 + e % 2;
}

/* To scores that are yet to be scaled: of a warp's rows from `row` and all columns from `col`. */
template <class P>
static __device__ inline void bias_add(float c[P::MT][P::BN / 8][4], const struct attention &a, const struct place &w, int64_t row, int64_t col,
                                       int keys_are_rows)
{
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
		for (int n = 0; n < P::BN / 8; n++)
			for (int e = 0; e < 4; e++) {
				const int64_t i = row + 16 * m + row_of(e), j = col + 8 * n + col_of(e);
				const int64_t query = keys_are_rows ? j : i, key = keys_are_rows ? i : j;

				if (query < a.t && key < a.s)
					c[m][n][e] = fmaf(bias_get(a, w, query, key), a.unscaled, c[m][n][e]);
			}
}

struct alignas(8) float_pair {
	float x, y;
};

static __device__ inline void put_pair(float *p, float x, float y)
{
	struct float_pair v = {x, y};

	*(struct float_pair *)p = v;
}

static __device__ inline void put_pair(uint16_t *p, float x, float y)
{
	*(uint32_t *)p = bf16_pair(x, y);
}

static __device__ inline void put_one(float *p, float x)
{
	*p = x;
}

static __device__ inline void put_one(uint16_t *p, float x)
{
	*p = bf16_store(x);
}

/* A warp's rows of `s`, those before `end`: factor[m][row / 8] c. */
template <class P>
static __device__ inline void tile_store(const struct side &s, const struct place &w, int64_t first, int64_t end,
                                         const float c[P::MT][P::DP / 8][4], const float factor[P::MT][2], const struct attention &a)
{
	typename P::T *to = side_at<typename P::T>(s, w);

	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
		for (int n = 0; n < P::DP / 8; n++)
			UNROLL
			for (int r = 0; r < 2; r++) {
				int64_t row = first + 16 * m + row_of(2 * r);
				int col = 8 * n + col_of(0);
				float x = factor[m][r] * c[m][n][2 * r], y = factor[m][r] * c[m][n][2 * r + 1];

				if (row >= end || col >= a.d)
					continue;
				if (a.packed) {
					put_pair(to + row * s.token + col, x, y);
					continue;
				}
				put_one(to + row * s.token + col, x);
				if (col + 1 < a.d)
					put_one(to + row * s.token + col + 1, y);
			}
}

/* Over the four lanes that share a row. */
static __device__ inline float quad_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ inline float quad_sum(float x)
{
	x += __shfl_xor_sync(0xffffffffu, x, 1);
	return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Scores to weights relative to the maximum so far; what was summed before shrinks to match. Key n0 + column is hidden where it is not
 * before `end` or, causal, beyond its query. `top` is scaled and rounded before it is subtracted: a maximum that stays shrinks nothing,
 * however far from 0 a mask has moved it. */
template <class P>
static __device__ inline void softmax_step(float c[P::MT][P::BN / 8][4], float sum[P::MT][P::DP / 8][4], float top[P::MT][2],
                                           float share[P::MT][2], const struct attention &a, int64_t query0, int64_t key0)
{
	const float scale = a.scale * LOG2_E;

	if (key0 + P::BN > a.s || (a.causal && key0 + P::BN - 1 > query0))
		UNROLL
		for (int m = 0; m < P::MT; m++)
			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				UNROLL
				for (int e = 0; e < 4; e++) {
					int64_t key = key0 + 8 * n + col_of(e);

					if (key >= a.s || (a.causal && key > query0 + 16 * m + row_of(e)))
						c[m][n][e] = -INFINITY;
				}
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
		for (int r = 0; r < 2; r++) {
			float most = -INFINITY, shrink, shift;

			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				most = fmaxf(most, fmaxf(c[m][n][2 * r], c[m][n][2 * r + 1]));
			shift = fmaxf(top[m][r], quad_max(most) * scale);
			shrink = exp2_fast(top[m][r] - shift);
			top[m][r] = shift;
			share[m][r] *= shrink;
			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				UNROLL
				for (int e = 2 * r; e < 2 * r + 2; e++) {
					c[m][n][e] = exp2_fast(fmaf(c[m][n][e], scale, -shift));
					share[m][r] += c[m][n][e];
				}
			UNROLL
			for (int n = 0; n < P::DP / 8; n++)
				UNROLL
				for (int e = 2 * r; e < 2 * r + 2; e++)
					sum[m][n][e] *= shrink;
		}
}

template <class P, bool BIASED> static __global__ __launch_bounds__(P::THREADS) void attention_forward(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.t, a.causal);
	const int64_t keys = a.causal && w.first + P::OWN < a.s ? w.first + P::OWN : a.s, mine = w.first + threadIdx.x / WARP * P::ROWS;
	T *q = (T *)shared, *stage = q + P::OWN * P::PITCH;
	float sum[P::MT][P::DP / 8][4] = {}, top[P::MT][2], share[P::MT][2] = {};

	for (int m = 0; m < P::MT; m++)
		top[m][0] = top[m][1] = -INFINITY;
	tile_load<P>(q, P::OWN, a.q, w, w.first, a.t, a);
	tile_load<P>(stage, P::BN, a.k, w, 0, a.s, a);
	tile_load<P>(stage + STREAMED, P::BN, a.v, w, 0, a.s, a);
	q += (mine - w.first) * P::PITCH;
	for (int64_t key = 0, turn = 0; key < keys; key += P::BN, turn = !turn) {
		T *k = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		float c[P::MT][P::BN / 8][4];

		copy_wait();
		__syncthreads(); /* this stage is there, the other has been read */
		if (key + P::BN < keys) {
			tile_load<P>(next, P::BN, a.k, w, key + P::BN, a.s, a);
			tile_load<P>(next + STREAMED, P::BN, a.v, w, key + P::BN, a.s, a);
		}
		if (mine >= a.t || (a.causal && key >= mine + P::ROWS))
			continue;
		scores<P>(c, q, k);
		if (BIASED)
			bias_add<P>(c, a, w, mine, key, 0);
		softmax_step<P>(c, sum, top, share, a, mine, key);
		weighted<P>(sum, c, k + STREAMED);
	}
	for (int m = 0; m < P::MT; m++)
		for (int r = 0; r < 2; r++) {
			int64_t row = mine + 16 * m + row_of(2 * r);
			float all = quad_sum(share[m][r]);

			share[m][r] = 1.f / all;
			if (row < a.t && warp_lane() % 4 == 0)
				reals_set(a.lse.a, w.b * a.lse.sample + w.h * a.lse.head + row * a.lse.token,
				          LN_2 * (top[m][r] + log2f(all)));
		}
	tile_store<P>(a.o, w, mine, a.t, sum, share, a);
}

static __device__ inline int64_t row_at(const struct side &s, const struct place &w, int64_t row)
{
	return w.b * s.sample + w.h * s.head + row * s.token;
}

/* x y over a row of each; every lane has it. */
static __device__ inline float row_dot(const struct side &x, int64_t i, const struct side &y, int64_t j, const struct attention &a)
{
	struct reals u = {x.p, a.bf16}, v = {y.p, a.bf16};
	float sum = 0;

	for (int k = warp_lane(); k < a.d; k += WARP)
		sum = fmaf(reals_get(u, i + k), reals_get(v, j + k), sum);
	for (int step = WARP / 2; step; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	return sum;
}

/* Row i of (B, heads, rows), for a warp. */
static __device__ inline struct place row_place(int64_t i, int64_t rows, const struct attention &a)
{
	struct place w = {i / rows / a.heads, i / rows % a.heads, i % rows};

	return w;
}

static __global__ void attention_delta(struct attention a, int64_t all)
{
	for (int64_t i = thread_index() / WARP; i < all; i += thread_count() / WARP) {
		struct place w = row_place(i, a.t, a);
		float sum = row_dot(a.dy, row_at(a.dy, w, w.first), a.o, row_at(a.o, w, w.first), a);

		if (warp_lane() == 0)
			a.delta[i] = sum;
	}
}

/* What the streamed queries [first, first + BN) bring along; a query that is not there weighs 0. */
template <class P>
static __device__ inline void stats_load(float *lse, float *delta, const struct attention &a, const struct place &w, int64_t first)
{
	for (int i = (int)threadIdx.x; i < P::BN; i += P::THREADS) {
		lse[i] = first + i < a.t ? stats_get(a.lse, w, first + i) * LOG2_E : INFINITY;
		delta[i] = first + i < a.t ? delta_get(a, w, first + i) : 0.f;
	}
}

/* Rows are keys, columns queries. */
template <class P, bool BIASED> static __global__ __launch_bounds__(P::THREADS) void attention_grad_keys(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.s, 0);
	const int64_t mine = w.first + threadIdx.x / WARP * P::ROWS, begin = a.causal ? w.first / P::BN * P::BN : 0;
	T *k = (T *)shared, *v = k + P::OWN * P::PITCH, *stage = v + P::OWN * P::PITCH;
	float *stats = (float *)(stage + 4 * STREAMED), dk[P::MT][P::DP / 8][4] = {}, dv[P::MT][P::DP / 8][4] = {}, factor[P::MT][2];

	if (begin < a.t) {
		tile_load<P>(k, P::OWN, a.k, w, w.first, a.s, a);
		tile_load<P>(v, P::OWN, a.v, w, w.first, a.s, a);
		tile_load<P>(stage, P::BN, a.q, w, begin, a.t, a);
		tile_load<P>(stage + STREAMED, P::BN, a.dy, w, begin, a.t, a);
		stats_load<P>(stats, stats + P::BN, a, w, begin);
	}
	k += (mine - w.first) * P::PITCH;
	v += (mine - w.first) * P::PITCH;
	for (int64_t query = begin, turn = 0; query < a.t; query += P::BN, turn = !turn) {
		T *q = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		const float *lse = stats + turn * 2 * P::BN, *delta = lse + P::BN;
		float p[P::MT][P::BN / 8][4], ds[P::MT][P::BN / 8][4];

		copy_wait();
		__syncthreads();
		if (query + P::BN < a.t) {
			tile_load<P>(next, P::BN, a.q, w, query + P::BN, a.t, a);
			tile_load<P>(next + STREAMED, P::BN, a.dy, w, query + P::BN, a.t, a);
			stats_load<P>(stats + !turn * 2 * P::BN, stats + !turn * 2 * P::BN + P::BN, a, w, query + P::BN);
		}
		if (mine >= a.s || (a.causal && query + P::BN <= mine))
			continue;
		scores<P>(p, k, q);
		if (BIASED)
			bias_add<P>(p, a, w, mine, query, 1);
		UNROLL
		for (int m = 0; m < P::MT; m++)
			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				UNROLL
				for (int e = 0; e < 4; e++) {
					int col = 8 * n + col_of(e);

					p[m][n][e] = exp2_fast(fmaf(p[m][n][e], a.scale * LOG2_E, -lse[col]));
					if (a.causal && mine + 16 * m + row_of(e) > query + col)
						p[m][n][e] = 0;
				}
		weighted<P>(dv, p, q + STREAMED);
		scores<P>(ds, v, q + STREAMED);
		UNROLL
		for (int m = 0; m < P::MT; m++)
			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				UNROLL
				for (int e = 0; e < 4; e++)
					ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - delta[8 * n + col_of(e)]);
		weighted<P>(dk, ds, q);
	}
	for (int m = 0; m < P::MT; m++)
		factor[m][0] = factor[m][1] = a.scale;
	tile_store<P>(a.dk, w, mine, a.s, dk, factor, a);
	for (int m = 0; m < P::MT; m++)
		factor[m][0] = factor[m][1] = 1;
	tile_store<P>(a.dv, w, mine, a.s, dv, factor, a);
}

/* Rows are queries, columns keys. */
template <class P, bool BIASED> static __global__ __launch_bounds__(P::THREADS) void attention_grad_queries(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.t, a.causal);
	const int64_t keys = a.causal && w.first + P::OWN < a.s ? w.first + P::OWN : a.s, mine = w.first + threadIdx.x / WARP * P::ROWS;
	T *q = (T *)shared, *dy = q + P::OWN * P::PITCH, *stage = dy + P::OWN * P::PITCH;
	float dq[P::MT][P::DP / 8][4] = {}, lse[P::MT][2], delta[P::MT][2], factor[P::MT][2];

	tile_load<P>(q, P::OWN, a.q, w, w.first, a.t, a);
	tile_load<P>(dy, P::OWN, a.dy, w, w.first, a.t, a);
	tile_load<P>(stage, P::BN, a.k, w, 0, a.s, a);
	tile_load<P>(stage + STREAMED, P::BN, a.v, w, 0, a.s, a);
	q += (mine - w.first) * P::PITCH;
	dy += (mine - w.first) * P::PITCH;
	for (int m = 0; m < P::MT; m++)
		for (int r = 0; r < 2; r++) {
			int64_t row = mine + 16 * m + row_of(2 * r);

			lse[m][r] = row < a.t ? stats_get(a.lse, w, row) * LOG2_E : INFINITY;
			delta[m][r] = row < a.t ? delta_get(a, w, row) : 0.f;
			factor[m][r] = a.scale;
		}
	for (int64_t key = 0, turn = 0; key < keys; key += P::BN, turn = !turn) {
		T *k = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		float p[P::MT][P::BN / 8][4], ds[P::MT][P::BN / 8][4];

		copy_wait();
		__syncthreads();
		if (key + P::BN < keys) {
			tile_load<P>(next, P::BN, a.k, w, key + P::BN, a.s, a);
			tile_load<P>(next + STREAMED, P::BN, a.v, w, key + P::BN, a.s, a);
		}
		if (mine >= a.t || (a.causal && key >= mine + P::ROWS))
			continue;
		scores<P>(p, q, k);
		if (BIASED)
			bias_add<P>(p, a, w, mine, key, 0);
		scores<P>(ds, dy, k + STREAMED);
		UNROLL
		for (int m = 0; m < P::MT; m++)
			UNROLL
			for (int n = 0; n < P::BN / 8; n++)
				UNROLL
				for (int e = 0; e < 4; e++) {
					int64_t col = key + 8 * n + col_of(e);
					float x = exp2_fast(fmaf(p[m][n][e], a.scale * LOG2_E, -lse[m][e / 2])) * (ds[m][n][e] - delta[m][e / 2]);

					ds[m][n][e] = col >= a.s || (a.causal && col > mine + 16 * m + row_of(e)) ? 0.f : x;
				}
		weighted<P>(dq, ds, k);
	}
	tile_store<P>(a.dq, w, mine, a.t, dq, factor, a);
}

/* Heads wider than a tile can be: a warp for a row and COLUMNS columns of its result, its scores by plain sums. */
enum { WIDE = 8, COLUMNS = WIDE * WARP };

struct wide_sum {
	float x[WIDE];
};

/* sum = shrink sum + p row */
static __device__ inline void wide_add(struct wide_sum *sum, float shrink, float p, const struct side &s, int64_t at, int c0,
                                       const struct attention &a)
{
	struct reals row = {s.p, a.bf16};

	UNROLL
	for (int j = 0; j < WIDE; j++) {
		int col = c0 + j * WARP + warp_lane();

		sum->x[j] = col < a.d ? fmaf(p, reals_get(row, at + col), shrink * sum->x[j]) : 0.f;
	}
}

static __device__ inline void wide_store(const struct side &s, int64_t at, int c0, const struct wide_sum &sum, float factor,
                                         const struct attention &a)
{
	struct reals row = {s.p, a.bf16};

	UNROLL
	for (int j = 0; j < WIDE; j++) {
		int col = c0 + j * WARP + warp_lane();

		if (col < a.d)
			reals_set(row, at + col, factor * sum.x[j]);
	}
}

static __global__ void wide_forward(struct attention a, int64_t all)
{
	const int c0 = (int)blockIdx.y * COLUMNS;

	for (int64_t i = thread_index() / WARP; i < all; i += thread_count() / WARP) {
		const struct place w = row_place(i, a.t, a);
		const int64_t q = row_at(a.q, w, w.first), keys = a.causal && w.first + 1 < a.s ? w.first + 1 : a.s;
		struct wide_sum sum = {};
		float top = -INFINITY, share = 0;

		for (int64_t key = 0; key < keys; key++) {
			float dot = row_dot(a.q, q, a.k, row_at(a.k, w, key), a), bias = a.bias.p ? bias_get(a, w, w.first, key) : 0.f;
			float score = LOG2_E * fmaf(a.scale, dot, bias), most = fmaxf(top, score);
			float shrink = exp2_fast(top - most), p = exp2_fast(score - most);

			share = fmaf(share, shrink, p);
			top = most;
			wide_add(&sum, shrink, p, a.v, row_at(a.v, w, key), c0, a);
		}
		wide_store(a.o, row_at(a.o, w, w.first), c0, sum, 1.f / share, a);
		if (c0 == 0 && warp_lane() == 0)
			reals_set(a.lse.a, w.b * a.lse.sample + w.h * a.lse.head + w.first * a.lse.token, LN_2 * (top + log2f(share)));
	}
}

/* The weight of a key for a query, and its gradient over the scale. */
static __device__ inline float wide_weight(float *ds, const struct attention &a, const struct place &w, int64_t query, int64_t key)
{
	float score = row_dot(a.q, row_at(a.q, w, query), a.k, row_at(a.k, w, key), a);
	float bias = a.bias.p ? bias_get(a, w, query, key) : 0.f;
	float p = exp2_fast(LOG2_E * fmaf(a.scale, score, bias - stats_get(a.lse, w, query)));

	*ds = p * (row_dot(a.dy, row_at(a.dy, w, query), a.v, row_at(a.v, w, key), a) - delta_get(a, w, query));
	return p;
}

static __global__ void wide_grad_keys(struct attention a, int64_t all)
{
	const int c0 = (int)blockIdx.y * COLUMNS;

	for (int64_t i = thread_index() / WARP; i < all; i += thread_count() / WARP) {
		const struct place w = row_place(i, a.s, a);
		struct wide_sum dk = {}, dv = {};

		for (int64_t query = a.causal ? w.first : 0; query < a.t; query++) {
			float ds, p = wide_weight(&ds, a, w, query, w.first);

			wide_add(&dv, 1, p, a.dy, row_at(a.dy, w, query), c0, a);
			wide_add(&dk, 1, ds, a.q, row_at(a.q, w, query), c0, a);
		}
		wide_store(a.dk, row_at(a.dk, w, w.first), c0, dk, a.scale, a);
		wide_store(a.dv, row_at(a.dv, w, w.first), c0, dv, 1, a);
	}
}

static __global__ void wide_grad_queries(struct attention a, int64_t all)
{
	const int c0 = (int)blockIdx.y * COLUMNS;

	for (int64_t i = thread_index() / WARP; i < all; i += thread_count() / WARP) {
		const struct place w = row_place(i, a.t, a);
		const int64_t keys = a.causal && w.first + 1 < a.s ? w.first + 1 : a.s;
		struct wide_sum dq = {};

		for (int64_t key = 0; key < keys; key++) {
			float ds;

			wide_weight(&ds, a, w, w.first, key);
			wide_add(&dq, 1, ds, a.k, row_at(a.k, w, key), c0, a);
		}
		wide_store(a.dq, row_at(a.dq, w, w.first), c0, dq, a.scale, a);
	}
}

static struct side side_of(const struct array *x, int *packed)
{
	struct side s = {x->data, x->stride[0], x->stride[1], x->stride[2]};
	int64_t word = 16 / (int64_t)dtype_size(x->dtype);

	for (int d = 0; d < 3; d++)
		if (x->shape[d] > 1 && x->stride[d] % word)
			*packed = 0;
	if (x->shape[3] % word || (uintptr_t)x->data % 16)
		*packed = 0;
	return s;
}

static struct attention attention_of(const struct op_call *c, const struct array *q, const struct array *k, const struct array *lse)
{
	struct attention a = {};

	a.t = q->shape[1];
	a.s = k->shape[1];
	a.heads = (int)q->shape[2];
	a.d = (int)q->shape[3];
	a.causal = c->attr.i[0] == 1;
	a.scale = (float)c->attr.f[0];
	a.packed = 1;
	a.bf16 = q->dtype == DT_BF16;
	a.lse.a = reals_of(lse);
	a.lse.sample = lse->stride[0];
	a.lse.head = lse->stride[1];
	a.lse.token = lse->stride[2];
	return a;
}

template <class P> static unsigned blocks_of(const struct attention &a, int64_t samples, int64_t rows)
{
	return (unsigned)(samples * a.heads * ((rows + P::OWN - 1) / P::OWN));
}

static dim3 wide_grid(const struct attention &a, int64_t rows)
{
	return dim3(blocks_for(rows * WARP), (unsigned)((a.d + COLUMNS - 1) / COLUMNS), 1);
}

/* Without a bias no register is spent on one. */
struct forward {
	template <class T, int DP> static void run(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		typedef forward_tiles<T, DP> P;
		const auto run = a.bias.p ? attention_forward<P, true> : attention_forward<P, false>;

		LAUNCH_SHARED(c, run, blocks_of<P>(a, samples, a.t), P::THREADS, P::BYTES, a);
	}
	static void wide(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		int64_t rows = samples * a.heads * a.t;

		LAUNCH(c, wide_forward, wide_grid(a, rows), BLOCK, a, rows);
	}
};

struct backward {
	template <class T, int DP> static void run(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		typedef key_tiles<T, DP> K;
		typedef query_tiles<T, DP> Q;
		static_assert(K::GRAD_BYTES <= 99 << 10 && Q::GRAD_BYTES <= 99 << 10, "more shared memory than every processor has");
		const auto keys = a.bias.p ? attention_grad_keys<K, true> : attention_grad_keys<K, false>;
		const auto queries = a.bias.p ? attention_grad_queries<Q, true> : attention_grad_queries<Q, false>;

		LAUNCH_SHARED(c, keys, blocks_of<K>(a, samples, a.s), K::THREADS, K::GRAD_BYTES, a);
		LAUNCH_SHARED(c, queries, blocks_of<Q>(a, samples, a.t), Q::THREADS, Q::GRAD_BYTES, a);
	}
	static void wide(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		int64_t queries = samples * a.heads * a.t, keys = samples * a.heads * a.s;

		LAUNCH(c, wide_grad_keys, wide_grid(a, keys), BLOCK, a, keys);
		LAUNCH(c, wide_grad_queries, wide_grid(a, queries), BLOCK, a, queries);
	}
};

template <class F, class T> static void by_width(const struct op_call *c, const struct attention &a, int64_t samples)
{
	if (a.d <= 32)
		F::template run<T, 32>(c, a, samples);
	else if (a.d <= 64)
		F::template run<T, 64>(c, a, samples);
	else if (a.d <= 80)
		F::template run<T, 80>(c, a, samples);
	else if (a.d <= 96)
		F::template run<T, 96>(c, a, samples);
	else if (a.d <= 128)
		F::template run<T, 128>(c, a, samples);
	else
		F::wide(c, a, samples);
}

template <class F> static void by_type(const struct op_call *c, const struct attention &a, const struct array *q)
{
	if (q->dtype == DT_BF16)
		by_width<F, uint16_t>(c, a, q->shape[0]);
	else
		by_width<F, float>(c, a, q->shape[0]);
}

static void take_bias(struct attention *a, const struct op_call *c, int i)
{
	for (int d = 0; i < c->nin && d < 4; d++)
		a->bias_stride[d] = c->in[i].shape[d] == 1 ? 0 : c->in[i].stride[d];
	if (i < c->nin)
		a->bias = reals_of(&c->in[i]);
	a->unscaled = 1.f / a->scale;
}

static void attention_run(const struct op_call *c)
{
	struct attention a = attention_of(c, &c->in[0], &c->in[1], &c->out[1]);

	a.q = side_of(&c->in[0], &a.packed);
	a.k = side_of(&c->in[1], &a.packed);
	a.v = side_of(&c->in[2], &a.packed);
	a.o = side_of(&c->out[0], &a.packed);
	take_bias(&a, c, 3);
	by_type<forward>(c, a, &c->in[0]);
}

static void attention_grad_run(const struct op_call *c)
{
	struct attention a = attention_of(c, &c->in[1], &c->in[2], &c->in[5]);
	int64_t rows = c->in[1].shape[0] * a.heads * a.t;

	a.dy = side_of(&c->in[0], &a.packed);
	a.q = side_of(&c->in[1], &a.packed);
	a.k = side_of(&c->in[2], &a.packed);
	a.v = side_of(&c->in[3], &a.packed);
	a.o = side_of(&c->in[4], &a.packed);
	a.dq = side_of(&c->out[0], &a.packed);
	a.dk = side_of(&c->out[1], &a.packed);
	a.dv = side_of(&c->out[2], &a.packed);
	a.delta = (float *)c->scratch;
	take_bias(&a, c, 6);
	LAUNCH(c, attention_delta, blocks_for(rows * WARP), BLOCK, a, rows);
	by_type<backward>(c, a, &c->in[1]);
}

static size_t attention_grad_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return (size_t)(c->in[1].shape[0] * c->in[1].shape[1] * c->in[1].shape[2]) * sizeof(float);
}

extern "C" {
extern const struct kernel kernel_attention_cuda = {attention_run, NULL};
extern const struct kernel kernel_attention_grad_cuda = {attention_grad_run, attention_grad_scratch};
}
