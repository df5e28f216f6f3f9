/* NEAREST on tensor cores. Computes tiles of the product x c^T and keeps only the three least prices of each row.
 *
 * |x - c|^2 = |x|^2 + |c|^2 - 2 x c, and |x|^2 does not affect which c is nearest; the price of c is |c|^2 + offset - 2 x c. The product takes
 * 2 N K D operations, 21e12 for ten million points of dimension 1024 and 1024 centres, too slow in float. A float is split into two bfloat16
 * with a relative error of 2^-17, and the product is computed as high high + high low + low high, at a third of the bfloat16 rate.
 *
 * The omitted terms and the rounding of the sums change a price by at most a bound that depends on |x|, the largest |c| and D. If the two least
 * prices of a row differ by less than the bound, the distances in float decide between them; if the three least do, the distances to all
 * centres. So the choice equals that of float. The distance to the chosen centre is always computed as the sum of (x - c)^2, without
 * cancellation. */
#include "kernels/mma.h"

enum { DEPTH = 32, ROWS = 128, THREADS = 256, DIRECT = 4 /* with at most so many centres, distances are computed directly */ };

/* A warp owns MT times 16 rows and NT times 8 columns. */
template <int BN_, int WARPS_M> struct tile_shape {
	static constexpr int BN = BN_, WARPS_N = THREADS / WARP / WARPS_M, MT = ROWS / WARPS_M / 16, NT = BN / WARPS_N / 8;
	static constexpr int LEFT = ROWS * DEPTH, RIGHT = BN * DEPTH, STAGE = 2 * (LEFT + RIGHT);
	static constexpr size_t BYTES = 2 * STAGE * sizeof(uint16_t);
};

/* A float matrix (rows, cols) split into two bfloat16 matrices (padded, depth), padded with zeros. */
struct halves {
	const float *x;
	uint16_t *high, *low;
	int64_t rows, cols, padded, depth;
	int packed;          /* rows are whole packs */
	const float *offset; /* of centres; NULL: none */
	float *norm, *base;  /* [padded] |row|^2, and |row|^2 + offset; infinite beyond the rows. NULL: not computed */
};

struct candidate {
	int32_t first, second;
	float gap, wide; /* the second least price less the least, and the third least less the least */
};

struct nearest {
	struct halves x, c;
	const float *offset;
	int64_t n, d, k;
	int lower, packed;
	struct candidate *candidate; /* [N]; NULL: distances to all centres are computed */
	int32_t *cluster;
	float *near;
	double *sums;
};

static __device__ inline double warp_sum(double v)
{
	for (int step = WARP / 2; step; step /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, step);
	return v;
}

static __device__ inline void half_get8(const struct halves *h, int64_t row, int64_t col, float v[PACK])
{
	const struct reals x = {(void *)h->x, 0};

	if (h->packed && row < h->rows && col < h->cols) {
		reals_get8(x, row * h->cols + col, v);
		return;
	}
	for (int i = 0; i < PACK; i++)
		v[i] = row < h->rows && col + i < h->cols ? h->x[row * h->cols + col + i] : 0.f;
}

/* A warp for a row. */
static __global__ void split_rows(struct halves h)
{
	const struct reals high = {h.high, 1}, low = {h.low, 1};

	for (int64_t row = thread_index() / WARP; row < h.padded; row += thread_count() / WARP) {
		double norm = 0;

		for (int64_t col = warp_lane() * PACK; col < h.depth; col += WARP * PACK) {
			float v[PACK];

			half_get8(&h, row, col, v);
			reals_set8(high, row * h.depth + col, v);
			for (int i = 0; i < PACK; i++) {
				norm += (double)v[i] * (double)v[i];
				v[i] -= bf16_load(bf16_store(v[i]));
			}
			reals_set8(low, row * h.depth + col, v);
		}
		if (h.norm)
			norm = warp_sum(norm);
		if (h.norm && warp_lane() == 0) {
			h.norm[row] = row < h.rows ? (float)norm : INFINITY;
			h.base[row] = row < h.rows && h.offset ? (float)norm + h.offset[row] : h.norm[row];
		}
	}
}

