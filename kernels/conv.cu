/* CONV, CONV_DX, CONV_DW on tensor cores; kernels/conv.c is the reference. Each is a matrix product with an implicit operand of patches, which
 * a tile reads from the image (implicit GEMM). A 1 x 1 convolution is a plain matrix product and left to cuBLASLt. On an `invariant` device it is
 * the other way round: product_rows is a 1 x 1 convolution by this kernel.
 *
 *	forward  y (pixels, O)          = patches (pixels, taps C) w (O, taps C)^T
 *	input    dx (pixels, C)         = shares (pixels, taps O)  w (taps O, C), transposed while it is read
 *	weights  dw (O, taps C)         = dy (pixels, O)^T         patches (pixels, taps C)
 *
 * The shares of an input pixel are the elements of dy whose patches contain it. A block owns a tile of the result and streams the operands in
 * steps of DEPTH through two stages of shared memory. An element is summed in the same order for every tile shape. The long sum of the weight
 * gradient is divided by shape into parts, which are added in order. */
#include "kernels/mma.h"
#include "kernels/unary.h"

extern "C" {
#include "kernels/product.h"
}

enum conv_kind { FORWARD, INPUT, WEIGHTS };
enum { DEPTH = 32, BLOCKS_WANTED = 512, PART_LEAST = 1024 };

/* A warp owns 32 columns of MT times 16 rows. */
template <class REAL, int BM_, int BN_, int WARPS_M> struct tile_shape {
	typedef REAL T;
	static constexpr int BM = BM_, BN = BN_, MT = BM / WARPS_M / 16, THREADS = WARPS_M * (BN / 32) * WARP;
	static constexpr int WORD = 16 / sizeof(T);
};

/* Images (B, H, W, C), read as rows of (tap, channel). */
struct picture {
	struct reals a;
	int packed; /* channels are stored in the tiles' type, 16-byte aligned, in multiples of 16 bytes */
	int64_t sample, row, pixel, h, w;
	struct divider c;
};

/* A matrix with row stride ld. */
struct plain {
	struct reals a;
	int packed;
	int64_t ld;
};

struct conv {
	int64_t m, n, k;
	struct picture x;        /* the image that patches or shares are read from */
	struct plain other;      /* w, or dy in the weight gradient */
	struct divider area, wo; /* pixels and width of the image whose pixels the rows of patches or shares belong to */
	struct divider kw, step;
	int64_t stride, top, left, taps;
	struct reals y, bias, add, pre;
	int64_t ldy, ldadd, ldpre;
	int act;
	float *part; /* (parts, m, n) when parts > 1 */
	int64_t parts, chunk;
};

/* The offset in x of element `at` of the patch of output pixel `row`; -1: outside the image. */
static __device__ inline int64_t patch_at(const struct conv &p, uint32_t row, uint32_t at)
{
	uint32_t o, ox, ch, kx, b = divide_rest(p.area, row, &o), oy = divide_rest(p.wo, o, &ox);
	uint32_t ky = divide_rest(p.kw, divide_rest(p.x.c, at, &ch), &kx);
	int64_t y = oy * p.stride - p.top + ky, x = ox * p.stride - p.left + kx;

	if (y < 0 || y >= p.x.h || x < 0 || x >= p.x.w)
		return -1;
	return b * p.x.sample + y * p.x.row + x * p.x.pixel + ch;
}

/* The offset in dy of element `at` (tap, output channel) of the shares of input pixel `row`; -1: no output uses the pixel with this tap. */
static __device__ inline int64_t share_at(const struct conv &p, uint32_t row, uint32_t at)
{
	uint32_t o, ox, ch, kx, b = divide_rest(p.area, row, &o), oy = divide_rest(p.wo, o, &ox), odd_y, odd_x;
	uint32_t ky = divide_rest(p.kw, divide_rest(p.x.c, at, &ch), &kx);
	int64_t top = oy + p.top - ky, left = ox + p.left - kx, y, x;

	if (top < 0 || left < 0)
		return -1;
	y = divide_rest(p.step, (uint32_t)top, &odd_y);
	x = divide_rest(p.step, (uint32_t)left, &odd_x);
	if (odd_y || odd_x || y >= p.x.h || x >= p.x.w)
		return -1;
	return b * p.x.sample + y * p.x.row + x * p.x.pixel + ch;
}

