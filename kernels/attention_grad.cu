/* ATTENTION_GRAD on tensor cores, where attention_head.cu does not do it. In one kernel blocks own keys (dk, dv), in another they own queries (dq).
 * Both recompute the scores, but no sum depends on the order of blocks. The first kernel computes transposed scores, so that they can be operands
 * without leaving their registers. */
#include "kernels/attention.h"

/* As forward_tiles; with ANY there are fewer registers for the accumulators. */
template <class T, int DP, bool ANY = false> struct key_tiles;
template <int DP, bool ANY> struct key_tiles<uint16_t, DP, ANY> : tiles<uint16_t, DP, 4, DP <= (ANY ? 64 : 72) ? 2 : 1, 32> {
};
template <int DP, bool ANY> struct key_tiles<float, DP, ANY> : tiles<float, DP, DP <= 96 ? 4 : 2, 1, 16> {
};
template <class T, int DP> struct query_tiles;
template <int DP> struct query_tiles<uint16_t, DP> : tiles<uint16_t, DP, 4, DP <= 96 ? 2 : 1, DP == 96 ? 16 : 32> {
};
template <int DP> struct query_tiles<float, DP> : key_tiles<float, DP> {
};

static __global__ void attention_delta(struct attention a, int64_t all)
{
	for (int64_t i = thread_index() / WARP; i < all; i += thread_count() / WARP) {
		struct place w = row_place(i, a.t, a);
		float sum = row_dot(a.dy, row_at(a.dy, w, w.first), a.o, row_at(a.o, w, w.first), a);

		if (warp_lane() == 0)
			a.delta[i] = sum;
	}
}

/* The same for rows of whole packs: a team of lanes reads PACK columns each. */
static __global__ void attention_delta_packs(struct attention a, int64_t all)
{
	enum { LANES = 16 };
	const struct reals dy = {a.dy.p, a.bf16}, o = {a.o.p, a.bf16};
	const int lane = (int)threadIdx.x % LANES;

	for (int64_t first = thread_index() / WARP * (WARP / LANES); first < all; first += thread_count() / LANES) {
		const int64_t i = first + warp_lane() / LANES, row = i < all ? i : all - 1;
		const struct place w = row_place(row, a.t, a);
		float sum = 0;

		for (int col = lane * PACK; col < a.d; col += LANES * PACK) {
			float x[PACK], y[PACK];

			reals_get8(dy, row_at(a.dy, w, w.first) + col, x);
			reals_get8(o, row_at(a.o, w, w.first) + col, y);
			for (int k = 0; k < PACK; k++)
				sum = fmaf(x[k], y[k], sum);
		}
		for (int step = LANES / 2; step; step /= 2)
			sum += __shfl_xor_sync(0xffffffffu, sum, step);
		if (lane == 0 && i < all)
			a.delta[i] = sum;
	}
}

/* lse and delta of one streamed query, on their way to shared memory: read a turn ahead, so that no product waits for them. */
struct query_stats {
	float lse, delta;
};

/* Read those of query first + thread; an lse of infinity gives weight 0 to queries beyond the last. */
template <class P> static __device__ inline struct query_stats stats_read(const struct attention &a, const struct place &w, int64_t first)
{
	const int64_t row = first + threadIdx.x;
	struct query_stats s = {INFINITY, 0.f};

	static_assert(P::BN <= P::THREADS, "a thread reads one query's");
	if (threadIdx.x < P::BN && row < a.t) {
		s.lse = stats_get(a.lse, w, row);
		s.delta = delta_get(a, w, row);
	}
	return s;
}

template <class P> static __device__ inline void stats_store(float *to, const struct query_stats &s)
{
	if (threadIdx.x < P::BN) {
		to[threadIdx.x] = s.lse * LOG2_E;
		to[P::BN + threadIdx.x] = s.delta;
	}
}

/* Add what a tile of queries contributes to the dk and dv of a warp's keys. lse: (BN), and behind it delta (BN). */
template <class P, bool ANY>
static __device__ inline void key_turn(float dk[P::MT][P::DP / 8][4], float dv[P::MT][P::DP / 8][4], const struct attention &a, const struct place &w,
                                       int mine, int query, const typename P::T *k, const typename P::T *v, const typename P::T *q, const float *lse)
{
	const typename P::T *dy = q + P::BN * P::PITCH;
	const float *delta = lse + P::BN;
	float p[P::MT][P::BN / 8][4], ds[P::MT][P::BN / 8][4];

	key_weights<P, ANY>(p, a, w, mine, query, k, q, lse);
	scores<P>(ds, v, dy); /* computing this after dv would take ten more registers */
	weighted<P>(dv, p, dy);
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
	for (int n = 0; n < P::BN / 8; n++)
		UNROLL
	for (int e = 0; e < 4; e++)
		ds[m][n][e] = p[m][n][e] * (ds[m][n][e] - delta[8 * n + col_of(e)]);
	weighted<P>(dk, ds, q);
}