/* The three least prices of a row, and the centres of the first two. The order of equal prices does not matter, because close ones are compared
 * again in float. */
struct least {
	float price[3];
	int at[2];
};

static __device__ inline void least_none(struct least *l)
{
	for (int i = 0; i < 3; i++)
		l->price[i] = INFINITY;
	l->at[0] = l->at[1] = 0;
}

static __device__ inline void least_next(struct least *l, float price, int at)
{
	if (!(price < l->price[2]))
		return;
	if (!(price < l->price[1])) {
		l->price[2] = price;
		return;
	}
	l->price[2] = l->price[1];
	if (price < l->price[0]) {
		l->price[1] = l->price[0];
		l->at[1] = l->at[0];
		l->price[0] = price;
		l->at[0] = at;
	} else {
		l->price[1] = price;
		l->at[1] = at;
	}
}

/* Merge the least prices of other columns into l. */
static __device__ inline void least_join(struct least *l, const struct least *o)
{
	for (int i = 0; i < 2; i++) {
		float price = o->price[i];
		int at = o->at[i];

		for (int k = 0; k < 2; k++)
			if (price < l->price[k]) {
				float p = l->price[k];
				int a = l->at[k];

				l->price[k] = price;
				l->at[k] = at;
				price = p;
				at = a;
			}
		l->price[2] = price < l->price[2] ? price : l->price[2];
	}
	l->price[2] = o->price[2] < l->price[2] ? o->price[2] : l->price[2];
}

/* The index of word w (eight elements) of a row in a tile, swizzled so that one column of eight rows is in different banks. */
static __device__ inline int tile_at(int row, int w)
{
	return row * DEPTH + (w ^ (row >> 1 & 3)) * 8;
}

template <int N> static __device__ inline void tile_load(uint16_t *tile, const uint16_t *from, int64_t depth)
{
	UNROLL
	for (int i = (int)threadIdx.x; i < N * DEPTH / 8; i += THREADS)
		copy_async(tile + tile_at(i / (DEPTH / 8), i % (DEPTH / 8)), from + i / (DEPTH / 8) * depth + i % (DEPTH / 8) * 8, 1);
}

template <class P> static __device__ inline void tiles_load(uint16_t *stage, const struct nearest &p, int64_t row, int64_t col, int64_t k)
{
	int64_t left = row * p.x.depth + k, right = col * p.c.depth + k;

	tile_load<ROWS>(stage, p.x.high + left, p.x.depth);
	tile_load<ROWS>(stage + P::LEFT, p.x.low + left, p.x.depth);
	tile_load<P::BN>(stage + 2 * P::LEFT, p.c.high + right, p.c.depth);
	tile_load<P::BN>(stage + 2 * P::LEFT + P::RIGHT, p.c.low + right, p.c.depth);
}

/* c += the warp's rows of left times its rows of right, transposed: high high + high low + low high. */
template <class P> static __device__ inline void tiles_multiply(float c[P::MT][P::NT][4], const uint16_t *stage, int row, int col)
{
	const uint16_t *right = stage + 2 * P::LEFT;
	const int lane = warp_lane();

	UNROLL
	for (int k = 0; k < DEPTH / 8; k += 2) {
		frag_a<uint16_t> high[P::MT], low[P::MT];

		UNROLL
		for (int i = 0; i < P::MT; i++) {
			int at = tile_at(row + 16 * i + lane % 16, k + lane / 16);

			ldmatrix(high[i].x, stage + at);
			ldmatrix(low[i].x, stage + P::LEFT + at);
		}
		UNROLL
		for (int n = 0; n < P::NT; n += 2) {
			int at = tile_at(col + 8 * n + lane % 8 + lane / 16 * 8, k + lane / 8 % 2);
			uint32_t h[4], l[4];

			ldmatrix(h, right + at);
			ldmatrix(l, right + P::RIGHT + at);
			UNROLL
			for (int i = 0; i < P::MT; i++)
				UNROLL
			for (int j = 0; j < 2; j++) {
				mma_bf16(c[i][n + j], low[i].x, h + 2 * j);
				mma_bf16(c[i][n + j], high[i].x, l + 2 * j);
				mma_bf16(c[i][n + j], high[i].x, h + 2 * j);
			}
		}
	}
}

