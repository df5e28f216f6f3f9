/* Runs matrix products by cuBLASLt or by kernels of this project, with kernels for the conversions and epilogues that cuBLASLt lacks. */
#include "kernels/unary.h"

extern "C" {
#include "kernels/cublaslt.h"
#include "kernels/product.h"
}

/* Column sums in two passes: strips of rows, then the strips in order. */
static const int64_t STRIPS = 64, STRIP_ROWS = 256;

static size_t round64(size_t n)
{
	return (n + 63) / 64 * 64;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Whether the product is computed in bfloat16. cuBLASLt needs operands of one type, so if any array is bfloat16, float operands are rounded. */
static bool in_bf16(const struct product *p)
{
	return p->a.dtype == DT_BF16 || p->b.dtype == DT_BF16 || p->c.dtype == DT_BF16;
}

/* The conversion of A, B or bias to bfloat16 in scratch: rows x cols, contiguous. */
struct rounding {
	struct reals from;
	uint16_t *to;
	int64_t rows, cols, ld;
};

static bool rounds(const struct product *p, const struct product_matrix *x)
{
	return in_bf16(p) && x->dtype == DT_F32 && p->count == 1;
}

static struct rounding rounding_of(struct product_matrix *x, int64_t rows, int64_t cols, char **scratch)
{
	struct rounding r = {{x->p, 0}, (uint16_t *)*scratch, rows, cols, x->ld};

	x->p = *scratch;
	x->ld = cols;
	x->dtype = DT_BF16;
	*scratch += round64((size_t)(rows * cols) * sizeof(uint16_t));
	return r;
}

static __global__ void round_rows(struct rounding r0, struct rounding r1, struct rounding r2)
{
	int64_t n0 = r0.rows * r0.cols, n1 = n0 + r1.rows * r1.cols, n2 = n1 + r2.rows * r2.cols;

	for (int64_t i = thread_index(); i < n2; i += thread_count()) {
		struct rounding r = i < n0 ? r0 : i < n1 ? r1 : r2;
		int64_t k = i < n0 ? i : i < n1 ? i - n0 : i - n1;

		r.to[k] = bf16_store(reals_get(r.from, k / r.cols * r.ld + k % r.cols));
	}
}

/* The same, PACK elements at a time. */
static __global__ void round_packs(struct rounding r0, struct rounding r1, struct rounding r2)
{
	int64_t n0 = r0.rows * r0.cols, n1 = n0 + r1.rows * r1.cols, n2 = n1 + r2.rows * r2.cols;

	for (int64_t i = thread_index() * PACK; i < n2; i += thread_count() * PACK) {
		struct rounding r = i < n0 ? r0 : i < n1 ? r1 : r2;
		int64_t k = i < n0 ? i : i < n1 ? i - n0 : i - n1;
		const struct reals to = {r.to, 1};
		float v[PACK];

		reals_get8(r.from, k / r.cols * r.ld + k % r.cols, v);
		reals_set8(to, k, v);
	}
}

/* Whether rows at this distance can be accessed PACK elements at a time; true if there are none. */
static bool packs(const void *p, int64_t cols, int64_t ld)
{
	return !p || (cols % PACK == 0 && ld % PACK == 0 && (uintptr_t)p % 16 == 0);
}

/* Change p to what cuBLASLt supports: float operands beside bfloat16 are rounded into scratch. */
static void round_operands(const struct op_call *c, struct product *p, char *scratch)
{
	struct rounding r[3];
	struct product_matrix bias = {p->bias.p, p->bias.dtype, p->n, 0};
	bool a = rounds(p, &p->a), b = rounds(p, &p->b), v = p->bias.p && p->c.dtype == DT_BF16 && p->bias.dtype == DT_F32;
	bool whole = true;
	int64_t n = 0;

	memset(r, 0, sizeof r);
	if (a)
		r[0] = rounding_of(&p->a, p->ta ? p->k : p->m, p->ta ? p->m : p->k, &scratch);
	if (b)
		r[1] = rounding_of(&p->b, p->tb ? p->n : p->k, p->tb ? p->k : p->n, &scratch);
	if (v)
		r[2] = rounding_of(&bias, 1, p->n, &scratch);
	p->bias.p = bias.p;
	p->bias.dtype = bias.dtype;
	for (int i = 0; i < 3; i++) {
		n += r[i].rows * r[i].cols;
		whole &= packs(r[i].from.p, r[i].cols, r[i].ld);
	}
	if (n && whole)
		LAUNCH(c, round_packs, blocks_for(n / PACK), BLOCK, r[0], r[1], r[2]);
	else if (n)
		LAUNCH(c, round_rows, blocks_for(n), BLOCK, r[0], r[1], r[2]);
}

static size_t rounded_bytes(const struct product *p)
{
	size_t bytes = round64((size_t)p->n * sizeof(uint16_t));

	if (rounds(p, &p->a))
		bytes += round64((size_t)(p->m * p->k) * sizeof(uint16_t));
	if (rounds(p, &p->b))
		bytes += round64((size_t)(p->n * p->k) * sizeof(uint16_t));
	return bytes;
}

extern "C" size_t product_sums_scratch(const struct product *p)
{
	return (size_t)(p->m * STRIPS) * sizeof(float);
}

extern "C" size_t product_scratch(const struct product *p)
{
	size_t sums = p->ta ? product_sums_scratch(p) : 0;

	return rounded_bytes(p) + CUBLASLT_ALIGN + larger(cublaslt_workspace(p), sums);
}

static char *workspace_from(char *p)
{
	return p + (CUBLASLT_ALIGN - (uintptr_t)p % CUBLASLT_ALIGN) % CUBLASLT_ALIGN;
}

/* y = act(z + bias) and aux = z + bias, or y = z act'(pre). p NULL: no bias, aux or pre. */
static __global__ void finish_rows(struct product p, struct product_matrix from, struct reals z, struct reals y, struct reals aux, struct reals bias)
{
	struct reals pre = {p.pre.p, p.pre.dtype == DT_BF16};

	for (int64_t i = thread_index(); i < p.m * p.n; i += thread_count()) {
		int64_t row = i / p.n, col = i % p.n;
		float v = reals_get(z, row * from.ld + col);

		if (bias.p)
			v += reals_get(bias, col);
		if (aux.p)
			reals_set(aux, row * p.aux.ld + col, v);
		v = pre.p ? unary_slope_apply(p.act, v, reals_get(pre, row * p.pre.ld + col)) : unary_apply(p.act, v);
		reals_set(y, row * p.c.ld + col, v);
	}
}

/* The same, PACK elements at a time; packs_by divides by the packs of a row, if there are few enough for a divider, else its `by` is 0. */
static __global__ void finish_packs(struct product p, struct product_matrix from, struct reals z, struct reals y, struct reals aux, struct reals bias,
                                    struct divider packs_by)
{
	struct reals pre = {p.pre.p, p.pre.dtype == DT_BF16};
	int64_t cols = p.n / PACK;

	for (int64_t i = thread_index(); i < p.m * cols; i += thread_count()) {
		int64_t row = packs_by.by ? divide(packs_by, (uint32_t)i) : i / cols, col = (i - row * cols) * PACK;
		float v[PACK], b[PACK];

		reals_get8(z, row * from.ld + col, v);
		if (bias.p) {
			reals_get8(bias, col, b);
			for (int k = 0; k < PACK; k++)
				v[k] += b[k];
		}
		if (aux.p)
			reals_set8(aux, row * p.aux.ld + col, v);
		if (pre.p)
			reals_get8(pre, row * p.pre.ld + col, b);
		for (int k = 0; k < PACK; k++)
			v[k] = pre.p ? unary_slope_apply(p.act, v[k], b[k]) : unary_apply(p.act, v[k]);
		reals_set8(y, row * p.c.ld + col, v);
	}
}

/* Each warp of a block sums every LANES-th row of the strip, PACK columns per thread; the block adds the warps' sums in order. */
template <int BF16>
static __global__ void __launch_bounds__(BLOCK) strip_packs(void *from, int64_t rows, int64_t cols, int64_t ld, int64_t strip, float *part)
{
	enum { LANES = BLOCK / WARP, AHEAD = 4 /* rows at a time, so that their loads overlap */ };
	static_assert((int)BLOCK == (int)WARP * (int)PACK, "a thread adds one column of the warps' sums");
	__shared__ float share[LANES][BLOCK];
	int64_t first = blockIdx.y * strip, end = first + strip < rows ? first + strip : rows, begin = (int64_t)blockIdx.x * BLOCK;
	int64_t col = begin + threadIdx.x % WARP * PACK;
	const struct reals a = {from, BF16};
	int lane = threadIdx.x / WARP;
	float sum[PACK] = {0}, total = 0.f;

	for (int64_t r = first + lane; col < cols && r < end; r += LANES * AHEAD) {
		float v[AHEAD][PACK];

		UNROLL
		for (int i = 0; i < AHEAD; i++)
			reals_get8(a, (r + i * LANES < end ? r + i * LANES : r) * ld + col, v[i]);
		UNROLL
		for (int i = 0; i < AHEAD; i++)
			for (int k = 0; k < PACK; k++)
				sum[k] += r + i * LANES < end ? v[i][k] : 0.f;
	}
	for (int k = 0; k < PACK; k++)
		share[lane][threadIdx.x % WARP * PACK + k] = sum[k];
	__syncthreads();
	for (int i = 0; i < LANES; i++)
		total += share[i][threadIdx.x];
	if (begin + threadIdx.x < cols)
		part[blockIdx.y * cols + begin + threadIdx.x] = total;
}

static __global__ void strip_sums(struct reals a, int64_t rows, int64_t cols, int64_t ld, int64_t strip, float *part)
{
	int64_t col = thread_index(), first = blockIdx.y * strip, end = first + strip < rows ? first + strip : rows;
	float sum = 0.f;

	if (col >= cols)
		return;
	for (int64_t r = first; r < end; r++)
		sum += reals_get(a, r * ld + col);
	part[blockIdx.y * cols + col] = sum;
}

static __global__ void add_strips(struct reals sums, const float *part, int64_t cols, int64_t strips)
{
	int64_t col = thread_index();
	float sum = 0.f;

	if (col >= cols)
		return;
	for (int64_t s = 0; s < strips; s++)
		sum += part[s * cols + col];
	reals_set(sums, col, sum);
}

extern "C" void product_sums(const struct op_call *c, const struct product *p, void *scratch)
{
	float *part = (float *)scratch;
	int64_t strip = (p->k + STRIPS - 1) / STRIPS, strips;
	struct reals a = {p->a.p, p->a.dtype == DT_BF16}, sums = {p->sums.p, p->sums.dtype == DT_BF16};
	unsigned blocks = (unsigned)((p->m + BLOCK - 1) / BLOCK);

	strip = strip < STRIP_ROWS ? STRIP_ROWS : strip;
	strips = (p->k + strip - 1) / strip;
	if (packs(a.p, p->m, p->a.ld) && a.bf16)
		LAUNCH(c, strip_packs<1>, dim3(blocks, (unsigned)strips), BLOCK, a.p, p->k, p->m, p->a.ld, strip, part);
	else if (packs(a.p, p->m, p->a.ld))
		LAUNCH(c, strip_packs<0>, dim3(blocks, (unsigned)strips), BLOCK, a.p, p->k, p->m, p->a.ld, strip, part);
	else
		LAUNCH(c, strip_sums, dim3(blocks, (unsigned)strips), BLOCK, a, p->k, p->m, p->a.ld, strip, part);
	LAUNCH(c, add_strips, blocks, BLOCK, sums, part, p->m, strips);
}

static struct reals reals_at(void *p, enum dtype t)
{
	struct reals r = {p, t == DT_BF16};

	return r;
}

static void finish_values(const struct op_call *c, const struct product *p, const struct product_matrix *from, struct reals aux, struct reals bias)
{
	struct reals z = reals_at(from->p, from->dtype), y = reals_at(p->c.p, p->c.dtype);
	int64_t items = p->m * p->n / PACK;
	struct divider by = divider_of(p->n / PACK && items < INT32_MAX ? p->n / PACK : 1);

	if (items >= INT32_MAX)
		by.by = 0;
	if (packs(z.p, p->n, from->ld) && packs(y.p, p->n, p->c.ld) && packs(aux.p, p->n, p->aux.ld) && packs(bias.p, p->n, 0) &&
	    packs(p->pre.p, p->n, p->pre.ld))
		LAUNCH(c, finish_packs, blocks_for(items), BLOCK, *p, *from, z, y, aux, bias, by);
	else
		LAUNCH(c, finish_rows, blocks_for(p->m * p->n), BLOCK, *p, *from, z, y, aux, bias);
}

/* struct cublaslt_finish: bias, activation or its derivative, and sums in kernels of their own. */
static void finish_product(void *arg, const struct product *asked, const struct product *done, void *workspace)
{
	const struct op_call *c = (const struct op_call *)arg;
	bool biased = asked->bias.p && !done->bias.p, stored = asked->aux.p == done->c.p && !biased;

	if (asked->act || biased || asked->aux.p)
		finish_values(c, asked, &done->c, reals_at(stored ? NULL : asked->aux.p, asked->aux.dtype),
		              reals_at(biased ? asked->bias.p : NULL, asked->bias.dtype));
	if (asked->sums.p)
		product_sums(c, asked, workspace);
}

extern "C" void product_run(const struct op_call *c, const struct product *p)
{
	struct cublaslt *lt = c->device ? c->device->cublaslt : NULL;
	char *scratch = (char *)c->scratch;
	struct cublaslt_finish finish = {finish_product, (void *)c};
	struct product q = *p;

	if (!lt || c->device->invariant || p->m < 1 || p->n < 1 || p->k < 1 || p->alpha == 0) {
		product_tiles(c, p);
		return;
	}
	round_operands(c, &q, scratch);
	scratch = workspace_from(scratch + rounded_bytes(p));
	if (!cublaslt_run(lt, c->stream, &q, &finish, scratch))
		product_tiles(c, p);
}

extern "C" void product_rows(const struct op_call *c, const struct product *p)
{
	if (c->device && c->device->invariant && p->k > 0)
		product_pixels(c, p);
	else
		product_run(c, p);
}