/* dk and dv. Rows are keys, columns are queries. */
template <class P, bool ANY> static __global__ __launch_bounds__(P::THREADS) void attention_grad_keys(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.s, 0);
	const int begin = a.causal ? w.first / P::BN * P::BN : 0, queries = (int)a.t;
	T *k = (T *)shared, *v = k + P::OWN * P::PITCH, *stage = v + P::OWN * P::PITCH;
	float *stats = (float *)(stage + 4 * STREAMED), dk[P::MT][P::DP / 8][4] = {}, dv[P::MT][P::DP / 8][4] = {};

	if (begin < queries) {
		tile_load<P, ANY, P::OWN>(k, a.k, w, w.first, (int)a.s, a);
		tile_load<P, ANY, P::OWN>(v, a.v, w, w.first, (int)a.s, a);
		tile_load<P, ANY, P::BN>(stage, a.q, w, begin, (int)a.t, a);
		tile_load<P, ANY, P::BN>(stage + STREAMED, a.dy, w, begin, (int)a.t, a);
		stats_store<P>(stats, stats_read<P>(a, w, begin));
	}
	for (int query = begin, turn = 0; query < queries; query += P::BN, turn = !turn) {
		const int own = opaque((int)threadIdx.x) / WARP * P::ROWS, mine = w.first + own; /* not kept from turn to turn */
		T *q = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		const float *lse = stats + turn * 2 * P::BN;
		struct query_stats following = {};

		copy_wait();
		__syncthreads();
		if (query + P::BN < queries) {
			tile_load<P, ANY, P::BN>(next, a.q, w, query + P::BN, (int)a.t, a);
			tile_load<P, ANY, P::BN>(next + STREAMED, a.dy, w, query + P::BN, (int)a.t, a);
			following = stats_read<P>(a, w, query + P::BN);
		}
		if (mine < a.s && !(a.causal && query + P::BN <= mine))
			key_turn<P, ANY>(dk, dv, a, w, mine, query, k + own * P::PITCH, v + own * P::PITCH, q, lse);
		stats_store<P>(stats + !turn * 2 * P::BN, following);
	}
	keys_store<P, ANY>(a.dk, a.scale, w, dk, a);
	keys_store<P, ANY>(a.dv, 1, w, dv, a);
}

/* dq. Rows are queries, columns are keys. */
template <class P, bool ANY> static __global__ __launch_bounds__(P::THREADS) void attention_grad_queries(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.t, a.causal);
	const int keys = a.causal && w.first + P::OWN < a.s ? w.first + P::OWN : (int)a.s, mine = w.first + (int)threadIdx.x / WARP * P::ROWS;
	T *q = (T *)shared, *dy = q + P::OWN * P::PITCH, *stage = dy + P::OWN * P::PITCH;
	float dq[P::MT][P::DP / 8][4] = {}, lse[P::MT][2], delta[P::MT][2], factor[P::MT][2];

	tile_load<P, ANY, P::OWN>(q, a.q, w, w.first, (int)a.t, a);
	tile_load<P, ANY, P::OWN>(dy, a.dy, w, w.first, (int)a.t, a);
	tile_load<P, ANY, P::BN>(stage, a.k, w, 0, (int)a.s, a);
	tile_load<P, ANY, P::BN>(stage + STREAMED, a.v, w, 0, (int)a.s, a);
	q += (mine - w.first) * P::PITCH;
	dy += (mine - w.first) * P::PITCH;
	for (int m = 0; m < P::MT; m++)
		for (int r = 0; r < 2; r++) {
			int64_t row = mine + 16 * m + row_of(2 * r);

			lse[m][r] = row < a.t ? stats_get(a.lse, w, row) * LOG2_E : INFINITY;
			delta[m][r] = row < a.t ? delta_get(a, w, row) : 0.f;
			factor[m][r] = a.scale;
		}
	for (int key = 0, turn = 0; key < keys; key += P::BN, turn = !turn) {
		T *k = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		float p[P::MT][P::BN / 8][4], ds[P::MT][P::BN / 8][4];

		copy_wait();
		__syncthreads();
		if (key + P::BN < keys) {
			tile_load<P, ANY, P::BN>(next, a.k, w, key + P::BN, (int)a.s, a);
			tile_load<P, ANY, P::BN>(next + STREAMED, a.v, w, key + P::BN, (int)a.s, a);
		}
		if (mine >= a.t || (a.causal && key >= mine + P::ROWS))
			continue;
		scores<P>(p, q, k);
		if (ANY && a.bias.p)
			bias_add<P>(p, a, w, mine, key, 0);
		scores<P>(ds, dy, k + STREAMED);
		UNROLL
		for (int m = 0; m < P::MT; m++)
			UNROLL
		for (int n = 0; n < P::BN / 8; n++)
			UNROLL
		for (int e = 0; e < 4; e++) {
			const int col = 8 * n + col_of(e);
			float x = exp2_fast(fmaf(p[m][n][e], a.scale * LOG2_E, -lse[m][e / 2])) * (ds[m][n][e] - delta[m][e / 2]);

			ds[m][n][e] = col >= (int)a.s - key || (a.causal && col > mine - key + 16 * m + row_of(e)) ? 0.f : x;
		}
		weighted<P>(dq, ds, k);
	}
	tile_store<P, ANY>(a.dq, w, mine, a.t, dq, factor, a);
}