/* Compute the prices of a tile of centres, update the least ones, and clear the accumulators. */
template <class P> static __device__ inline void tiles_price(struct least best[P::MT][2], float c[P::MT][P::NT][4], const float *base, int64_t first)
{
	UNROLL
	for (int j = 0; j < P::NT; j++)
		UNROLL
	for (int e = 0; e < 4; e++) {
		int at = (int)first + 8 * j + warp_lane() % 4 * 2 + e % 2;
		float b = base[at];

		UNROLL
		for (int i = 0; i < P::MT; i++) {
			least_next(&best[i][e / 2], b - 2.f * c[i][j][e], at);
			c[i][j][e] = 0;
		}
	}
}

static __device__ inline struct least least_of_lane(const struct least *l, int mask)
{
	struct least o;

	for (int i = 0; i < 3; i++)
		o.price[i] = __shfl_xor_sync(0xffffffffu, l->price[i], mask);
	for (int i = 0; i < 2; i++)
		o.at[i] = __shfl_xor_sync(0xffffffffu, l->at[i], mask);
	return o;
}

/* Merge the least prices of a row over the four lanes and then, in order, over the warps that share it, and store the candidates. */
template <class P>
static __device__ inline void candidates_set(const struct nearest &p, int64_t row, struct least best[P::MT][2], struct least *shared, int my_row)
{
	const int warp = (int)threadIdx.x / WARP, lane = warp_lane();

	UNROLL
	for (int i = 0; i < 2 * P::MT; i++) {
		struct least l = best[i / 2][i % 2], o = least_of_lane(&l, 1);

		least_join(&l, &o);
		o = least_of_lane(&l, 2);
		least_join(&l, &o);
		if (lane % 4 == 0)
			shared[warp % P::WARPS_N * ROWS + my_row + i / 2 * 16 + i % 2 * 8 + lane / 4] = l;
	}
	__syncthreads();
	if (threadIdx.x < ROWS && row + threadIdx.x < p.n) {
		struct least l = shared[threadIdx.x];
		struct candidate c;

		for (int w = 1; w < P::WARPS_N; w++)
			least_join(&l, &shared[w * ROWS + threadIdx.x]);
		c.first = l.at[0];
		c.second = l.at[1];
		c.gap = l.price[1] - l.price[0];
		c.wide = l.price[2] - l.price[0];
		p.candidate[row + threadIdx.x] = c;
	}
}

template <class P> static __global__ void __launch_bounds__(THREADS) nearest_tiles(struct nearest p)
{
	SHARED_BYTES(memory);
	uint16_t *stages = (uint16_t *)memory;
	const int warp = (int)threadIdx.x / WARP, my_row = warp / P::WARPS_N * P::MT * 16, my_col = warp % P::WARPS_N * P::NT * 8;
	const int64_t row = (int64_t)blockIdx.x * ROWS;
	const int padded = (int)p.c.padded, depth = (int)p.c.depth;
	float c[P::MT][P::NT][4];
	struct least best[P::MT][2];
	int stage = 0;

	UNROLL
	for (int i = 0; i < P::MT; i++) {
		least_none(&best[i][0]);
		least_none(&best[i][1]);
		UNROLL
		for (int j = 0; j < P::NT; j++)
			UNROLL
		for (int e = 0; e < 4; e++)
			c[i][j][e] = 0;
	}
	tiles_load<P>(stages, p, row, 0, 0);
	for (int col = 0; col < padded; col += P::BN) {
		for (int k = 0; k < depth; k += DEPTH, stage ^= 1) {
			int last = k + DEPTH >= depth;

			copy_wait();
			__syncthreads();
			if (!last || col + P::BN < padded)
				tiles_load<P>(stages + (stage ^ 1) * P::STAGE, p, row, last ? col + P::BN : col, last ? 0 : k + DEPTH);
			tiles_multiply<P>(c, stages + stage * P::STAGE, my_row, my_col);
		}
		tiles_price<P>(best, c, p.c.base, col + my_col);
	}
	__syncthreads();
	candidates_set<P>(p, row, best, (struct least *)memory, my_row);
}

