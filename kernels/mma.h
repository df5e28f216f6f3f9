/* Tensor cores by instructions of compute capability 8.0: products of 16 x 8 x 16, loads of their operands from shared memory, and
 * asynchronous copies into it. The functions from mma_bf16 to copy_wait are one instruction each; tests replace them on the host
 * (tests/op/emulate_mma.h) and compile the rest of this file unchanged.
 *
 * Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "mma.m16n8k8"). With g = lane / 4 and
 * t = lane % 4, lane holds of
 *
 *	C (16, 8)  float    c[2 r + i]  row g + 8 r, column 2 t + i
 *	A (16, 16) bfloat16 a[r + 2 k]  row g + 8 r, columns 8 k + 2 t (lower half) and 8 k + 2 t + 1
 *	B (16, 8)  bfloat16 b[k]        rows 8 k + 2 t (lower half) and 8 k + 2 t + 1, column g
 *	A (16, 8)  bfloat16 a[r]        as A (16, 16) with k = 0; B (8, 8) likewise
 *	A (16, 8)  tf32     a[r + 2 k]  row g + 8 r, column t + 4 k
 *	B (8, 8)   tf32     b[k]        row t + 4 k, column g
 *
 * ldmatrix reads four 8 x 8 matrices of 16-bit elements; lane 8 m + row holds the address of that row of matrix m. A lane receives row g,
 * columns 2 t and 2 t + 1, of each matrix; transposed, rows 2 t and 2 t + 1 of column g. ldmatrix_two reads two, by the addresses of lanes 0 to
 * 15. */
#ifndef DDM_KERNELS_MMA_H
#define DDM_KERNELS_MMA_H

#include "kernels/launch.h"

#ifdef DDM_EMULATED
#define UNROLL
#else
/* Unroll the next loop, which indexes registers. */
#define UNROLL _Pragma("unroll")

/* c (16, 8) += a (16, 16) b (16, 8) */
static __device__ inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* c (16, 8) += a (16, 8) b (8, 8) */
static __device__ inline void mma_bf16_half(float c[4], const uint32_t a[2], uint32_t b)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(b));
}

/* c (16, 8) += a (16, 8) b (8, 8), using the upper 19 bits of a and b. */
static __device__ inline void mma_tf32(float c[4], const float a[4], const float b[2])
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
	               "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

static __device__ inline void ldmatrix(uint32_t x[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}

static __device__ inline void ldmatrix_trans(uint32_t x[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}

static __device__ inline void ldmatrix_two(uint32_t x[2], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
	             : "=r"(x[0]), "=r"(x[1])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}

static __device__ inline void ldmatrix_two_trans(uint32_t x[2], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
	             : "=r"(x[0]), "=r"(x[1])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}

/* 2^x within 2 ulp; results below 2^-126 are 0. */
static __device__ inline float exp2_fast(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* Copy 16 aligned bytes to shared memory, or zeros unless `valid`. Complete after copy_wait and a barrier. */
static __device__ inline void copy_async(void *shared, const void *global, int valid)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global),
	             "r"(valid ? 16 : 0)
	             : "memory");
}

/* Wait until this thread's copies are complete. */
static __device__ inline void copy_wait(void)
{
	asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Declare the dynamic shared memory of a kernel that LAUNCH_SHARED launches; one per kernel. */
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]

#define LAUNCH_SHARED(call, kernel, grid, block, bytes, ...) \
	do { \
		if (cuda_shared(call, (const void *)(kernel), bytes)) \
			break; \
		kernel<<<grid, block, bytes, cuda_stream(call)>>>(__VA_ARGS__); \
		cuda_launched(call); \
	} while (0)
#endif

#ifdef DDM_EMULATED
static inline int opaque(int x)
{
	return x;
}
#else
/* Returns x, but hides its value from the compiler, so that values computed from it are not kept in registers across loop iterations. */
static __device__ inline int opaque(int x)
{
	asm volatile("" : "+r"(x));
	return x;
}
#endif

static __device__ inline int warp_lane(void)
{
	return (int)(threadIdx.x % WARP);
}

/* Operands of a 16 x 8 x 16 product in float or bfloat16. A lane holds the same elements in both, and the elements of A that it holds match
 * those of accumulators, so accumulators can become the next product's A within the lane. */