/* The offset of element `at` of row (tap, o) in w, which is stored as (O, taps, C). */
static __device__ inline int64_t transposed_at(const struct conv &p, uint32_t row, uint32_t at)
{
	uint32_t o, tap = divide_rest(p.x.c, row, &o);

	return (o * p.taps + tap) * p.n + at;
}

enum source { PATCHES, SHARES, TRANSPOSED, PLAIN };

template <int SOURCE> static __device__ inline int64_t source_at(const struct conv &p, int64_t row, int64_t at)
{
	return SOURCE == PATCHES      ? patch_at(p, (uint32_t)row, (uint32_t)at)
	       : SOURCE == SHARES     ? share_at(p, (uint32_t)row, (uint32_t)at)
	       : SOURCE == TRANSPOSED ? transposed_at(p, (uint32_t)row, (uint32_t)at)
	                              : row * p.other.ld + at;
}

static __device__ inline void element_set(float *to, float v)
{
	*to = v;
}

static __device__ inline void element_set(uint16_t *to, float v)
{
	*to = bf16_store(v);
}

/* Copy rows [row, row + ROWS) and columns [col, col + COLS) into a tile, with zeros from `rows` and `cols` on. Complete after copy_wait and
 * a barrier. */
template <class P, int SOURCE, int ROWS, int COLS>
static __device__ inline void source_load(typename P::T *tile, const struct conv &p, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
	constexpr int WORDS = COLS / P::WORD, PITCH = COLS + 8;
	const struct reals a = SOURCE <= SHARES ? p.x.a : p.other.a;
	const int packed = SOURCE <= SHARES ? p.x.packed : p.other.packed;

	for (int i = (int)threadIdx.x; i < ROWS * WORDS; i += P::THREADS) {
		int r = i / WORDS, c = i % WORDS * P::WORD;
		typename P::T *to = tile + r * PITCH + c;

		if (packed) {
			int64_t at = row + r < rows && col + c < cols ? source_at<SOURCE>(p, row + r, col + c) : -1;

			copy_async(to, (const typename P::T *)a.p + (at < 0 ? 0 : at), at >= 0);
		} else
			for (int k = 0; k < P::WORD; k++) {
				int64_t at = row + r < rows && col + c + k < cols ? source_at<SOURCE>(p, row + r, col + c + k) : -1;

				element_set(&to[k], at < 0 ? 0.f : reals_get(a, at));
			}
	}
}

/* Shapes of the two operands' tiles; the dimension that is summed over may be their rows or their columns. */
template <class P, int KIND> struct operands {
	static constexpr int LEFT_ROWS = KIND == WEIGHTS ? DEPTH : P::BM, LEFT_COLS = KIND == WEIGHTS ? P::BM : DEPTH;
	static constexpr int RIGHT_ROWS = KIND == FORWARD ? P::BN : DEPTH, RIGHT_COLS = KIND == FORWARD ? DEPTH : P::BN;
	static constexpr int LEFT = LEFT_ROWS * (LEFT_COLS + 8), RIGHT = RIGHT_ROWS * (RIGHT_COLS + 8);
	static_assert(2 * (LEFT + RIGHT) * sizeof(typename P::T) <= 48 << 10, "more shared memory than a launch has");
};

template <class P, int KIND>
static __device__ inline void operands_load(typename P::T *left, typename P::T *right, const struct conv &p, int64_t row, int64_t col, int64_t k,
                                            int64_t end)
{
	if (KIND == FORWARD) {
		source_load<P, PATCHES, P::BM, DEPTH>(left, p, row, p.m, k, end);
		source_load<P, PLAIN, P::BN, DEPTH>(right, p, col, p.n, k, end);
	} else if (KIND == INPUT) {
		source_load<P, SHARES, P::BM, DEPTH>(left, p, row, p.m, k, end);
		source_load<P, TRANSPOSED, DEPTH, P::BN>(right, p, k, end, col, p.n);
	} else {
		source_load<P, PLAIN, DEPTH, P::BM>(left, p, k, end, row, p.m);
		source_load<P, PATCHES, DEPTH, P::BN>(right, p, k, end, col, p.n);
	}
}

