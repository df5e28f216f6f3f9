/* Shared by the CUDA kernels of ATTENTION and its gradient (Dao, "FlashAttention-2", 2023). A block owns a tile of rows and keeps their sums
 * in registers; it streams tiles of the other operand through two stages of shared memory. The softmax uses powers of two with the scale
 * folded in.
 *
 * A warp owns MT times 16 whole rows, so its scores can be operands of the next product without leaving their registers. Rows in shared memory
 * are an odd number of 16 bytes apart in bfloat16, so that eight rows cover all banks. */
#ifndef DDM_KERNELS_ATTENTION_H
#define DDM_KERNELS_ATTENTION_H

#include "kernels/mma.h"

#include <math.h>

extern "C" {
#include "kernels/cudnn.h"
}

static __device__ const float LOG2_E = 1.44269504088896340736f;

/* DP: columns of a tile, d rounded up; BN: rows of a streamed tile. BYTES is at most 99 KB, which every supported GPU has per block. */
template <class REAL, int DP_, int WARPS, int MT_, int BN_> struct tiles {
	typedef REAL T;
	static constexpr int DP = DP_, MT = MT_, BN = BN_, THREADS = WARPS * WARP, ROWS = 16 * MT, OWN = WARPS * ROWS,
			     PITCH = DP / 8 % 2 ? DP : DP + 8;
	static constexpr size_t BYTES = (size_t)(OWN + 4 * BN) * PITCH * sizeof(T);
	static_assert(BN % 16 == 0 && DP % 8 == 0, "fragments are 16 long, the last one of a row 8 or 16");
	static constexpr size_t GRAD_BYTES = BYTES + (size_t)OWN * PITCH * sizeof(T) + 4 * BN * sizeof(float);
	static_assert(BYTES <= 99 << 10, "more shared memory than every processor has");
};

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

/* Arguments of the kernels. Each is compiled for packed rows without a bias, and with ANY for all other cases, which needs more registers. */
struct attention {
	int64_t t, s; /* queries, keys */
	int heads, d, causal, bf16;
	int packed;            /* every row of every operand is aligned to 16 bytes and a multiple of 16 bytes long */
	float scale, unscaled; /* unscaled: 1 / scale */
	struct side q, k, v, o, dy, dq, dk, dv;
	struct stats lse;
	float *delta;      /* (B, heads, T): sum of dy o */
	struct reals bias; /* (B, heads, T, S); p NULL: none */
	int64_t bias_stride[4];
};

/* The rows [first, first + OWN) of one head that a block owns. */
struct place {
	int b, h, first;
};

