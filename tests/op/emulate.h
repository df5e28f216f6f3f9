/* Runs CUDA kernels on the host, for tests. The .cu files are compiled as ordinary C++ after this header.
 *
 * The threads of a block are fibers. They run one after the other, each until it ends or reaches a barrier: __syncthreads for the block, a shuffle
 * for the warp. If not every thread reaches a barrier, this is reported and the program aborts. __shared__ is static memory, so one block runs at a
 * time. In every second block the threads run in reverse order, to detect kernels that depend on their order. The emulation cannot show races
 * between barriers, the GPU's own arithmetic (such as its expf), or speed. */
#ifndef DDM_TESTS_EMULATE_H
#define DDM_TESTS_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define DDM_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};

struct alignas(16) float4 {
	float x, y, z, w;
};

struct alignas(16) uint4 {
	unsigned x, y, z, w;
};

struct alignas(8) uint2 {
	unsigned x, y;
};

static inline uint2 make_uint2(unsigned x, unsigned y)
{
	return uint2{x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
	return float4{x, y, z, w};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
	return uint4{x, y, z, w};
}

template <class T> static inline T *emulated_wide(T *p)
{
	if ((uintptr_t)p % 16) {
		fprintf(stderr, "emulated kernel: an access of 16 bytes at %p\n", (const void *)p);
		abort();
	}
	return p;
}

static inline float __fmul_rn(float a, float b)
{
	return a * b;
}

static inline float __fadd_rn(float a, float b)
{
	return a + b;
}

/* The size of a stack is not a power of two, so that the stacks begin in different sets of the cache. */
enum { EMULATED_WARP = 32, EMULATED_THREADS = 1024, EMULATED_GRID = 65535 /* blocks in y and z */, EMULATED_STACK = (64 << 10) + 11 * 64 };

enum emulated_state { EMULATED_READY, EMULATED_AT_BLOCK, EMULATED_AT_WARP, EMULATED_DONE };

struct emulated_thread {
	void *jump[5];
	char *stack;
	ucontext_t *context; /* until its first run */
	enum emulated_state state;
	dim3 index;
	unsigned long long word; /* the value for the other threads of the warp */
};

inline dim3 gridDim, blockDim, blockIdx, threadIdx;
inline emulated_thread emulated[EMULATED_THREADS];
inline emulated_thread *emulated_now;
inline void *emulated_scheduler[5];
inline void (*emulated_call)(void *);
inline void *emulated_body;

/* Jumps are used because swapcontext makes a system call for the signal mask at each switch. __builtin_longjmp must not be in the same function as
 * its __builtin_setjmp, so none of these functions may be inlined. */
static __attribute__((noinline, noreturn, unused)) void emulated_jump(void **to)
{
	__builtin_longjmp(to, 1);
}

static inline __attribute__((noinline)) void emulated_wait(emulated_state at)
{
	emulated_now->state = at;
	if (!__builtin_setjmp(emulated_now->jump))
		emulated_jump(emulated_scheduler);
}

static inline __attribute__((noinline)) void emulated_resume(emulated_thread *t)
{
	emulated_now = t;
	threadIdx = t->index;
	if (__builtin_setjmp(emulated_scheduler))
		return;
	if (t->context)
		setcontext(t->context);
	emulated_jump(t->jump);
}

static inline void __syncthreads(void)
{
	emulated_wait(EMULATED_AT_BLOCK);
}

static inline void __syncwarp(unsigned = 0xffffffffu)
{
	emulated_wait(EMULATED_AT_WARP);
}

/* Every lane provides v and returns the value of lane `from`, or its own if there is no such lane. */
template <class T> static inline T emulated_shuffle(T v, int from)
{
	int me = (int)(emulated_now - emulated), warp = me / EMULATED_WARP * EMULATED_WARP, lanes = (int)(blockDim.x * blockDim.y * blockDim.z);
	T got = v;

	static_assert(sizeof v <= sizeof emulated_now->word, "a shuffle moves at most eight bytes");
	memcpy(&emulated_now->word, &v, sizeof v);
	emulated_wait(EMULATED_AT_WARP);
	if (from >= 0 && from < EMULATED_WARP && warp + from < lanes)
		memcpy(&got, &emulated[warp + from].word, sizeof got);
	emulated_wait(EMULATED_AT_WARP);
	return got;
}

static inline int emulated_lane(void)
{
	return (int)(emulated_now - emulated) % EMULATED_WARP;
}

template <class T> static inline T __shfl_down_sync(unsigned, T v, unsigned step, int = EMULATED_WARP)
{
	return emulated_shuffle(v, emulated_lane() + (int)step);
}

template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask, int = EMULATED_WARP)
{
	return emulated_shuffle(v, emulated_lane() ^ mask);
}

template <class T> static inline T __shfl_sync(unsigned, T v, int lane, int = EMULATED_WARP)
{
	return emulated_shuffle(v, lane);
}

static inline unsigned __ballot_sync(unsigned, int holds)
{
	int me = (int)(emulated_now - emulated), warp = me / EMULATED_WARP * EMULATED_WARP, lanes = (int)(blockDim.x * blockDim.y * blockDim.z);
	unsigned bits = 0;

	emulated_now->word = holds != 0;
	emulated_wait(EMULATED_AT_WARP);
	for (int i = 0; i < EMULATED_WARP && warp + i < lanes; i++)
		bits |= (unsigned)emulated[warp + i].word << i;
	emulated_wait(EMULATED_AT_WARP);
	return bits;
}