/* c += the warp's rows of left times its columns of right. */
template <class P, int KIND>
static __device__ inline void tiles_multiply(float c[P::MT][4][4], const typename P::T *left, const typename P::T *right, int row, int col)
{
	constexpr int LP = operands<P, KIND>::LEFT_COLS + 8, RP = operands<P, KIND>::RIGHT_COLS + 8;

	UNROLL
	for (int k = 0; k < DEPTH; k += 16) {
		frag_a<typename P::T> f[P::MT];

		UNROLL
		for (int i = 0; i < P::MT; i++)
			if (KIND == WEIGHTS)
				frag_load_transposed(&f[i], left + k * LP + row + 16 * i, LP);
			else
				frag_load(&f[i], left + (row + 16 * i) * LP + k, LP);
		UNROLL
		for (int n = 0; n < 32; n += 16) {
			frag_b<typename P::T> g[2];

			if (KIND == FORWARD)
				frag_load_rows(g, right + (col + n) * RP + k, RP);
			else
				frag_load_columns(g, right + k * RP + col + n, RP);
			UNROLL
			for (int i = 0; i < P::MT; i++) {
				mma(c[i][n / 8], f[i], g[0]);
				mma(c[i][n / 8 + 1], f[i], g[1]);
			}
		}
	}
}

static __device__ inline void result_set(const struct conv &p, int64_t row, int64_t col, float z)
{
	if (row >= p.m || col >= p.n)
		return;
	if (p.parts > 1) {
		p.part[(blockIdx.z * p.m + row) * p.n + col] = z;
		return;
	}
	if (p.bias.p)
		z += reals_get(p.bias, col);
	if (p.add.p)
		z += reals_get(p.add, row * p.ldadd + col);
	if (p.pre.p)
		reals_set(p.pre, row * p.ldpre + col, z);
	reals_set(p.y, row * p.ldy + col, unary_apply(p.act, z));
}

template <class P, int KIND> static __global__ void __launch_bounds__(P::THREADS) conv_tiles(struct conv p)
{
	typedef typename P::T T;
	alignas(16) __shared__ T left[2][operands<P, KIND>::LEFT];
	alignas(16) __shared__ T right[2][operands<P, KIND>::RIGHT];
	const int warp = (int)threadIdx.x / WARP, lane = warp_lane(), my_row = warp / (P::BN / 32) * P::MT * 16, my_col = warp % (P::BN / 32) * 32;
	const int64_t row = (int64_t)blockIdx.x * P::BM, col = (int64_t)blockIdx.y * P::BN, first = blockIdx.z * p.chunk;
	const int64_t end = first + p.chunk < p.k ? first + p.chunk : p.k;
	float c[P::MT][4][4];
	int stage = 0;

	UNROLL
	for (int i = 0; i < P::MT; i++)
		UNROLL
	for (int j = 0; j < 4; j++)
		for (int e = 0; e < 4; e++)
			c[i][j][e] = 0;
	operands_load<P, KIND>(left[0], right[0], p, row, col, first, end);
	for (int64_t k = first; k < end; k += DEPTH, stage ^= 1) {
		copy_wait();
		__syncthreads();
		if (k + DEPTH < end)
			operands_load<P, KIND>(left[stage ^ 1], right[stage ^ 1], p, row, col, k + DEPTH, end);
		tiles_multiply<P, KIND>(c, left[stage], right[stage], my_row, my_col);
	}
	UNROLL
	for (int i = 0; i < P::MT; i++)
		UNROLL
	for (int j = 0; j < 4; j++)
		for (int e = 0; e < 4; e++)
			result_set(p, row + my_row + 16 * i + lane / 4 + e / 2 * 8, col + my_col + 8 * j + lane % 4 * 2 + e % 2, c[i][j][e]);
}

static __global__ void add_parts(struct conv p)
{
	for (int64_t i = thread_index(); i < p.m * p.n; i += thread_count()) {
		float sum = 0.f;

		for (int64_t s = 0; s < p.parts; s++)
			sum += p.part[s * p.m * p.n + i];
		reals_set(p.y, i, sum);
	}
}