/* |x - c|^2 and |x|^2 of a row, in every lane of the warp. */
static __device__ inline float warp_distance2(const float *x, const float *c, int64_t d, int packed, float *length)
{
	float sum = 0, own = 0;

	if (packed)
		for (int64_t i = warp_lane() * 4; i < d; i += WARP * 4) {
			float4 a = *(const float4 *)WIDE(x + i), b = *(const float4 *)WIDE(c + i);
			float u = a.x - b.x, v = a.y - b.y, w = a.z - b.z, z = a.w - b.w;

			sum += (u * u + v * v) + (w * w + z * z);
			own += (a.x * a.x + a.y * a.y) + (a.z * a.z + a.w * a.w);
		}
	else
		for (int64_t i = warp_lane(); i < d; i += WARP) {
			float u = x[i] - c[i];

			sum += u * u;
			own += x[i] * x[i];
		}
	for (int step = WARP / 2; step; step /= 2) {
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
		own += __shfl_xor_sync(0xffffffffu, own, step);
	}
	*length = own;
	return sum;
}

struct choice {
	int32_t at;
	float near, price;
};

static __device__ inline struct choice choice_of(const struct nearest &p, int64_t i, int32_t at, float *length)
{
	struct choice o;

	o.at = at;
	o.near = warp_distance2(p.x.x + i * p.d, p.c.x + at * p.d, p.d, p.packed, length);
	o.price = o.near + (p.offset ? p.offset[at] : 0.f);
	return o;
}

static __device__ inline struct choice cheaper(struct choice a, struct choice b)
{
	return b.price < a.price || (b.price == a.price && b.at < a.at) ? b : a;
}

static __device__ inline struct choice choice_of_all(const struct nearest &p, int64_t i)
{
	float length;
	struct choice best = choice_of(p, i, 0, &length);

	for (int64_t k = 1; k < p.k; k++)
		best = cheaper(best, choice_of(p, i, (int32_t)k, &length));
	return best;
}

/* A bound of the error in the difference of two prices. Splitting has a relative error of 2^-17 per factor, and the omitted low low product one of
 * 2^-16; each of the 3 D / 16 additions has an error of at most 2^-22 |x| |c|; a price is then rounded three times. */
static __device__ inline float price_bound(float length, float norm, float offset, int64_t d)
{
	return sqrtf(length) * sqrtf(norm) * (0x1p-13f + (float)d * 0x1p-22f) + (norm + offset) * 0x1p-21f;
}

/* Decide between the candidates: a block per piece, a warp per row. The comparisons are written so that NaN leads to checking all centres. */
static __global__ void nearest_settle(struct nearest p)
{
	__shared__ double sums[BLOCK / WARP];
	const int warp = (int)threadIdx.x / WARP;
	int64_t begin = (int64_t)blockIdx.x * NEAREST_PIECE, end = begin + NEAREST_PIECE < p.n ? begin + NEAREST_PIECE : p.n;
	float norm = 0, offset = 0;
	double sum = 0;

	if (p.candidate) {
		for (int64_t k = threadIdx.x; k < p.k; k += BLOCK) {
			norm = fmaxf(norm, p.c.norm[k]);
			offset = p.offset ? fmaxf(offset, fabsf(p.offset[k])) : 0.f;
		}
		norm = block_max(norm);
		offset = block_max(offset);
	}
	for (int64_t i = begin + warp; i < end; i += BLOCK / WARP) {
		struct choice best;

		if (p.candidate) {
			struct candidate c = p.candidate[i];
			float length, bound;

			best = choice_of(p, i, c.first, &length);
			bound = price_bound(length, norm, offset, p.d);
			if (!(c.wide > bound))
				best = choice_of_all(p, i);
			else if (!(c.gap > bound))
				best = cheaper(best, choice_of(p, i, c.second, &length));
		} else
			best = choice_of_all(p, i);
		if (warp_lane() == 0) {
			if (p.cluster)
				p.cluster[i] = best.at;
			p.near[i] = p.lower && p.near[i] < best.near ? p.near[i] : best.near;
			sum += (double)p.near[i];
		}
	}
	if (warp_lane() == 0)
		sums[warp] = sum;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int w = 1; w < BLOCK / WARP; w++)
			sum += sums[w];
		p.sums[blockIdx.x] = sum;
	}
}