template <class T> static inline unsigned __match_any_sync(unsigned, T v)
{
	int me = (int)(emulated_now - emulated), warp = me / EMULATED_WARP * EMULATED_WARP, lanes = (int)(blockDim.x * blockDim.y * blockDim.z);
	unsigned bits = 0;

	static_assert(sizeof v <= sizeof emulated_now->word, "at most eight bytes are compared");
	emulated_now->word = 0;
	memcpy(&emulated_now->word, &v, sizeof v);
	emulated_wait(EMULATED_AT_WARP);
	for (int i = 0; i < EMULATED_WARP && warp + i < lanes; i++)
		bits |= (unsigned)(emulated[warp + i].word == emulated_now->word) << i;
	emulated_wait(EMULATED_AT_WARP);
	return bits;
}

static inline int __popc(unsigned bits)
{
	return __builtin_popcount(bits);
}

static inline int __ffs(int bits)
{
	return __builtin_ffs(bits);
}

/* The body of a fiber. Fibers are reused for the next block. */
static inline void emulated_main(void)
{
	free(emulated_now->context);
	emulated_now->context = NULL;
	for (;;) {
		emulated_call(emulated_body);
		emulated_wait(EMULATED_DONE);
	}
}

static inline void emulated_start(emulated_thread *t, unsigned i)
{
	if (!t->stack) {
		t->stack = (char *)malloc(EMULATED_STACK);
		t->context = (ucontext_t *)malloc(sizeof *t->context);
		getcontext(t->context);
		t->context->uc_stack.ss_sp = t->stack;
		t->context->uc_stack.ss_size = EMULATED_STACK;
		t->context->uc_link = NULL;
		makecontext(t->context, emulated_main, 0);
	}
	t->state = EMULATED_READY;
	t->index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y));
}

/* If all threads [from, to) wait at `at`, make them ready and return 1. */
static inline int emulated_release(unsigned from, unsigned to, emulated_state at)
{
	for (unsigned i = from; i < to; i++)
		if (emulated[i].state != at)
			return 0;
	for (unsigned i = from; i < to; i++)
		emulated[i].state = EMULATED_READY;
	return 1;
}

static inline void emulated_block(unsigned n, int backwards)
{
	for (unsigned i = 0; i < n; i++)
		emulated_start(&emulated[i], i);
	for (;;) {
		unsigned done = 0, moved = 0;

		for (unsigned k = 0; k < n; k++) {
			emulated_thread *t = &emulated[backwards ? n - 1 - k : k];

			if (t->state == EMULATED_READY)
				emulated_resume(t);
		}
		for (unsigned w = 0; w < n; w += EMULATED_WARP)
			moved += emulated_release(w, w + EMULATED_WARP < n ? w + EMULATED_WARP : n, EMULATED_AT_WARP);
		if (!moved)
			moved += emulated_release(0, n, EMULATED_AT_BLOCK);
		for (unsigned i = 0; i < n; i++)
			done += emulated[i].state == EMULATED_DONE;
		if (done == n)
			return;
		if (!moved) {
			fprintf(stderr, "emulated kernel: a barrier that not every thread reaches\n");
			abort();
		}
	}
}

/* Run all blocks of a launch, one after the other. */
template <class F> static inline void emulate(dim3 grid, dim3 block, F body)
{
	unsigned n = block.x * block.y * block.z;

	if (!n || n > EMULATED_THREADS || !grid.x || !grid.y || !grid.z || grid.y > EMULATED_GRID || grid.z > EMULATED_GRID) {
		fprintf(stderr, "emulated kernel: a launch of %u x %u x %u blocks of %u threads\n", grid.x, grid.y, grid.z, n);
		abort();
	}
	gridDim = grid;
	blockDim = block;
	emulated_body = &body;
	emulated_call = [](void *f) { (*(F *)f)(); };
	for (unsigned z = 0; z < grid.z; z++)
		for (unsigned y = 0; y < grid.y; y++)
			for (unsigned x = 0; x < grid.x; x++) {
				blockIdx = dim3(x, y, z);
				emulated_block(n, (x + y + z) % 2);
			}
	emulated_body = NULL;
}

/* Queues a launch, to run later, for calls on the device of tests/op/fakecuda.c; returns 0 for other devices. If a program does not define it or it
 * returns 0, the launch runs at once. */
struct op_call;
extern "C" __attribute__((weak)) int fake_cuda_queue(const struct op_call *c, void (*run)(void *body), void *body);

template <class F> static inline void emulated_later(const struct op_call *c, F body)
{
	F *kept = fake_cuda_queue ? (F *)malloc(sizeof body) : NULL;

	if (!kept) {
		body();
		return;
	}
	memcpy((void *)kept, (const void *)&body, sizeof body); /* captures are plain data */
	if (!fake_cuda_queue(
		c, [](void *f) { (*(F *)f)(); }, kept)) {
		body();
		free(kept);
	}
}

/* Arguments are copied at the launch, as on a GPU. */
template <class K, class... A> static inline void emulated_launch(const struct op_call *c, dim3 grid, dim3 block, K kernel, A... a)
{
	emulated_later(c, [=] { emulate(grid, block, [=] { kernel(a...); }); });
}

#endif