/* Whether the product is computed in bfloat16: if any array is bfloat16, float operands are rounded. */
static int in_bf16(const struct op_call *c)
{
	return c->in[0].dtype == DT_BF16 || c->in[1].dtype == DT_BF16 || c->out[0].dtype == DT_BF16;
}

static int64_t row_stride(const struct array *a)
{
	int64_t stride = a->shape[a->rank - 1];

	array_row_stride(a, &stride);
	return array_rows(a) == 1 ? a->shape[a->rank - 1] : stride;
}

static int words(const void *p, enum dtype t, int bf16, int64_t run)
{
	return (t == DT_BF16) == bf16 && run % (bf16 ? 8 : 4) == 0 && (uintptr_t)p % 16 == 0;
}

static struct picture picture_of(const struct array *x, int bf16)
{
	struct picture p = {reals_of(x),  words(x->data, x->dtype, bf16, x->shape[3]),
	                    x->stride[0], x->stride[1],
	                    x->stride[2], x->shape[1],
	                    x->shape[2],  divider_of(x->shape[3])};

	for (int d = 0; d < 3; d++)
		if (x->shape[d] > 1 && x->stride[d] % (bf16 ? 8 : 4))
			p.packed = 0;
	return p;
}

static struct plain plain_of(const struct array *a, int64_t ld, int64_t run, int bf16)
{
	struct plain p = {reals_of(a), words(a->data, a->dtype, bf16, run) && ld % (bf16 ? 8 : 4) == 0, ld};

	return p;
}

/* over: the array whose pixels the rows of patches or shares belong to. */
static struct conv conv_of(const struct op_call *c, const struct array *x, const struct array *w, const struct array *over)
{
	struct conv p;

	memset(&p, 0, sizeof p);
	p.x = picture_of(x, in_bf16(c));
	p.area = divider_of(over->shape[1] * over->shape[2]);
	p.wo = divider_of(over->shape[2]);
	p.kw = divider_of(w->shape[2]);
	p.stride = c->attr.conv.stride;
	p.step = divider_of(p.stride);
	p.top = c->attr.conv.top;
	p.left = c->attr.conv.left;
	p.taps = w->shape[1] * w->shape[2];
	p.y = reals_of(&c->out[0]);
	p.parts = 1;
	return p;
}

/* Divide a long sum with a small result into parts, so that there are enough blocks for a large GPU. */
static void cut_sum(struct conv *p)
{
	int64_t tiles = ((p->m + 63) / 64) * ((p->n + 63) / 64), parts = BLOCKS_WANTED / tiles, most = p->k / PART_LEAST;

	parts = parts < most ? parts : most;
	p->parts = parts > 1 ? parts : 1;
	p->chunk = ((p->k + p->parts - 1) / p->parts + DEPTH - 1) / DEPTH * DEPTH;
	p->parts = p->k ? (p->k + p->chunk - 1) / p->chunk : 1;
}

template <class P, int KIND> static void launch(const struct op_call *c, const struct conv &p)
{
	dim3 grid((unsigned)((p.m + P::BM - 1) / P::BM), (unsigned)((p.n + P::BN - 1) / P::BN), (unsigned)p.parts);

	LAUNCH(c, (conv_tiles<P, KIND>), grid, P::THREADS, p);
}

/* Whether to use large tiles, which read less, if there are enough of them. On an `invariant` device the choice must not depend on the number of
 * rows, because the compiled code of the two tile sizes may round an activation differently. */
static int wants_large(const struct op_call *c, const struct conv *p)
{
	if (c->device && c->device->invariant)
		return p->n >= 128;
	return (p->m / 128) * (p->n / 128) * p->parts >= BLOCKS_WANTED / 4;
}

template <int KIND> static void run_tiles(const struct op_call *c, struct conv *p)
{
	if (KIND != WEIGHTS)
		p->chunk = p->k;
	if (!p->m || !p->n)
		return;
	if (!in_bf16(c))
		launch<tile_shape<float, 64, 64, 2>, KIND>(c, *p);
	else if (wants_large(c, p))
		launch<tile_shape<uint16_t, 128, 128, 2>, KIND>(c, *p);
	else
		launch<tile_shape<uint16_t, 64, 64, 2>, KIND>(c, *p);
}

