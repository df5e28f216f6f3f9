/* A general kernel for matrix products: tiles of C are in registers, tiles of A and B pass through shared memory. It is used for products that
 * cuBLASLt cannot do, and as a reference in tests. */
#include "kernels/unary.h"

extern "C" {
#include "kernels/gemm.h"
#include "kernels/product.h"
}

enum { TILE = 64, DEPTH = 16, EACH = 4, PITCH = TILE + 4 };
static const int64_t MOST_Z = 65535;
static_assert((TILE / EACH) * (TILE / EACH) == (int)BLOCK && (int)GEMM_KC % (int)DEPTH == 0, "a thread holds EACH x EACH elements of a tile");

struct tiles {
	struct reals a, b, c, aux, pre, bias, sums;
	int64_t m, n, k, row_a, depth_a, depth_b, col_b, ldc, ldaux, ldpre, batch_a, batch_b, batch_c;
	float alpha;
	int act;
};

static __device__ inline float element_of(struct reals x, int64_t at, bool there)
{
	return there ? reals_get(x, at) : 0.f;
}

/* Load a tile of op(A) or op(B) as [depth][side]; neighbouring threads read neighbouring addresses. */
static __device__ inline void load_tile(float tile[DEPTH][PITCH], struct reals x, int64_t origin, int64_t side, int64_t sides, int64_t step,
                                        int64_t depth, int64_t depths, int64_t depth_step)
{
	bool along = step == 1 || depth_step != 1;

	for (int e = threadIdx.x; e < TILE * DEPTH; e += BLOCK) {
		int i = along ? e % TILE : e / DEPTH, d = along ? e / TILE : e % DEPTH;

		tile[d][i] = element_of(x, origin + (side + i) * step + (depth + d) * depth_step, side + i < sides && depth + d < depths);
	}
}

static __device__ inline void store_element(const struct tiles *t, int64_t batch, int64_t row, int64_t col, float z)
{
	if (row >= t->m || col >= t->n)
		return;
	if (t->bias.p)
		z += reals_get(t->bias, col);
	if (t->aux.p)
		reals_set(t->aux, row * t->ldaux + col, z);
	z = t->pre.p ? unary_slope_apply(t->act, z, reals_get(t->pre, row * t->ldpre + col)) : unary_apply(t->act, z);
	reals_set(t->c, batch * t->batch_c + row * t->ldc + col, z);
}

static __device__ inline void add_chunk(float total[EACH][EACH], float part[EACH][EACH], float alpha)
{
	UNROLL
	for (int i = 0; i < EACH; i++)
		UNROLL
	for (int j = 0; j < EACH; j++) {
		total[i][j] = __fadd_rn(total[i][j], __fmul_rn(alpha, part[i][j]));
		part[i][j] = 0.f;
	}
}

static __global__ void __launch_bounds__(BLOCK) tiles_kernel(struct tiles t, int64_t first_batch)
{
	__shared__ float a[DEPTH][PITCH], b[DEPTH][PITCH];
	int64_t row = (int64_t)blockIdx.x * TILE, col = (int64_t)blockIdx.y * TILE, batch = first_batch + blockIdx.z;
	int i0 = threadIdx.x / (TILE / EACH) * EACH, j0 = threadIdx.x % (TILE / EACH) * EACH;
	bool sums = t.sums.p && !blockIdx.y && threadIdx.x < TILE;
	float total[EACH][EACH] = {{0.f}}, part[EACH][EACH] = {{0.f}}, sum = 0.f, sum_part = 0.f;

	for (int64_t k = 0; k < t.k; k += DEPTH) {
		load_tile(a, t.a, batch * t.batch_a, row, t.m, t.row_a, k, t.k, t.depth_a);
		load_tile(b, t.b, batch * t.batch_b, col, t.n, t.col_b, k, t.k, t.depth_b);
		__syncthreads();
		for (int d = 0; d < DEPTH; d++)
			UNROLL
		for (int i = 0; i < EACH; i++)
			UNROLL
		for (int j = 0; j < EACH; j++)
			part[i][j] = fmaf(a[d][i0 + i], b[d][j0 + j], part[i][j]);
		for (int d = 0; sums && d < DEPTH; d++)
			sum_part += a[d][threadIdx.x];
		if ((k + DEPTH) % GEMM_KC == 0 || k + DEPTH >= t.k) {
			add_chunk(total, part, t.alpha);
			sum += sum_part;
			sum_part = 0.f;
		}
		__syncthreads();
	}
	UNROLL
	for (int i = 0; i < EACH; i++)
		UNROLL
	for (int j = 0; j < EACH; j++)
		store_element(&t, batch, row + i0 + i, col + j0 + j, total[i][j]);
	if (sums && row + threadIdx.x < t.m)
		reals_set(t.sums, row + threadIdx.x, sum);
}

static struct reals vector_of(const struct product_vector *v)
{
	struct reals r = {v->p, v->dtype == DT_BF16};

	return r;
}

static struct reals matrix_of(const struct product_matrix *x)
{
	struct reals r = {x->p, x->dtype == DT_BF16};

	return r;
}

extern "C" void product_tiles(const struct op_call *c, const struct product *p)
{
	struct tiles t = {matrix_of(&p->a),
	                  matrix_of(&p->b),
	                  matrix_of(&p->c),
	                  matrix_of(&p->aux),
	                  matrix_of(&p->pre),
	                  vector_of(&p->bias),
	                  vector_of(&p->sums),
	                  p->m,
	                  p->n,
	                  p->alpha == 0 && !p->sums.p ? 0 : p->k,
	                  p->ta ? 1 : p->a.ld,
	                  p->ta ? p->a.ld : 1,
	                  p->tb ? 1 : p->b.ld,
	                  p->tb ? p->b.ld : 1,
	                  p->c.ld,
	                  p->aux.ld,
	                  p->pre.ld,
	                  p->a.batch,
	                  p->b.batch,
	                  p->c.batch,
	                  p->alpha,
	                  p->act};

	for (int64_t first = 0; p->m > 0 && p->n > 0 && first < p->count; first += MOST_Z) {
		int64_t z = p->count - first < MOST_Z ? p->count - first : MOST_Z;

		LAUNCH(c, tiles_kernel, dim3((unsigned)((p->m + TILE - 1) / TILE), (unsigned)((p->n + TILE - 1) / TILE), (unsigned)z), BLOCK, t,
		       first);
	}
}
