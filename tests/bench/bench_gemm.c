/* bench_gemm [threads [width]]: the products of a DiT's linear layers against this machine's multiply-add peak. TSV: name, value,
 * unit, fraction of peak. Best of several. One thread is timed by its CPU clock, which bears with other processes; for more, the
 * machine must be quiet. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/pool.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"

enum kind { FORWARD, DX, DW };

static const char *const kind_name[] = {"NT", "dX", "dW"};

struct layer {
	const char *name;
	int64_t n, k; /* multiples of the width */
};

static const struct layer layers[] = {{"qkv", 3, 1}, {"proj", 1, 1}, {"fc1", 4, 1}, {"fc2", 1, 4}};

static const struct {
	int64_t rows, width;
} sizes[] = {{2048, 384}, {8192, 384}, {8192, 192}, {8192, 128}, {8192, 96}, {2048, 96}, {64, 384}, {8, 384}};

struct bench {
	struct pool *pool;
	double peak;
	float *x, *y, *w; /* (rows, K), (rows, N), (N, K) */
	void *scratch;
	size_t scratch_bytes;
};

static struct gemm product(enum kind kind, int64_t rows, int64_t n, int64_t k)
{
	switch (kind) {
	case FORWARD:
		return (struct gemm){.ta = GEMM_N, .tb = GEMM_T, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n};
	case DX:
		return (struct gemm){.ta = GEMM_N, .tb = GEMM_N, .m = rows, .n = k, .k = n, .lda = n, .ldb = k, .ldc = k};
	default:
		return (struct gemm){.ta = GEMM_T, .tb = GEMM_N, .m = n, .n = k, .k = rows, .lda = n, .ldb = k, .ldc = k};
	}
}

static void once(struct bench *b, enum kind kind, const struct gemm *g)
{
	float *const c[] = {b->y, b->x, b->w}, *const in[][2] = {{b->x, b->w}, {b->y, b->w}, {b->y, b->x}};

	gemm_run_f32(b->pool, g, c[kind], in[kind][0], in[kind][1], NULL, b->scratch);
}

static double now(const struct bench *b)
{
	struct timespec t;

	if (pool_threads(b->pool) > 1)
		return clock_seconds();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best time of calls filling about .3 s, and at least five. */
static double seconds(struct bench *b, enum kind kind, const struct gemm *g)
{
	double best = 1e9, end = now(b) + .2;

	for (int i = 0; i < 5 || now(b) < end; i++) {
		double t = now(b);

		once(b, kind, g);
		t = now(b) - t;
		if (t < best)
			best = t;
	}
	return best;
}

static void bench_size(struct bench *b, int64_t rows, int64_t width)
{
	for (enum kind kind = FORWARD; kind <= DW; kind++) {
		double flops = 0, time = 0;

		for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
			struct gemm g = product(kind, rows, layers[i].n * width, layers[i].k * width);
			double f = 2.0 * (double)g.m * (double)g.n * (double)g.k, t;

			if (gemm_scratch_f32(&g, pool_threads(b->pool)) > b->scratch_bytes)
				abort();
			t = seconds(b, kind, &g);
			flops += f;
			time += t;
			printf("%s-%s-m%lld-h%lld\t%.1f\tGFLOP/s\t%.3f\n", kind_name[kind], layers[i].name, (long long)rows,
			       (long long)width, f / t * 1e-9, f / t / b->peak);
		}
		printf("%s-all-m%lld-h%lld\t%.1f\tGFLOP/s\t%.3f\n", kind_name[kind], (long long)rows, (long long)width,
		       flops / time * 1e-9, flops / time / b->peak);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	enum { FLOATS = 8192 * 4 * 384 };
	struct bench b = {.scratch_bytes = 64u << 20};
	struct err e = {0};

	b.pool = pool_new(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, &e);
	b.x = mem_try(FLOATS, sizeof *b.x, "bench", &e);
	b.y = mem_try(FLOATS, sizeof *b.y, "bench", &e);
	b.w = mem_try(4 * 384 * 384, sizeof *b.w, "bench", &e);
	b.scratch = mem_try(b.scratch_bytes, 1, "bench", &e);
	if (e.code) {
		fprintf(stderr, "%s\n", e.msg);
		return e.code;
	}
	for (int64_t i = 0; i < FLOATS; i++)
		b.x[i] = b.y[i] = (float)(i % 17) * .01f - .08f;
	for (int64_t i = 0; i < 4 * 384 * 384; i++)
		b.w[i] = (float)(i % 13) * .01f - .06f;
	b.peak = peak_fma_flops(b.pool);
	printf("#name\tvalue\tunit\tfraction\npeak-fma\t%.1f\tGFLOP/s\t1.000\n", b.peak * 1e-9);
	printf("peak-gemm\t%.1f\tGFLOP/s\t%.3f\n", peak_gemm_flops(b.pool) * 1e-9, peak_gemm_flops(b.pool) / b.peak);
	printf("copy\t%.1f\tGB/s\t\n", peak_copy_bytes(b.pool) * 1e-9);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (argc < 3 || sizes[i].width == strtol(argv[2], NULL, 10))
			bench_size(&b, sizes[i].rows, sizes[i].width);
	mem_free(b.scratch);
	mem_free(b.w);
	mem_free(b.y);
	mem_free(b.x);
	pool_free(b.pool);
	return 0;
}