/* The rows of this block. Under a causal mask the tiles with the most work start first: the last queries, or the first keys. */
template <class P> static __device__ inline struct place place_of(const struct attention &a, int64_t rows, int from_last)
{
	const unsigned tiles = (unsigned)((rows + P::OWN - 1) / P::OWN), tile = blockIdx.x % tiles, bh = blockIdx.x / tiles;
	struct place w = {(int)bh / a.heads, (int)bh % a.heads, (int)(from_last ? tiles - 1 - tile : tile) * P::OWN};

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

/* Copy rows [first, first + ROWS) of `s` into a tile (ROWS, DP), with zeros from row `end` and column d on. The tile is complete after
 * copy_wait and a barrier. A thread stays in one column and steps down by a compile-time number of rows, for cheap address arithmetic. */
template <class P, bool ANY, int ROWS>
static __device__ inline void tile_load(typename P::T *tile, const struct side &s, const struct place &w, int first, int end,
                                        const struct attention &a)
{
	typedef typename P::T T;
	constexpr int WORD = 16 / sizeof(T), WORDS = P::DP / WORD, STEP = P::THREADS / WORDS, TURNS = (ROWS + STEP - 1) / STEP;
	const unsigned thread = (unsigned)opaque((int)threadIdx.x);
	const int row = (int)(thread / WORDS), col = (int)(thread % WORDS) * WORD;
	const int there = col < a.d ? end - first : 0; /* valid rows; may exceed ROWS */
	const struct place own = {opaque(w.b), opaque(w.h), w.first};
	const T *x = side_at<const T>(s, own) + (first + row) * s.token + col;
	T *y = tile + row * P::PITCH + col;

	if (P::THREADS % WORDS && row >= STEP)
		return;
	if (!ANY || a.packed) {
		UNROLL
		for (int i = 0; i < TURNS; i++)
			if (ROWS % STEP == 0 || row + i * STEP < ROWS)
				copy_async(y + i * STEP * P::PITCH, x + i * STEP * s.token, row + i * STEP < there);
	} else
		for (int i = row; i < ROWS; i += STEP, x += STEP * s.token, y += STEP * P::PITCH)
			for (int k = 0; k < WORD; k++)
				y[k] = i < there && col + k < a.d ? x[k] : (T)0;
}

static __device__ inline float bias_get(const struct attention &a, const struct place &w, int64_t query, int64_t key)
{
	return reals_get(a.bias, w.b * a.bias_stride[0] + w.h * a.bias_stride[1] + query * a.bias_stride[2] + key * a.bias_stride[3]);
}

/* What the last 8 columns of both add to scores. */
template <class P> static __device__ inline void scores_tail(float c[P::MT][P::BN / 8][4], const typename P::T *x, const typename P::T *y)
{
	frag_a<typename P::T> f[P::MT];

	UNROLL
	for (int m = 0; m < P::MT; m++)
		frag_load_half(&f[m], x + 16 * m * P::PITCH, P::PITCH);
	UNROLL
	for (int n = 0; n < P::BN; n += 16) {
		frag_b<typename P::T> g[2];

		frag_load_rows_half(g, y + n * P::PITCH, P::PITCH);
		UNROLL
		for (int m = 0; m < P::MT; m++) {
			mma_half(c[m][n / 8], f[m], g[0]);
			mma_half(c[m][n / 8 + 1], f[m], g[1]);
		}
	}
}

/* c (ROWS, BN) = x y^T of a warp's rows of x and all of y, both (.., DP). */
template <class P> static __device__ inline void scores(float c[P::MT][P::BN / 8][4], const typename P::T *x, const typename P::T *y)
{
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
	for (int n = 0; n < P::BN / 8; n++)
		for (int e = 0; e < 4; e++)
			c[m][n][e] = 0;
	UNROLL
	for (int k = 0; k + 16 <= P::DP; k += 16) {
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
	if (P::DP % 16)
		scores_tail<P>(c, x + P::DP - 8, y + P::DP - 8);
}

/* sum (ROWS, DP) += p (ROWS, BN) y (BN, DP) */
template <class P> static __device__ inline void weighted(float sum[P::MT][P::DP / 8][4], const float p[P::MT][P::BN / 8][4], const typename P::T *y)
{
	UNROLL
	for (int k = 0; k < P::BN; k += 16) {
		frag_a<typename P::T> f[P::MT];

		UNROLL
		for (int m = 0; m < P::MT; m++)
			frag_of(&f[m], p[m][k / 8], p[m][k / 8 + 1]);
		UNROLL
		for (int n = 0; n + 16 <= P::DP; n += 16) {
			frag_b<typename P::T> g[2];

			frag_load_columns(g, y + k * P::PITCH + n, P::PITCH);
			UNROLL
			for (int m = 0; m < P::MT; m++) {
				mma(sum[m][n / 8], f[m], g[0]);
				mma(sum[m][n / 8 + 1], f[m], g[1]);
			}
		}
		if (P::DP % 16) {
			frag_b<typename P::T> g;

			frag_load_column(&g, y + k * P::PITCH + P::DP - 8, P::PITCH);
			UNROLL
			for (int m = 0; m < P::MT; m++)
				mma(sum[m][P::DP / 8 - 1], f[m], g);
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

/* Add the bias to a warp's unscaled scores, rows from `row` and columns from `col`. */
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

/* p = the weights of a warp's keys, from `mine` on, for a tile of queries from `query` on: exp2 of the scores less lse, with the scale folded in.
 * lse: (BN), of the queries, times LOG2_E. */
template <class P, bool ANY>
static __device__ inline void key_weights(float p[P::MT][P::BN / 8][4], const struct attention &a, const struct place &w, int mine, int query,
                                          const typename P::T *k, const typename P::T *q, const float *lse)
{
	scores<P>(p, k, q);
	if (ANY && a.bias.p)
		bias_add<P>(p, a, w, mine, query, 1);
	UNROLL
	for (int m = 0; m < P::MT; m++)
		UNROLL
	for (int n = 0; n < P::BN / 8; n++)
		UNROLL
	for (int e = 0; e < 4; e++) {
		const int col = 8 * n + col_of(e);

		p[m][n][e] = exp2_fast(fmaf(p[m][n][e], a.scale * LOG2_E, -lse[col]));
		if (a.causal && mine - query + 16 * m + row_of(e) > col)
			p[m][n][e] = 0;
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

/* Store factor[m][row / 8] c to a warp's rows of `s` before `end`. */
template <class P, bool ANY>
static __device__ inline void tile_store(const struct side &s, const struct place &w, int64_t first, int64_t end, const float c[P::MT][P::DP / 8][4],
                                         const float factor[P::MT][2], const struct attention &a)
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
		if (!ANY || a.packed) {
			put_pair(to + row * s.token + col, x, y);
			continue;
		}
		put_one(to + row * s.token + col, x);
		if (col + 1 < a.d)
			put_one(to + row * s.token + col + 1, y);
	}
}

/* Store scale c to this warp's keys of the block's. */
template <class P, bool ANY>
static __device__ inline void keys_store(const struct side &s, float scale, const struct place &w, const float c[P::MT][P::DP / 8][4],
                                         const struct attention &a)
{
	float factor[P::MT][2];

	for (int m = 0; m < P::MT; m++)
		factor[m][0] = factor[m][1] = scale;
	tile_store<P, ANY>(s, w, w.first + (int)threadIdx.x / WARP * P::ROWS, a.s, c, factor, a);
}

static __device__ inline int64_t row_at(const struct side &s, const struct place &w, int64_t row)
{
	return w.b * s.sample + w.h * s.head + row * s.token;
}

/* The dot product of row i of x and row j of y, returned in every lane of the warp. */
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

/* Row i of (B, heads, rows), one per warp. */
static __device__ inline struct place row_place(int64_t i, int64_t rows, const struct attention &a)
{
	struct place w = {(int)(i / rows / a.heads), (int)(i / rows % a.heads), (int)(i % rows)};

	return w;
}

/* For heads wider than a tile: a warp computes COLUMNS columns of one row of the result, with scores by plain dot products. */
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

static inline struct side side_of(const struct array *x, int *packed)
{
	struct side s = {x->data, x->stride[0], x->stride[1], x->stride[2]};
	int64_t word = 16 / (int64_t)dtype_size(x->dtype);

	for (int d = 0; d < 3; d++)
		if (x->stride[d] % word)
			*packed = 0;
	if (x->shape[3] % word || (uintptr_t)x->data % 16)
		*packed = 0;
	return s;
}

static inline struct attention attention_of(const struct op_call *c, const struct array *q, const struct array *k, const struct array *lse)
{
	struct attention a = {};

	a.t = q->shape[1];
	a.s = k->shape[1];
	a.heads = (int)q->shape[2];
	a.d = (int)q->shape[3];
	a.causal = c->attr.attention.causal;
	a.scale = (float)c->attr.attention.scale;
	a.packed = 1;
	a.bf16 = q->dtype == DT_BF16;
	a.lse.a = reals_of(lse);
	a.lse.sample = lse->stride[0];
	a.lse.head = lse->stride[1];
	a.lse.token = lse->stride[2];
	return a;
}

static inline struct cudnn_side library_side(const struct side &s)
{
	struct cudnn_side x = {s.p, s.sample, s.token, s.head};

	return x;
}

static inline struct cudnn_attention library_pass(const struct attention &a, int64_t samples, int grad)
{
	struct cudnn_attention p = {};

	p.grad = grad;
	p.samples = samples, p.t = a.t, p.s = a.s, p.heads = a.heads, p.d = a.d;
	p.scale = a.scale;
	p.q = library_side(a.q), p.k = library_side(a.k), p.v = library_side(a.v), p.o = library_side(a.o);
	p.dy = library_side(a.dy), p.dq = library_side(a.dq), p.dk = library_side(a.dk), p.dv = library_side(a.dv);
	p.lse = (float *)a.lse.a.p;
	p.lse_sample = a.lse.sample, p.lse_head = a.lse.head, p.lse_token = a.lse.token;
	return p;
}

/* Whether cuDNN may compute it: rows are whole words in bfloat16, without bias or mask. The number of inputs tells of a bias, because scratch is
 * asked for without addresses. */
static inline int library_has(const struct op_call *c, const struct attention &a, int grad)
{
	const int biased = c->nin > (grad ? 6 : 3);

	return c->device && c->device->cudnn && !c->device->invariant && a.bf16 && !a.lse.a.bf16 && a.packed && !biased && !a.causal;
}

/* Bytes of scratch for it with this many samples or fewer, behind `own` bytes. */
static inline size_t library_scratch(const struct op_call *c, const struct attention &a, int64_t samples, int grad, size_t own)
{
	const struct cudnn_attention p = library_pass(a, samples, grad);
	const size_t bytes = library_has(c, a, grad) ? cudnn_most_workspace(c->device->cudnn, &p) : 0;

	return bytes ? own + CUBLASLT_ALIGN + bytes : own;
}

/* A call for our kernels, which cuDNN times its own against. */
struct own_call {
	const struct op_call *c;
	const struct attention *a;
	int64_t samples;
};

/* Compute a pass by cuDNN where it is used, else by own, which submits our kernels and uses `bytes` of scratch; its argument is an own_call. */
static inline void library_or_own(const struct op_call *c, const struct attention &a, int64_t samples, int grad, void (*own)(void *call),
                                  size_t bytes)
{
	const struct cudnn_attention p = library_pass(a, samples, grad);
	struct own_call call = {c, &a, samples};
	const struct cudnn_own ours = {own, &call};
	const uintptr_t at = ((uintptr_t)c->scratch + bytes + CUBLASLT_ALIGN - 1) / CUBLASLT_ALIGN * CUBLASLT_ALIGN;

	if (!library_has(c, a, grad) || !cudnn_run(c->device->cudnn, c->stream, &p, &ours, (void *)at))
		own(&call);
}

template <class P> static inline unsigned blocks_of(const struct attention &a, int64_t samples, int64_t rows)
{
	return (unsigned)(samples * a.heads * ((rows + P::OWN - 1) / P::OWN));
}

static inline int is_any(const struct attention &a)
{
	return a.bias.p || !a.packed;
}

static inline dim3 wide_grid(const struct attention &a, int64_t rows)
{
	return dim3(blocks_for(rows * WARP), (unsigned)((a.d + COLUMNS - 1) / COLUMNS), 1);
}

template <class F, class T> static inline void by_width(const struct op_call *c, const struct attention &a, int64_t samples)
{
	if (a.d <= 32)
		F::template run<T, 32>(c, a, samples);
	else if (a.d <= 64)
		F::template run<T, 64>(c, a, samples);
	else if (a.d <= 72)
		F::template run<T, 72>(c, a, samples);
	else if (a.d <= 80)
		F::template run<T, 80>(c, a, samples);
	else if (a.d <= 96)
		F::template run<T, 96>(c, a, samples);
	else if (a.d <= 128)
		F::template run<T, 128>(c, a, samples);
	else
		F::wide(c, a, samples);
}

template <class F> static inline void by_type(const struct op_call *c, const struct attention &a, const struct array *q)
{
	if (q->dtype == DT_BF16)
		by_width<F, uint16_t>(c, a, q->shape[0]);
	else
		by_width<F, float>(c, a, q->shape[0]);
}

/* Launch the gradient as one kernel (attention_head.cu). Returns 0, and launches nothing, if a block cannot hold all keys of a head: there are too
 * many, they are too wide, or the GPU has too little shared memory. This does not depend on the number of samples, so neither do a sample's bits. */
int attention_head_grad(const struct op_call *c, const struct attention &a, int64_t samples);

static inline void take_bias(struct attention *a, const struct op_call *c, int i)
{
	for (int d = 0; i < c->nin && d < 4; d++)
		a->bias_stride[d] = c->in[i].shape[d] == 1 ? 0 : c->in[i].stride[d];
	if (i < c->nin)
		a->bias = reals_of(&c->in[i]);
	a->unscaled = 1.f / a->scale;
}

#endif