static int64_t round_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static struct halves halves_of(const struct array *a, int64_t rows, void *scratch, size_t *bytes)
{
	struct halves h;

	memset(&h, 0, sizeof h);
	h.x = (const float *)a->data;
	h.rows = a->shape[0];
	h.cols = a->shape[1];
	h.padded = round_up(h.rows, rows);
	h.depth = round_up(h.cols, DEPTH);
	h.packed = h.cols % PACK == 0 && (uintptr_t)a->data % 16 == 0;
	h.high = (uint16_t *)scratch_part(scratch, bytes, h.padded * h.depth * (int64_t)sizeof *h.high);
	h.low = (uint16_t *)scratch_part(scratch, bytes, h.padded * h.depth * (int64_t)sizeof *h.low);
	return h;
}

typedef tile_shape<256, 2> wide_tiles;
typedef tile_shape<64, 4> narrow_tiles;

/* Whether there are few enough centres for the narrow tile. */
static int is_narrow(int64_t k)
{
	return k <= narrow_tiles::BN;
}

static struct nearest nearest_of(const struct op_call *c, void *scratch, size_t *bytes)
{
	const struct array *x = &c->in[0], *centres = &c->in[1];
	struct nearest p;

	memset(&p, 0, sizeof p);
	p.n = x->shape[0];
	p.d = x->shape[1];
	p.k = centres->shape[0];
	p.packed = p.d % 4 == 0 && (uintptr_t)x->data % 16 == 0 && (uintptr_t)centres->data % 16 == 0;
	p.lower = c->attr.nearest.lower;
	p.offset = (const float *)c->in[2].data;
	p.cluster = (int32_t *)c->out[0].data;
	p.near = (float *)c->out[1].data;
	p.sums = (double *)c->out[2].data;
	p.x.x = (const float *)x->data;
	p.c.x = (const float *)centres->data;
	if (p.k <= DIRECT)
		return p;
	p.x = halves_of(x, ROWS, scratch, bytes);
	p.c = halves_of(centres, is_narrow(p.k) ? narrow_tiles::BN : wide_tiles::BN, scratch, bytes);
	p.c.offset = p.offset;
	p.c.norm = (float *)scratch_part(scratch, bytes, p.c.padded * (int64_t)sizeof *p.c.norm);
	p.c.base = (float *)scratch_part(scratch, bytes, p.c.padded * (int64_t)sizeof *p.c.base);
	p.candidate = (struct candidate *)scratch_part(scratch, bytes, p.n * (int64_t)sizeof *p.candidate);
	return p;
}

static void nearest_run(const struct op_call *c)
{
	size_t bytes = 0;
	struct nearest p = nearest_of(c, c->scratch, &bytes);
	unsigned tiles = (unsigned)((p.n + ROWS - 1) / ROWS);

	if (!p.n)
		return;
	if (p.k > DIRECT) {
		LAUNCH(c, split_rows, blocks_for(p.c.padded * WARP), BLOCK, p.c);
		LAUNCH(c, split_rows, blocks_for(p.x.padded * WARP), BLOCK, p.x);
		if (is_narrow(p.k))
			LAUNCH_SHARED(c, nearest_tiles<narrow_tiles>, tiles, THREADS, narrow_tiles::BYTES, p);
		else
			LAUNCH_SHARED(c, nearest_tiles<wide_tiles>, tiles, THREADS, wide_tiles::BYTES, p);
	}
	LAUNCH(c, nearest_settle, (unsigned)((p.n + NEAREST_PIECE - 1) / NEAREST_PIECE), BLOCK, p);
}

static size_t nearest_scratch(const struct op_call *c, int)
{
	size_t bytes = 0;

	nearest_of(c, NULL, &bytes);
	return bytes;
}

extern "C" {
extern const struct kernel kernel_nearest_cuda = {nearest_run, nearest_scratch};
}