/* Whether each patch is one pixel and the pixels are rows at one stride, so that x itself is the matrix of patches. */
static int is_plain(const struct op_call *c, const struct array *x, const struct array *w, const struct array *y)
{
	int64_t stride;

	return w->shape[1] * w->shape[2] == 1 && c->attr.conv.stride == 1 && !c->attr.conv.top && !c->attr.conv.left && y->shape[1] == x->shape[1] &&
	       y->shape[2] == x->shape[2] && array_row_stride(x, &stride) && array_row_stride(y, &stride);
}

static struct product_matrix matrix_of(const struct array *a, int64_t ld)
{
	struct product_matrix x = {a->data, a->dtype, ld, 0};

	return x;
}

static int present(const struct array *a, int n, int i)
{
	return i < n && a[i].rank;
}

static struct product_vector vector_of(const struct array *a, int n, int i)
{
	struct product_vector v = {present(a, n, i) ? a[i].data : NULL, present(a, n, i) ? a[i].dtype : DT_F32};

	return v;
}

/* The matrix product of a convolution for which is_plain holds. */
static struct product product_of(const struct op_call *c, int kind)
{
	const struct array *y = &c->out[0], *a = &c->in[0], *b = &c->in[1];
	struct product p;

	memset(&p, 0, sizeof p);
	p.ta = kind == WEIGHTS;
	p.tb = kind == FORWARD;
	p.m = kind == WEIGHTS ? y->shape[0] : array_rows(y);
	p.n = kind == FORWARD ? b->shape[0] : y->shape[3];
	p.k = kind == WEIGHTS ? array_rows(a) : a->shape[3];
	p.count = 1;
	p.alpha = 1;
	p.a = matrix_of(a, row_stride(a));
	p.b = matrix_of(b, kind == WEIGHTS ? row_stride(b) : b->shape[3]);
	p.c = matrix_of(y, kind == WEIGHTS ? y->shape[3] : row_stride(y));
	return p;
}

static struct product forward_product(const struct op_call *c)
{
	struct product p = product_of(c, FORWARD);

	p.bias = vector_of(c->in, c->nin, 2);
	p.act = c->attr.conv.act;
	if (present(c->out, c->nout, 1))
		p.aux = matrix_of(&c->out[1], row_stride(&c->out[1]));
	return p;
}

static int forward_is_product(const struct op_call *c)
{
	return is_plain(c, &c->in[0], &c->in[1], &c->out[0]) && !present(c->in, c->nin, 3);
}

static struct reals optional(const struct array *a, int n, int i, int64_t *ld)
{
	struct reals none = {NULL, 0};

	if (!present(a, n, i))
		return none;
	if (ld)
		*ld = row_stride(&a[i]);
	return reals_of(&a[i]);
}

static void conv_run(const struct op_call *c)
{
	const struct array *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
	struct product product = forward_product(c);
	struct conv p;

	if (forward_is_product(c)) {
		product_rows(c, &product);
		return;
	}
	p = conv_of(c, x, w, y);
	p.m = array_rows(y);
	p.n = w->shape[0];
	p.k = p.taps * w->shape[3];
	p.other = plain_of(w, p.k, w->shape[3], in_bf16(c));
	p.ldy = row_stride(y);
	p.bias = optional(c->in, c->nin, 2, NULL);
	p.add = optional(c->in, c->nin, 3, &p.ldadd);
	p.pre = optional(c->out, c->nout, 1, &p.ldpre);
	p.act = c->attr.conv.act;
	run_tiles<FORWARD>(c, &p);
}

static size_t conv_scratch(const struct op_call *c, int)
{
	struct product p = forward_product(c);

	return forward_is_product(c) ? product_scratch(&p) : 0;
}

static struct reals matrix_reals(const struct product_matrix *x)
{
	struct reals r = {x->p, x->dtype == DT_BF16};

	return r;
}