template <class T> struct frag_a;
template <class T> struct frag_b;
template <> struct frag_a<uint16_t> {
	uint32_t x[4];
};
template <> struct frag_b<uint16_t> {
	uint32_t x[2];
};
template <> struct frag_a<float> {
	float x[8];
}; /* register r of bfloat16 is x[2 r], x[2 r + 1] */
template <> struct frag_b<float> {
	float x[4];
};

/* Load A (16, 16) from a tile that holds its rows. */
static __device__ inline void frag_load(frag_a<uint16_t> *a, const uint16_t *tile, int pitch)
{
	ldmatrix(a->x, tile + warp_lane() % 16 * pitch + warp_lane() / 16 * 8);
}

static __device__ inline void frag_load(frag_a<float> *a, const float *tile, int pitch)
{
	const float *p = tile + warp_lane() / 4 * pitch + warp_lane() % 4 * 2;

	for (int r = 0; r < 4; r++)
		for (int i = 0; i < 2; i++)
			a->x[2 * r + i] = p[r % 2 * 8 * pitch + r / 2 * 8 + i];
}

/* Load A (16, 16) from a tile that holds its transpose. */
static __device__ inline void frag_load_transposed(frag_a<uint16_t> *a, const uint16_t *tile, int pitch)
{
	int lane = warp_lane();

	ldmatrix_trans(a->x, tile + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8);
}

static __device__ inline void frag_load_transposed(frag_a<float> *a, const float *tile, int pitch)
{
	const float *p = tile + warp_lane() % 4 * 2 * pitch + warp_lane() / 4;

	for (int r = 0; r < 4; r++)
		for (int i = 0; i < 2; i++)
			a->x[2 * r + i] = p[(r / 2 * 8 + i) * pitch + r % 2 * 8];
}

/* Load two B (16, 8), for columns 0 to 7 and 8 to 15, from a tile that holds the transpose of B. */
static __device__ inline void frag_load_rows(frag_b<uint16_t> b[2], const uint16_t *tile, int pitch)
{
	int lane = warp_lane();
	uint32_t x[4];

	ldmatrix(x, tile + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8);
	b[0].x[0] = x[0], b[0].x[1] = x[1], b[1].x[0] = x[2], b[1].x[1] = x[3];
}

static __device__ inline void frag_load_rows(frag_b<float> b[2], const float *tile, int pitch)
{
	const float *p = tile + warp_lane() / 4 * pitch + warp_lane() % 4 * 2;

	for (int n = 0; n < 2; n++)
		for (int k = 0; k < 2; k++)
			for (int i = 0; i < 2; i++)
				b[n].x[2 * k + i] = p[n * 8 * pitch + k * 8 + i];
}

/* Load two B (16, 8) from a tile that holds the rows of B. */
static __device__ inline void frag_load_columns(frag_b<uint16_t> b[2], const uint16_t *tile, int pitch)
{
	uint32_t x[4];

	ldmatrix_trans(x, tile + warp_lane() % 16 * pitch + warp_lane() / 16 * 8);
	b[0].x[0] = x[0], b[0].x[1] = x[1], b[1].x[0] = x[2], b[1].x[1] = x[3];
}

static __device__ inline void frag_load_columns(frag_b<float> b[2], const float *tile, int pitch)
{
	const float *p = tile + warp_lane() % 4 * 2 * pitch + warp_lane() / 4;

	for (int n = 0; n < 2; n++)
		for (int k = 0; k < 2; k++)
			for (int i = 0; i < 2; i++)
				b[n].x[2 * k + i] = p[(k * 8 + i) * pitch + n * 8];
}

/* Load one B (16, 8) from a tile that holds its rows. */
static __device__ inline void frag_load_column(frag_b<uint16_t> *b, const uint16_t *tile, int pitch)
{
	ldmatrix_two_trans(b->x, tile + warp_lane() % 16 * pitch);
}

static __device__ inline void frag_load_column(frag_b<float> *b, const float *tile, int pitch)
{
	const float *p = tile + warp_lane() % 4 * 2 * pitch + warp_lane() / 4;

	for (int k = 0; k < 2; k++)
		for (int i = 0; i < 2; i++)
			b->x[2 * k + i] = p[(k * 8 + i) * pitch];
}

