/* ATTENTION on tensor cores, with an online softmax (running maximum and sum). */
#include "kernels/attention.h"

static __device__ const float LN_2 = .69314718055994530942f;

/* Tile shapes. An operand read from shared memory serves MT products of 16 rows. MT is 2 for bfloat16 if the accumulators (one of DP columns,
 * two in the gradient's key_tiles) and the scores fit into 255 registers. */
template <class T, int DP> struct forward_tiles;
template <int DP> struct forward_tiles<uint16_t, DP> : tiles<uint16_t, DP, 4, 2, DP <= 80 ? 64 : DP <= 96 ? 48 : 32> {
};
template <int DP> struct forward_tiles<float, DP> : tiles<float, DP, 4, 1, DP <= 64 ? 32 : 16> {
};
/* The maximum over the four lanes that share a row; quad_sum: the sum. */
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

/* Turn scores into weights relative to the running maximum, and rescale the earlier sums. Columns from `keys` on are hidden; with a causal mask
 * also columns more than `ahead` beyond their row. `top` is stored scaled and rounded, so that an unchanged maximum gives a factor of exactly 1,
 * even after a mask has moved it far from 0. */
template <class P>
static __device__ inline void softmax_step(float c[P::MT][P::BN / 8][4], float sum[P::MT][P::DP / 8][4], float top[P::MT][2], float share[P::MT][2],
                                           const struct attention &a, int keys, int ahead)
{
	const float scale = a.scale * LOG2_E;

	if (P::BN > keys || (a.causal && P::BN - 1 > ahead))
		UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
	for (int n = 0; n < P::BN / 8; n++)
		UNROLL
	for (int e = 0; e < 4; e++) {
		const int col = 8 * n + col_of(e);

		if (col >= keys || (a.causal && col > ahead + 16 * m + row_of(e)))
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

template <class P, bool ANY> static __global__ __launch_bounds__(P::THREADS) void attention_forward(struct attention a)
{
	typedef typename P::T T;
	SHARED_BYTES(shared);
	constexpr int STREAMED = P::BN * P::PITCH;
	const struct place w = place_of<P>(a, a.t, a.causal);
	const int keys = a.causal && w.first + P::OWN < a.s ? w.first + P::OWN : (int)a.s, mine = w.first + (int)threadIdx.x / WARP * P::ROWS;
	T *q = (T *)shared, *stage = q + P::OWN * P::PITCH;
	float sum[P::MT][P::DP / 8][4] = {}, top[P::MT][2], share[P::MT][2] = {};

	for (int m = 0; m < P::MT; m++)
		top[m][0] = top[m][1] = -INFINITY;
	tile_load<P, ANY, P::OWN>(q, a.q, w, w.first, (int)a.t, a);
	tile_load<P, ANY, P::BN>(stage, a.k, w, 0, (int)a.s, a);
	tile_load<P, ANY, P::BN>(stage + STREAMED, a.v, w, 0, (int)a.s, a);
	q += (mine - w.first) * P::PITCH;
	for (int key = 0, turn = 0; key < keys; key += P::BN, turn = !turn) {
		T *k = stage + turn * 2 * STREAMED, *next = stage + !turn * 2 * STREAMED;
		float c[P::MT][P::BN / 8][4];

		copy_wait();
		__syncthreads(); /* this stage is complete, and all have read the other one */
		if (key + P::BN < keys) {
			tile_load<P, ANY, P::BN>(next, a.k, w, key + P::BN, (int)a.s, a);
			tile_load<P, ANY, P::BN>(next + STREAMED, a.v, w, key + P::BN, (int)a.s, a);
		}
		if (mine >= a.t || (a.causal && key >= mine + P::ROWS))
			continue;
		scores<P>(c, q, k);
		if (ANY && a.bias.p)
			bias_add<P>(c, a, w, mine, key, 0);
		softmax_step<P>(c, sum, top, share, a, (int)a.s - key, mine - key);
		weighted<P>(sum, c, k + STREAMED);
	}
	for (int m = 0; m < P::MT; m++)
		for (int r = 0; r < 2; r++) {
			int64_t row = mine + 16 * m + row_of(2 * r);
			float all = quad_sum(share[m][r]);

			share[m][r] = 1.f / all;
			if (row < a.t && warp_lane() % 4 == 0)
				reals_set(a.lse.a, w.b * a.lse.sample + w.h * a.lse.head + row * a.lse.token, LN_2 * (top[m][r] + log2f(all)));
		}
	tile_store<P, ANY>(a.o, w, mine, a.t, sum, share, a);
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

struct forward {
	template <class T, int DP> static void run(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		typedef forward_tiles<T, DP> P;
		const auto run = is_any(a) ? attention_forward<P, true> : attention_forward<P, false>;

		LAUNCH_SHARED(c, run, blocks_of<P>(a, samples, a.t), P::THREADS, P::BYTES, a);
	}
	static void wide(const struct op_call *c, const struct attention &a, int64_t samples)
	{
		int64_t rows = samples * a.heads * a.t;

		LAUNCH(c, wide_forward, wide_grid(a, rows), BLOCK, a, rows);
	}
};

static struct attention forward_of(const struct op_call *c)
{
	struct attention a = attention_of(c, &c->in[0], &c->in[1], &c->out[1]);

	a.q = side_of(&c->in[0], &a.packed);
	a.k = side_of(&c->in[1], &a.packed);
	a.v = side_of(&c->in[2], &a.packed);
	a.o = side_of(&c->out[0], &a.packed);
	take_bias(&a, c, 3);
	return a;
}

static void own_forward(void *call)
{
	const struct own_call *o = (const struct own_call *)call;

	by_type<forward>(o->c, *o->a, &o->c->in[0]);
}

static void attention_run(const struct op_call *c)
{
	library_or_own(c, forward_of(c), c->in[0].shape[0], 0, own_forward, 0);
}

static size_t attention_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return library_scratch(c, forward_of(c), c->in[0].shape[0], 0, 0);
}

extern "C" {
extern const struct kernel kernel_attention_cuda = {attention_run, attention_scratch};
}
