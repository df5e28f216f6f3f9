/* ATTENTION_GRAD in one kernel, for few keys: a block holds all keys of a head in shared memory and sees every query once. So the scores are
 * computed once, five products in all, and no sum leaves the block.
 *
 * A warp owns rows of keys and keeps their dk and dv in registers, as in attention_grad_keys. The sums of dq run over the keys of all warps, which
 * therefore leave the gradients of their scores in shared memory: the columns of TURN queries in each turn. In the next turn, so that one barrier
 * is enough, the warps multiply them with k, each for 16 queries and half of the columns of dq. delta is computed on the way, from rows of o and dy
 * that are read a turn ahead.
 *
 * A head of 256 tokens and width 72 costs 47 MFLOP of products, 66 in two kernels, and 8 matrices of memory traffic (q, k, v, o, dy, and three
 * results), 13 in three kernels. */
#include "kernels/attention.h"

/* TURN: the queries of a turn; PER: the threads that compute one query's delta. */
template <class REAL, int DP, int WARPS, int MT, int BN> struct head_tiles : tiles<REAL, DP, WARPS, MT, BN> {
	typedef tiles<REAL, DP, WARPS, MT, BN> B;
	static constexpr int TURN = 8 * WARPS, PITCHED = TURN + 8, PER = B::THREADS / TURN, LOW = DP / 16, HIGH = DP / 8 - LOW;
	static constexpr size_t KEYS = (size_t)2 * B::OWN * B::PITCH * sizeof(REAL), STAGES = (size_t)4 * TURN * B::PITCH * sizeof(REAL);
	static constexpr size_t HEAD_BYTES = KEYS + STAGES + (size_t)2 * B::OWN * PITCHED * sizeof(REAL) + 4 * TURN * sizeof(float);
	static_assert(TURN % BN == 0 && (LOW == HIGH || LOW % 2 == 0), "whole tiles of scores, and pairs of tiles of dq before the last");
};

/* The sample and head of this block. Computed again where it is needed, because the products use all registers. */
static __device__ inline struct place head_place(struct divider heads)
{
	uint32_t h;
	const uint32_t b = divide_rest(heads, (uint32_t)opaque((int)blockIdx.x), &h);
	struct place w = {(int)b, (int)h, 0};

	return w;
}

template <class REAL> struct alignas(16) pack {
	REAL x[16 / sizeof(REAL)];
};

static __device__ inline float real_of(float x)
{
	return x;
}

static __device__ inline float real_of(uint16_t x)
{
	return bf16_load(x);
}

/* What a thread reads of one query, to be stored once the products of a turn are done: its lse, and its share of the rows of o and dy. */
template <class P> struct head_stats {
	static constexpr int WORD = 16 / sizeof(typename P::T), COUNT = (P::DP / WORD + P::PER - 1) / P::PER;
	float lse, delta;
	struct pack<typename P::T> o[COUNT], dy[COUNT];
};

/* Read those of query first + thread / PER. */
template <class P, bool ANY> static __device__ inline head_stats<P> head_read(const struct attention &a, const struct place &w, int64_t first)
{
	typedef typename P::T T;
	const struct place own = {opaque(w.b), opaque(w.h), 0};
	const unsigned thread = (unsigned)opaque((int)threadIdx.x);
	const int64_t row = first + thread / P::PER;
	const int lane = (int)(thread % P::PER);
	head_stats<P> s = {};

	s.lse = INFINITY; /* gives weight 0 to queries beyond the last */
	if (row >= a.t)
		return s;
	s.lse = stats_get(a.lse, own, row);
	const T *o = side_at<const T>(a.o, own) + row * a.o.token, *dy = side_at<const T>(a.dy, own) + row * a.dy.token;
	if (ANY && !a.packed) {
		for (int col = lane; col < a.d; col += P::PER)
			s.delta = fmaf(real_of(o[col]), real_of(dy[col]), s.delta);
		return s;
	}
	UNROLL
	for (int i = 0; i < s.COUNT; i++) {
		const int col = (lane + i * P::PER) * s.WORD;

		if (col < a.d) {
			s.o[i] = *(const struct pack<T> *)WIDE(o + col);
			s.dy[i] = *(const struct pack<T> *)WIDE(dy + col);
		}
	}
	return s;
}