/* For mma_half: load A (16, 8) from a tile that holds its rows, and two B (8, 8) from a tile that holds the transpose of B. The rest of the
 * fragments is not set. */
static __device__ inline void frag_load_half(frag_a<uint16_t> *a, const uint16_t *tile, int pitch)
{
	ldmatrix_two(a->x, tile + warp_lane() % 16 * pitch);
}

static __device__ inline void frag_load_half(frag_a<float> *a, const float *tile, int pitch)
{
	const float *p = tile + warp_lane() / 4 * pitch + warp_lane() % 4 * 2;

	for (int r = 0; r < 2; r++)
		for (int i = 0; i < 2; i++)
			a->x[2 * r + i] = p[r * 8 * pitch + i];
}

static __device__ inline void frag_load_rows_half(frag_b<uint16_t> b[2], const uint16_t *tile, int pitch)
{
	uint32_t x[2];

	ldmatrix_two(x, tile + warp_lane() % 16 * pitch);
	b[0].x[0] = x[0], b[1].x[0] = x[1];
}

static __device__ inline void frag_load_rows_half(frag_b<float> b[2], const float *tile, int pitch)
{
	const float *p = tile + warp_lane() / 4 * pitch + warp_lane() % 4 * 2;

	for (int n = 0; n < 2; n++)
		for (int i = 0; i < 2; i++)
			b[n].x[i] = p[n * 8 * pitch + i];
}

/* Make A (16, 16) of two neighbouring accumulators. */
static __device__ inline void frag_of(frag_a<uint16_t> *a, const float left[4], const float right[4])
{
	a->x[0] = bf16_pair(left[0], left[1]), a->x[1] = bf16_pair(left[2], left[3]);
	a->x[2] = bf16_pair(right[0], right[1]), a->x[3] = bf16_pair(right[2], right[3]);
}

static __device__ inline void frag_of(frag_a<float> *a, const float left[4], const float right[4])
{
	for (int i = 0; i < 4; i++)
		a->x[i] = left[i], a->x[4 + i] = right[i];
}

/* c (16, 8) += a (16, 16) b (16, 8) */
static __device__ inline void mma(float c[4], const frag_a<uint16_t> &a, const frag_b<uint16_t> &b)
{
	mma_bf16(c, a.x, b.x);
}

static __device__ inline float tf32_high(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	u &= 0xffffe000u;
	memcpy(&x, &u, sizeof u);
	return x;
}

/* A float is split into two tf32, which loses 2 bits; the product of the low parts is smaller and omitted. The order of k within a product is
 * arbitrary, so columns 2 t and 2 t + 1, which the lane holds, are used as slots t and t + 4 of the instruction. k: which half of the columns. */
static __device__ inline void mma_slots(float c[4], const frag_a<float> &a, const frag_b<float> &b, int k)
{
	float high[4], low[4], b_high[2], b_low[2];

	for (int i = 0; i < 4; i++) {
		float x = a.x[4 * k + i % 2 * 2 + i / 2];

		high[i] = tf32_high(x);
		low[i] = x - high[i];
	}
	for (int i = 0; i < 2; i++) {
		b_high[i] = tf32_high(b.x[2 * k + i]);
		b_low[i] = b.x[2 * k + i] - b_high[i];
	}
	mma_tf32(c, low, b_high);
	mma_tf32(c, high, b_low);
	mma_tf32(c, high, b_high);
}

static __device__ inline void mma(float c[4], const frag_a<float> &a, const frag_b<float> &b)
{
	for (int k = 0; k < 2; k++)
		mma_slots(c, a, b, k);
}

/* c (16, 8) += a (16, 8) b (8, 8): the first 8 columns of a, the first 8 rows of b. */
static __device__ inline void mma_half(float c[4], const frag_a<uint16_t> &a, const frag_b<uint16_t> &b)
{
	mma_bf16_half(c, a.x, b.x[0]);
}

static __device__ inline void mma_half(float c[4], const frag_a<float> &a, const frag_b<float> &b)
{
	mma_slots(c, a, b, 0);
}

#endif