/* Returns the weight of a key for a query; *ds is the gradient of their score, divided by the scale. */
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

struct backward {
	template <class T, int DP> static void run(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		typedef query_tiles<T, DP> Q;
		static_assert(Q::GRAD_BYTES <= 99 << 10, "more shared memory than every processor has");
		const auto queries = is_any(a) ? attention_grad_queries<Q, true> : attention_grad_queries<Q, false>;

		if (is_any(a))
			keys<key_tiles<T, DP, true>, true>(c, a, samples);
		else
			keys<key_tiles<T, DP>, false>(c, a, samples);
		LAUNCH_SHARED(c, queries, blocks_of<Q>(a, samples, a.t), Q::THREADS, Q::GRAD_BYTES, a);
	}
	template <class P, bool ANY> static void keys(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		const auto run = attention_grad_keys<P, ANY>;

		static_assert(P::GRAD_BYTES <= 99 << 10, "more shared memory than every processor has");
		LAUNCH_SHARED(c, run, blocks_of<P>(a, samples, a.s), P::THREADS, P::GRAD_BYTES, a);
	}
	static void wide(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		int64_t queries = samples * a.heads * a.t, keys = samples * a.heads * a.s;

		LAUNCH(c, wide_grad_keys, wide_grid(a, keys), BLOCK, a, keys);
		LAUNCH(c, wide_grad_queries, wide_grid(a, queries), BLOCK, a, queries);
	}
};

static struct attention gradient_of(const struct op_call *c)
{
	struct attention a = attention_of(c, &c->in[1], &c->in[2], &c->in[5]);

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
	return a;
}

static size_t delta_bytes(const struct op_call *c)
{
	return (size_t)(c->in[1].shape[0] * c->in[1].shape[1] * c->in[1].shape[2]) * sizeof(float);
}

static void own_gradient(void *call)
{
	const struct own_call *o = (const struct own_call *)call;
	const struct op_call *c = o->c;
	const struct attention &a = *o->a;
	const int64_t rows = o->samples * a.heads * a.t;

	if (attention_head_grad(c, a, o->samples))
		return;
	if (a.packed && a.d % PACK == 0)
		LAUNCH(c, attention_delta_packs, blocks_for(rows * WARP / 2), BLOCK, a, rows);
	else
		LAUNCH(c, attention_delta, blocks_for(rows * WARP), BLOCK, a, rows);
	by_type<backward>(c, a, &c->in[1]);
}

static void attention_grad_run(const struct op_call *c)
{
	library_or_own(c, gradient_of(c), c->in[1].shape[0], 1, own_gradient, delta_bytes(c));
}

static size_t attention_grad_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return library_scratch(c, gradient_of(c), c->in[1].shape[0], 1, delta_bytes(c));
}

extern "C" {
extern const struct kernel kernel_attention_grad_cuda = {attention_grad_run, attention_grad_scratch};
}