/* Store lse, in powers of two, and behind it delta. All threads of a warp must call it. */
template <class P> static __device__ inline void head_store(float *to, const head_stats<P> &s)
{
	const int row = (int)threadIdx.x / P::PER;
	float delta = s.delta;

	UNROLL
	for (int i = 0; i < s.COUNT; i++)
		UNROLL
	for (int k = 0; k < s.WORD; k++)
		delta = fmaf(real_of(s.o[i].x[k]), real_of(s.dy[i].x[k]), delta);
	UNROLL
	for (int step = P::PER / 2; step; step /= 2)
		delta += __shfl_xor_sync(0xffffffffu, delta, step);
	if (threadIdx.x % P::PER == 0) {
		to[row] = s.lse * LOG2_E;
		to[P::TURN + row] = delta;
	}
}

/* Store two gradients of scores, or zeros beyond the last key, where weights may be infinite and dq has sums over the rows. */
static __device__ inline void head_put(uint16_t *to, float x, float y, int valid)
{
	*(uint32_t *)to = valid ? bf16_pair(x, y) : 0;
}

static __device__ inline void head_put(float *to, float x, float y, int valid)
{
	put_pair(to, valid ? x : 0.f, valid ? y : 0.f);
}

/* Add what BN queries contribute to the dk and dv of a warp's keys, and leave the gradients of their scores in `out` (ROWS, PITCHED). lse: (BN),
 * and TURN behind it delta. */
template <class P, bool ANY>
static __device__ inline void head_turn(float dk[P::MT][P::DP / 8][4], float dv[P::MT][P::DP / 8][4], typename P::T *out, const struct attention &a,
                                        const struct place &w, int mine, int query, const typename P::T *k, const typename P::T *v,
                                        const typename P::T *q, const float *lse)
{
	const typename P::T *dy = q + P::TURN * P::PITCH;
	const float *delta = lse + P::TURN;
	const int keys = (int)a.s - mine;
	float p[P::MT][P::BN / 8][4], ds[P::MT][P::BN / 8][4];

	key_weights<P, ANY>(p, a, w, mine, query, k, q, lse);
	scores<P>(ds, v, dy);
	weighted<P>(dv, p, dy);
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
	for (int n = 0; n < P::BN / 8; n++) {
		UNROLL
		for (int e = 0; e < 4; e++)
			ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - delta[8 * n + col_of(e)]);
		UNROLL
		for (int r = 0; r < 2; r++)
			head_put(out + (16 * m + row_of(2 * r)) * P::PITCHED + 8 * n + col_of(0), ds[m][n][2 * r], ds[m][n][2 * r + 1],
			         16 * m + row_of(2 * r) < keys);
	}
	weighted<P>(dk, ds, q);
}

/* dq of a turn's queries: this warp's 16 rows and half of the columns. ds: (OWN, PITCHED), its rows are keys. */
template <class P, bool ANY>
static __device__ inline void head_queries(const struct attention &a, const struct place &w, int query, const typename P::T *ds,
                                           const typename P::T *k)
{
	typedef typename P::T T;
	const struct place own = {opaque(w.b), opaque(w.h), 0};
	const int warp = opaque((int)threadIdx.x) / WARP, high = warp % 2, first = query + warp / 2 * 16, c0 = high * P::LOW * 8;
	const int end = a.causal && first + 16 < a.s ? first + 16 : (int)a.s;
	float dq[P::HIGH][4] = {};
	T *to = side_at<T>(a.dq, own);

	if (first >= a.t)
		return;
	ds += warp / 2 * 16;
	k += c0;
	for (int key = 0; key < end; key += 16, ds += 16 * P::PITCHED, k += 16 * P::PITCH) {
		frag_a<T> f;

		frag_load_transposed(&f, ds, P::PITCHED);
		UNROLL
		for (int n = 0; n + 1 < P::HIGH; n += 2) {
			frag_b<T> g[2];

			frag_load_columns(g, k + 8 * n, P::PITCH);
			mma(dq[n], f, g[0]);
			mma(dq[n + 1], f, g[1]);
		}
		if (P::HIGH % 2 && (P::HIGH == P::LOW || high)) {
			frag_b<T> g;

			frag_load_column(&g, k + 8 * (P::HIGH - 1), P::PITCH);
			mma(dq[P::HIGH - 1], f, g);
		}
	}
	UNROLL
	for (int n = 0; n < P::HIGH; n++)
		UNROLL
	for (int r = 0; r < 2; r++) {
		const int64_t row = first + row_of(2 * r);
		const int col = c0 + 8 * n + col_of(0);

		if (row >= a.t || col >= a.d || (n >= P::LOW && !high))
			continue;
		if (!ANY || a.packed) {
			put_pair(to + row * a.dq.token + col, a.scale * dq[n][2 * r], a.scale * dq[n][2 * r + 1]);
			continue;
		}
		put_one(to + row * a.dq.token + col, a.scale * dq[n][2 * r]);
		if (col + 1 < a.d)
			put_one(to + row * a.dq.token + col + 1, a.scale * dq[n][2 * r + 1]);
	}
}