/* A convolution of one image with a single row of pixels; each pixel is a row of A. */
extern "C" void product_pixels(const struct op_call *c, const struct product *p)
{
	const int bf16 = in_bf16(c), pack = bf16 ? 8 : 4;
	const struct product_matrix *a = &p->a, *b = &p->b;
	struct conv q;

	memset(&q, 0, sizeof q);
	q.m = p->m;
	q.n = p->n;
	q.k = p->k;
	q.x.a = matrix_reals(a);
	q.x.packed = words(a->p, a->dtype, bf16, p->k) && a->ld % pack == 0;
	q.x.pixel = a->ld;
	q.x.h = 1;
	q.x.w = p->m;
	q.x.c = divider_of(p->k);
	q.other.a = matrix_reals(b);
	q.other.packed = words(b->p, b->dtype, bf16, p->k) && b->ld % pack == 0;
	q.other.ld = b->ld;
	q.area = q.wo = divider_of(p->m);
	q.kw = q.step = divider_of(1);
	q.stride = q.taps = q.parts = 1;
	q.y = matrix_reals(&p->c);
	q.ldy = p->c.ld;
	q.bias.p = p->bias.p;
	q.bias.bf16 = p->bias.dtype == DT_BF16;
	q.pre = matrix_reals(&p->aux);
	q.ldpre = p->aux.ld;
	q.act = p->act;
	run_tiles<FORWARD>(c, &q);
}

static void conv_dx_run(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *w = &c->in[1], *dx = &c->out[0];
	struct product product = product_of(c, INPUT);
	struct conv p;

	if (is_plain(c, dy, w, dx)) {
		product_run(c, &product);
		return;
	}
	p = conv_of(c, dy, w, dx);
	p.m = array_rows(dx);
	p.n = w->shape[3];
	p.k = p.taps * w->shape[0];
	p.other = plain_of(w, p.n, p.n, in_bf16(c));
	p.ldy = row_stride(dx);
	run_tiles<INPUT>(c, &p);
}

static size_t conv_dx_scratch(const struct op_call *c, int)
{
	struct product p = product_of(c, INPUT);

	return is_plain(c, &c->in[0], &c->in[1], &c->out[0]) ? product_scratch(&p) : 0;
}

static struct conv weight_gradient(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *x = &c->in[1], *dw = &c->out[0];
	struct conv p = conv_of(c, x, dw, dy);

	p.m = dw->shape[0];
	p.n = p.taps * dw->shape[3];
	p.k = array_rows(dy);
	p.other = plain_of(dy, row_stride(dy), dw->shape[0], in_bf16(c));
	p.ldy = p.n;
	cut_sum(&p);
	return p;
}

static struct product weight_product(const struct op_call *c)
{
	struct product p = product_of(c, WEIGHTS);

	p.sums = vector_of(c->out, c->nout, 1);
	return p;
}

static void conv_dw_run(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *x = &c->in[1], *dw = &c->out[0];
	struct product product = weight_product(c);
	struct conv p = weight_gradient(c);

	if (is_plain(c, x, dw, dy)) {
		product_run(c, &product);
		return;
	}
	p.part = (float *)c->scratch;
	run_tiles<WEIGHTS>(c, &p);
	if (p.parts > 1)
		LAUNCH(c, add_parts, blocks_for(p.m * p.n), BLOCK, p);
	if (product.sums.p)
		product_sums(c, &product, c->scratch);
}

static size_t conv_dw_scratch(const struct op_call *c, int)
{
	struct product product = weight_product(c);
	struct conv p = weight_gradient(c);
	size_t sums = product_sums_scratch(&product), parts = (size_t)(BLOCKS_WANTED * 64 * 64) * sizeof(float), all;

	if (is_plain(c, &c->in[1], &c->out[0], &c->in[0]))
		return product_scratch(&product);
	all = (size_t)(p.m * p.n) * sizeof(float) * (size_t)(p.k / PART_LEAST);
	parts = all < parts ? all : parts;
	return parts > sums ? parts : sums;
}

extern "C" {
extern const struct kernel kernel_conv_cuda = {conv_run, conv_scratch};
extern const struct kernel kernel_conv_dx_cuda = {conv_dx_run, conv_dx_scratch};
extern const struct kernel kernel_conv_dw_cuda = {conv_dw_run, conv_dw_scratch};
}
