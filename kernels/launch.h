/* Included by every .cu file: the device's types for C++, kernel launches, and access to float and bfloat16 arrays.
 *
 * Kernels are launched only by LAUNCH. With nvcc it is an ordinary launch. Tests compile the same files as plain C++ with
 * tests/op/emulate.h, which defines DDM_EMULATED and runs the threads of a block one after the other. */
#ifndef DDM_KERNELS_LAUNCH_H
#define DDM_KERNELS_LAUNCH_H

extern "C" {
#include "kernels/device.h"
}

#ifdef DDM_EMULATED
#define UNROLL
#define WIDE(p) emulated_wide(p)
#define LAUNCH(call, kernel, grid, block, ...) \
	emulated_launch( \
	    call, grid, block, [=](auto... launched) { kernel(launched...); }, __VA_ARGS__)
#else
#include <cuda_runtime.h>
#define UNROLL _Pragma("unroll")
#define WIDE(p) (p) /* marks the address of a 16-byte access; tests check its alignment */
/* cuda_stream: the stream of a call. cuda_launched: called after a launch; an error sticks to the device. cuda_shared: allow blocks of the
 * kernel that much dynamic shared memory; -1 if the GPU has less, which sticks to the device too, and the kernel must not be launched. */
cudaStream_t cuda_stream(const struct op_call *c);
void cuda_launched(const struct op_call *c);
int cuda_shared(const struct op_call *c, const void *kernel, size_t bytes);
/* The most dynamic shared memory that cuda_shared allows. */
static inline size_t cuda_shared_limit(const struct op_call *c)
{
	return c->device->shared;
}
#define LAUNCH(call, kernel, grid, block, ...) \
	do { \
		kernel<<<grid, block, 0, cuda_stream(call)>>>(__VA_ARGS__); \
		cuda_launched(call); \
	} while (0)
#endif

#include "kernels/divider.h"

enum { BLOCK = 256, WARP = 32 };

/* Take the next `bytes` of scratch at `base`, after the *at bytes in use. base NULL: only add up the size, and return NULL. */
static inline void *scratch_part(void *base, size_t *at, int64_t bytes)
{
	char *p = base ? (char *)base + *at : NULL;

	*at += ((size_t)bytes + 63) / 64 * 64;
	return p;
}

/* The number of blocks for n threads, limited; kernels loop with the grid's stride, so any n works. */
static inline unsigned blocks_for(int64_t n)
{
	int64_t b = (n + BLOCK - 1) / BLOCK;

	return (unsigned)(b < 1 ? 1 : b > 1 << 20 ? 1 << 20 : b);
}