template <class P, bool ANY> static __global__ __launch_bounds__(P::THREADS) void attention_grad_head(struct attention a, struct divider heads)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::TURN * P::PITCH, SCORES = P::OWN * P::PITCHED;
	const int queries = (int)a.t;
	struct place w = head_place(heads);
	T *k = (T *)shared, *v = k + P::OWN * P::PITCH, *stage = v + P::OWN * P::PITCH, *ds = stage + 4 * STREAMED;
	float *stats = (float *)(ds + 2 * SCORES), dk[P::MT][P::DP / 8][4] = {}, dv[P::MT][P::DP / 8][4] = {};

	tile_load<P, ANY, P::OWN>(k, a.k, w, 0, (int)a.s, a);
	tile_load<P, ANY, P::TURN>(stage, a.q, w, 0, queries, a);
	tile_load<P, ANY, P::OWN>(v, a.v, w, 0, (int)a.s, a);
	tile_load<P, ANY, P::TURN>(stage + STREAMED, a.dy, w, 0, queries, a);
	head_store<P>(stats, head_read<P, ANY>(a, w, 0));
	for (int query = 0; query < queries + P::TURN; query += P::TURN) {
		const int turn = query / P::TURN % 2, mine = opaque((int)threadIdx.x) / WARP * P::ROWS;
		const T *q = stage + turn * 2 * STREAMED;
		head_stats<P> following;

		w = head_place(heads);
		copy_wait();
		__syncthreads(); /* this stage and the last turn's ds are complete, and all have read the other stage and this turn's ds */
		if (query + P::TURN < queries) {
			T *next = stage + !turn * 2 * STREAMED;

			tile_load<P, ANY, P::TURN>(next, a.q, w, query + P::TURN, queries, a);
			tile_load<P, ANY, P::TURN>(next + STREAMED, a.dy, w, query + P::TURN, queries, a);
		}
		for (int i = 0; i < P::TURN && query + i < queries; i += P::BN)
			if (mine < a.s && !(a.causal && query + i + P::BN <= mine))
				head_turn<P, ANY>(dk, dv, ds + turn * SCORES + mine * P::PITCHED + i, a, w, mine, query + i, k + mine * P::PITCH,
				                  v + mine * P::PITCH, q + i * P::PITCH, stats + turn * 2 * P::TURN + i);
		w = head_place(heads);
		following = head_read<P, ANY>(a, w, query + P::TURN);
		if (query)
			head_queries<P, ANY>(a, w, query - P::TURN, ds + !turn * SCORES, k);
		head_store<P>(stats + !turn * 2 * P::TURN, following);
	}
	w = head_place(heads);
	keys_store<P, ANY>(a.dk, a.scale, w, dk, a);
	keys_store<P, ANY>(a.dv, 1, w, dv, a);
}

/* Launch it if a block can hold all keys. */
template <class P> static inline int head_run(const struct op_call *c, const struct attention &a, int64_t samples)
{
	const auto run = is_any(a) ? attention_grad_head<P, true> : attention_grad_head<P, false>;

	if (a.s > P::OWN || P::HEAD_BYTES > cuda_shared_limit(c))
		return 0;
	LAUNCH_SHARED(c, run, (unsigned)(samples * a.heads), P::THREADS, P::HEAD_BYTES, a, divider_of(a.heads));
	return 1;
}

/* 256 keys, or 128 in blocks of half the size, of which a processor holds two. Wider heads have one row tile: 128 keys. */
template <int DP> static inline int head_bf16(const struct op_call *c, const struct attention &a, int64_t samples)
{
	if constexpr (DP > 72)
		return head_run<head_tiles<uint16_t, DP, 8, 1, 32>>(c, a, samples);
	else
		return head_run<head_tiles<uint16_t, DP, 4, 2, 32>>(c, a, samples) || head_run<head_tiles<uint16_t, DP, 8, 2, 32>>(c, a, samples);
}

int attention_head_grad(const struct op_call *c, const struct attention &a, int64_t samples)
{
	if (!a.bf16)
		return a.d > 72 ? 0 : head_run<head_tiles<float, 72, 8, 1, 16>>(c, a, samples);
	if (a.d <= 32)
		return head_bf16<32>(c, a, samples);
	if (a.d <= 64)
		return head_bf16<64>(c, a, samples);
	if (a.d <= 72)
		return head_bf16<72>(c, a, samples);
	if (a.d <= 96)
		return head_bf16<96>(c, a, samples);
	return a.d > 128 ? 0 : head_bf16<128>(c, a, samples);
}
