/* Measures the machine's fastest multiply-adds, matrix product and copy. */
#include "kernels/peak.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "kernels/device.h"
#include "kernels/gemm.h"
#include "kernels/gemm_bf16.h"
#include "kernels/simd.h"

enum { CHAINS = 12, LOOPS = 1 << 18, SIDE = 384, PRODUCTS = 2, COPY = 64 << 20, TRIES = 8 };

#define ENOUGH .5 /* seconds */

struct probe {
	char *mem;
	size_t each; /* bytes of mem per task */
	float *sink;
	int bf16; /* of products: numbers rounded to bf16 */
};

static void task_fma(void *arg, int64_t task, int worker)
{
	struct probe *q = arg;
	vreal acc[CHAINS], s = v_splat(0), x = v_splat(0.999f), y = v_splat(1e-3f);

	(void)worker;
	for (int i = 0; i < CHAINS; i++)
		acc[i] = v_splat((float)i);
	for (int k = 0; k < LOOPS; k++)
#pragma GCC unroll 12
		for (int i = 0; i < CHAINS; i++)
			acc[i] = v_fma(acc[i], x, y);
	for (int i = 0; i < CHAINS; i++)
		s += acc[i];
	q->sink[task * VLEN] = s[0];
}

static const struct gemm square = {.tb = GEMM_T, .m = SIDE, .n = SIDE, .k = SIDE, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};

static void task_gemm(void *arg, int64_t task, int worker)
{
	struct probe *q = arg;
	float *a = (float *)(q->mem + (size_t)task * q->each), *b = a + SIDE * SIDE, *c = b + SIDE * SIDE;

	(void)worker;
	for (int i = 0; i < PRODUCTS; i++)
		if (q->bf16)
			gemm_bf16_run(NULL, compact_isa(), &square, 0, c, a, b, NULL, c + SIDE * SIDE);
		else
			gemm_serial_f32(&square, c, a, b, NULL, c + SIDE * SIDE);
}

static void task_copy(void *arg, int64_t task, int worker)
{
	struct probe *q = arg;
	size_t half = q->each / 2;

	(void)worker;
	memcpy(q->mem + (size_t)task * q->each, q->mem + (size_t)task * q->each + half, half);
}

/* Best rate of TRIES runs of one task per thread, each task worth `work`; `each` bytes of memory per task. Fewer runs if they take long. */
static double probe_run(struct pool *p, size_t each, int bf16, double work, void (*fn)(void *, int64_t, int))
{
	int threads = pool_threads(p);
	struct probe q = {.each = each, .bf16 = bf16};
	double best = 0, spent = 0;

	q.sink = mem_zalloc((size_t)threads * VLEN, sizeof *q.sink);
	q.mem = mem_try((size_t)threads, each, "speed probe", NULL);
	for (int i = 0; q.mem && i < TRIES && spent < ENOUGH; i++) {
		double t = clock_seconds();

		pool_spread(p, threads, fn, &q);
		t = clock_seconds() - t;
		spent += t;
		if (work * threads / t > best)
			best = work * threads / t;
	}
	mem_free(q.mem);
	mem_free(q.sink);
	return best;
}

double peak_fma_flops(struct pool *p)
{
	return probe_run(p, 64, 0, 2.0 * CHAINS * VLEN * LOOPS, task_fma);
}

static double product_flops(struct pool *p, int bf16)
{
	size_t scratch = bf16 ? gemm_bf16_scratch(&square, 0, 1) : gemm_scratch_f32(&square, 1);

	return probe_run(p, 3 * SIDE * SIDE * sizeof(float) + scratch, bf16, PRODUCTS * 2.0 * SIDE * SIDE * SIDE, task_gemm);
}

double peak_gemm_flops(struct pool *p)
{
	return product_flops(p, 0);
}

double peak_bf16_flops(struct pool *p)
{
	return product_flops(p, 1);
}

double peak_copy_bytes(struct pool *p)
{
	return probe_run(p, COPY, 0, (double)COPY, task_copy);
}

struct device_peaks device_peaks(struct device *d)
{
	return (struct device_peaks){d->peak_flops ? d->peak_flops(d) : NAN, d->peak_bytes ? d->peak_bytes(d) : NAN};
}