static __device__ inline int64_t thread_index(void)
{
	return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline int64_t thread_count(void)
{
	return (int64_t)gridDim.x * blockDim.x;
}

/* bfloat16 is the upper half of a float. bf16_store rounds to nearest even; NaN stays NaN. */
static __device__ inline float bf16_load(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static __device__ inline uint16_t bf16_store(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

#ifdef DDM_EMULATED
static inline uint32_t bf16_pair(float low, float high)
{
	return (uint32_t)bf16_store(low) | (uint32_t)bf16_store(high) << 16;
}
#else
/* Round two floats with one instruction. Same results as bf16_store, except for the bits of a NaN. */
static __device__ inline uint32_t bf16_pair(float low, float high)
{
	uint32_t u;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
	return u;
}
#endif

/* An array in a kernel: float or bfloat16, by a flag that is uniform over the launch. */
struct reals {
	void *p;
	int bf16;
};

static inline struct reals reals_of(const struct array *a)
{
	struct reals r = {a->data, a->dtype == DT_BF16};

	return r;
}

static __device__ inline float reals_get(struct reals a, int64_t i)
{
	return a.bf16 ? bf16_load(((const uint16_t *)a.p)[i]) : ((const float *)a.p)[i];
}

static __device__ inline void reals_set(struct reals a, int64_t i, float v)
{
	if (a.bf16)
		((uint16_t *)a.p)[i] = bf16_store(v);
	else
		((float *)a.p)[i] = v;
}

/* Access PACK consecutive elements in units of 16 bytes; the address must be aligned to 16 bytes. */
enum { PACK = 8 };

static __device__ inline void reals_get8(struct reals a, int64_t i, float v[PACK])
{
	if (a.bf16) {
		uint4 w = *(const uint4 *)WIDE((const uint16_t *)a.p + i);
		uint32_t u[4] = {w.x, w.y, w.z, w.w};

		for (int k = 0; k < PACK; k++)
			v[k] = bf16_load((uint16_t)(u[k / 2] >> 16 * (k % 2)));
	} else {
		const float4 *p = (const float4 *)WIDE((const float *)a.p + i);
		float4 x = p[0], y = p[1];

		v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
		v[4] = y.x, v[5] = y.y, v[6] = y.z, v[7] = y.w;
	}
}

static __device__ inline void reals_set8(struct reals a, int64_t i, const float v[PACK])
{
	if (a.bf16) {
		uint32_t u[4];

		for (int k = 0; k < 4; k++)
			u[k] = bf16_pair(v[2 * k], v[2 * k + 1]);
		*(uint4 *)WIDE((uint16_t *)a.p + i) = make_uint4(u[0], u[1], u[2], u[3]);
	} else {
		float4 *p = (float4 *)WIDE((float *)a.p + i);

		p[0] = make_float4(v[0], v[1], v[2], v[3]);
		p[1] = make_float4(v[4], v[5], v[6], v[7]);
	}
}

struct sum_of {
	template <class T> __device__ T operator()(T a, T b) const
	{
		return a + b;
	}
};

struct max_of {
	template <class T> __device__ T operator()(T a, T b) const
	{
		return a > b ? a : b;
	}
};

/* Reduce v by f over a block of BLOCK threads in a fixed order: within warps, then over the warps. Every thread must call it and receives the
 * result. */
template <class F, class T> static __device__ inline T block_fold(F f, T v)
{
	__shared__ T warp[BLOCK / WARP];

	for (int step = WARP / 2; step; step /= 2)
		v = f(v, __shfl_down_sync(0xffffffffu, v, step));
	__syncthreads(); /* wait until the last call's values have been read */
	if (threadIdx.x % WARP == 0)
		warp[threadIdx.x / WARP] = v;
	__syncthreads();
	v = warp[0];
	for (int w = 1; w < BLOCK / WARP; w++)
		v = f(v, warp[w]);
	return v;
}

template <class T> static __device__ inline T block_sum(T v)
{
	return block_fold(sum_of(), v);
}

template <class T> static __device__ inline T block_max(T v)
{
	return block_fold(max_of(), v);
}

/* Several arrays of one shape, with neighbouring dimensions merged if every array allows it. Dimensions of size 1 have strides of 0. */
struct strided {
	int rank, arrays, narrow; /* narrow: indices fit a divider */
	int64_t count, shape[ARRAY_RANK], stride[4][ARRAY_RANK];
	struct divider size[ARRAY_RANK];
};

static inline int strided_joins(const struct strided *s, int d)
{
	for (int a = 0; a < s->arrays; a++)
		if (s->stride[a][d] != s->stride[a][d + 1] * s->shape[d + 1])
			return 0;
	return 1;
}

static inline void strided_drop(struct strided *s, int d)
{
	s->rank--;
	for (int i = d; i < s->rank; i++) {
		s->shape[i] = s->shape[i + 1];
		for (int a = 0; a < s->arrays; a++)
			s->stride[a][i] = s->stride[a][i + 1];
	}
}

/* Merge dimensions, after shapes and strides are set. */
static inline void strided_merge(struct strided *s)
{
	for (int d = s->rank - 1; d >= 0 && s->rank > 1; d--)
		if (s->shape[d] == 1)
			strided_drop(s, d);
	for (int d = s->rank - 2; d >= 0; d--)
		if (strided_joins(s, d)) {
			s->shape[d + 1] *= s->shape[d];
			strided_drop(s, d);
		}
	s->count = 1;
	for (int d = 0; d < s->rank; d++)
		s->count *= s->shape[d];
	s->narrow = s->count < INT32_MAX;
	for (int d = 0; d < s->rank && s->narrow && s->count; d++)
		s->size[d] = divider_of(s->shape[d]);
}

static inline struct strided strided_of(const struct array *like, const struct array *const *arrays, int n)
{
	struct strided s;

	memset(&s, 0, sizeof s);
	s.rank = like->rank ? like->rank : 1;
	s.arrays = n;
	s.shape[0] = 1;
	for (int d = 0; d < like->rank; d++) {
		s.shape[d] = like->shape[d];
		for (int a = 0; a < n; a++)
			s.stride[a][d] = arrays[a]->shape[d] == 1 ? 0 : arrays[a]->stride[d];
	}
	strided_merge(&s);
	return s;
}

/* Compute the offsets of element i in the first N arrays. N is a template parameter so that the offsets stay in registers; the compiler removes
 * unused ones. */
template <int N> static __device__ inline void strided_at(const struct strided *s, int64_t i, int64_t (&offset)[N])
{
	for (int a = 0; a < N; a++)
		offset[a] = 0;
	for (int d = s->rank - 1; d > 0; d--) {
		int64_t q = s->narrow ? divide(s->size[d], (uint32_t)i) : i / s->shape[d], k = i - q * s->shape[d];

		i = q;
		for (int a = 0; a < N; a++)
			offset[a] += k * s->stride[a][d];
	}
	for (int a = 0; a < N; a++)
		offset[a] += i * s->stride[a][0];
}

/* Whether elements can be accessed PACK at a time: rows are whole packs, contiguous and 16-byte aligned in every array. An array may instead
 * be constant along rows (stride 0). */
static inline int strided_packs(const struct strided *s, const struct array *const *arrays)
{
	int last = s->rank - 1;

	if (s->shape[last] % PACK)
		return 0;
	for (int a = 0; a < s->arrays; a++) {
		if (s->stride[a][last] > 1 || (uintptr_t)arrays[a]->data % 16)
			return 0;
		for (int d = 0; d < last; d++)
			if (s->stride[a][last] && s->stride[a][d] % PACK)
				return 0;
	}
	return 1;
}

#endif
