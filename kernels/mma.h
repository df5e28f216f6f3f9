/* Tensor cores through the instructions of compute capability 8.0: products of 16 x 8 x 16, their operands from shared memory, and
 * copies into it that a thread need not wait for. The functions from mma_bf16 to copy_wait are one instruction each; tests define them
 * on the host (tests/op/emulate_mma.h), the rest of this file is the same there.
 *
 * Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "mma.m16n8k8"). With g = lane / 4 and
 * t = lane % 4, lane holds of
 *
 *	C (16, 8)  float    c[2 r + i]  row g + 8 r, column 2 t + i
 *	A (16, 16) bfloat16 a[r + 2 k]  row g + 8 r, columns 8 k + 2 t (lower half) and 8 k + 2 t + 1
 *	B (16, 8)  bfloat16 b[k]        rows 8 k + 2 t (lower half) and 8 k + 2 t + 1, column g
 *	A (16, 8)  tf32     a[r + 2 k]  row g + 8 r, column t + 4 k
 *	B (8, 8)   tf32     b[k]        row t + 4 k, column g
 *
 * ldmatrix reads four 8 x 8 matrices of 16 bits whose rows begin where lanes 8 m + row point: lane receives of matrix m the row g,
 * columns 2 t and 2 t + 1; transposed, column g of rows 2 t and 2 t + 1. */
#ifndef DDM_KERNELS_MMA_H
#define DDM_KERNELS_MMA_H

#include "kernels/launch.h"

#ifdef DDM_EMULATED
#define UNROLL
#else
/* Before a loop over registers. */
#define UNROLL _Pragma("unroll")

/* c (16, 8) += a (16, 16) b (16, 8) */
static __device__ inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* c (16, 8) += a (16, 8) b (8, 8), of a and b the upper 19 bits. */
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

/* 2^x within 2 ulp; results below 2^-126 are 0. */
static __device__ inline float exp2_fast(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* 16 aligned bytes to shared memory, zeros unless `valid`; there after copy_wait and a barrier. */
static __device__ inline void copy_async(void *shared, const void *global, int valid)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global),
	             "r"(valid ? 16 : 0)
	             : "memory");
}

/* This thread's copies are done. */
static __device__ inline void copy_wait(void)
{
	asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Shared memory of a launch by LAUNCH_SHARED, in bytes; one per kernel. */
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]

#define LAUNCH_SHARED(call, kernel, grid, block, bytes, ...) \
	do { \
		if ((bytes) > 48 << 10) \
			cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)); \
		kernel<<<grid, block, bytes, cuda_stream(call)>>>(__VA_ARGS__); \
		cuda_launched(call); \
	} while (0)
#endif

#ifdef DDM_EMULATED
static inline int anew(int x)
{
	return x;
}
#else
/* x; what is computed from it is not kept in registers from one turn of a loop to the next. */
static __device__ inline int anew(int x)
{
	asm volatile("" : "+r"(x));
	return x;
}
#endif

static __device__ inline int warp_lane(void)
{
	return (int)(threadIdx.x % WARP);
}

/* Operands of a 16 x 8 x 16 product in either storage type: the elements a lane holds are the same, so that accumulators become the
 * next product's A without leaving their lane. */
template <class T> struct frag_a;
template <class T> struct frag_b;
template <> struct frag_a<uint16_t> { uint32_t x[4]; };
template <> struct frag_b<uint16_t> { uint32_t x[2]; };
template <> struct frag_a<float> { float x[8]; }; /* register r of bfloat16 is x[2 r], x[2 r + 1] */
template <> struct frag_b<float> { float x[4]; };

/* A (16, 16) from rows of a tile. */
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

/* A (16, 16) from a tile that holds column k of A in its row k. */
static __device__ inline void frag_load_turned(frag_a<uint16_t> *a, const uint16_t *tile, int pitch)
{
	int lane = warp_lane();

	ldmatrix_trans(a->x, tile + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8);
}

static __device__ inline void frag_load_turned(frag_a<float> *a, const float *tile, int pitch)
{
	const float *p = tile + warp_lane() % 4 * 2 * pitch + warp_lane() / 4;

	for (int r = 0; r < 4; r++)
		for (int i = 0; i < 2; i++)
			a->x[2 * r + i] = p[(r / 2 * 8 + i) * pitch + r % 2 * 8];
}

/* B (16, 8) twice, for columns 0 to 7 and 8 to 15, from a tile that holds column n of B in its row n. */
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

/* The same from a tile that holds row k of B in its row k. */
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

/* A (16, 16) from two neighbouring accumulators. */
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

/* A float is the sum of two tf32 but for 2 bits; the product of the low parts is below those. The order of k within a product is free:
 * slots t and t + 4 of an instruction are columns 2 t and 2 t + 1 here, which is what the lane holds. */
static __device__ inline void mma(float c[4], const frag_a<float> &a, const frag_b<float> &b)
{
	for (int k = 0; k < 2; k++) {
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
}

#endif
