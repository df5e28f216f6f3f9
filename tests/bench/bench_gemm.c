/* bench_gemm [-t THREADS] [-s SECONDS] [PATTERN]: the products of a DiT's linear layers beside the best product in cache. NT:
 * forward (for fc1 also with bias and GELU on its tiles), dX: input gradient, dW: weight gradient. The four layers of a block are weighted
 * by their work; with a pattern each is also measured alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "tests/bench/meter.h"

enum kind { FORWARD, BIAS, GELU, KEPT, DX, DW };

static const char *const kind_name[] = {"NT", "NT + bias", "NT + bias, GELU", "NT + bias, GELU, kept", "dX", "dW"};

static const struct layer {
	const char *name;
	int64_t n, k; /* in multiples of the width */
} layers[] = {{"qkv", 3, 1}, {"proj", 1, 1}, {"fc1", 4, 1}, {"fc2", 1, 4}};

static const struct size {
	int64_t rows, width;
} sizes[] = {{2048, 384}, {8192, 384}, {4096, 192}, {4096, 128}, {4096, 96}, {8192, 96}, {64, 384}, {8, 384}};

enum { FLOATS = 8192 * 4 * 384, WEIGHTS = 4 * 384 * 384, SCRATCH = 64 << 20 };

struct product {
	struct pool *pool;
	enum kind kind;
	struct gemm g;
	struct gemm_epilogue_f32 ep;
	float *c;
	const float *a, *b;
	void *scratch;
};

static float *x, *y, *aux, *w, *bias; /* (rows, K), (rows, N), (rows, N), (N, K), (N) */
static void *scratch;

static struct gemm shape_of(enum kind kind, int64_t rows, int64_t n, int64_t k)
{
	switch (kind) {
	case DX:
		return (struct gemm){.ta = GEMM_N, .tb = GEMM_N, .m = rows, .n = k, .k = n, .lda = n, .ldb = k, .ldc = k};
	case DW:
		return (struct gemm){.ta = GEMM_T, .tb = GEMM_N, .m = n, .n = k, .k = rows, .lda = n, .ldb = k, .ldc = k};
	default:
		return (struct gemm){.ta = GEMM_N, .tb = GEMM_T, .m = rows, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n};
	}
}

static void once(void *arg)
{
	const struct product *p = arg;

	gemm_run_f32(p->pool, &p->g, p->c, p->a, p->b, p->kind >= BIAS && p->kind <= KEPT ? &p->ep : NULL, p->scratch);
}

static struct reading measure(struct bench *b, enum kind kind, int64_t rows, int64_t n, int64_t k, double *seconds, double *flops)
{
	struct product p = {.pool = b->pool, .kind = kind, .g = shape_of(kind, rows, n, k), .scratch = scratch};
	struct duty work = {once, &p, 2. * (double)p.g.m * (double)p.g.n * (double)p.g.k};
	struct reading r;

	if (gemm_scratch_f32(&p.g, pool_threads(b->pool)) > SCRATCH)
		abort();
	p.c = kind == DX ? x : kind == DW ? w : y;
	p.a = kind == DX || kind == DW ? y : x;
	p.b = kind == DW ? x : w;
	if (kind >= BIAS && kind <= KEPT)
		p.ep.bias = bias;
	if (kind == GELU || kind == KEPT)
		p.ep.act = GEMM_GELU;
	if (kind == KEPT) {
		p.ep.aux = aux;
		p.ep.ldaux = n;
	}
	r = bench_read(b, &work, yard_product(b), .02, .1);
	*flops += work.amount;
	*seconds += work.amount / r.fraction; /* in units of the yardstick's time per FLOP */
	return r;
}

static void block(struct bench *b, enum kind kind, const struct size *s)
{
	double flops = 0, seconds = 0, spread = 0, rate = 0;
	struct reading r;
	char name[80], one[100];
	int fc1 = kind >= BIAS && kind <= KEPT;

	snprintf(name, sizeof name, "%s %s %dx%d", kind_name[kind], fc1 ? "fc1" : "block", (int)s->rows, (int)s->width);
	if (!bench_wants(b, name))
		return;
	for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
		if (fc1 && i != 2)
			continue;
		r = measure(b, kind, s->rows, layers[i].n * s->width, layers[i].k * s->width, &seconds, &flops);
		snprintf(one, sizeof one, "%s, %s", name, layers[i].name);
		if (b->pattern && !fc1)
			bench_print(one, r.rate * 1e-9, "GFLOP/s", &r);
		spread = r.spread > spread ? r.spread : spread;
		rate += 1 / r.rate * 2. * (double)(s->rows * layers[i].n * s->width * layers[i].k * s->width);
	}
	r = (struct reading){flops / rate, flops / seconds, spread, 0};
	bench_print(name, r.rate * 1e-9, "GFLOP/s", &r);
}

static void *get(size_t n)
{
	struct err e = {0};
	void *p = mem_try(n, 1, "operands", &e);

	if (!p) {
		fprintf(stderr, "bench_gemm: %s\n", e.msg);
		exit(e.code);
	}
	return p;
}

static void peaks(struct bench *b)
{
	const struct duty *yard = yard_product(b);
	struct reading r;
	double fma;

	if (!bench_wants(b, "peak"))
		return;
	r = bench_read(b, yard, yard, .02, .2);
	fma = peak_fma_flops(b->pool);
	printf("peak product\t%.4g\tGFLOP/s\t-\npeak multiply-add\t%.4g\tGFLOP/s\t-\npeak copy\t%.4g\tGB/s\t-\n", r.rate * 1e-9, fma * 1e-9,
	       peak_copy_bytes(b->pool) * 1e-9);
}

int main(int argc, char **argv)
{
	struct bench b;
	float **const big[] = {&x, &y, &aux};

	bench_start(&b, "bench_gemm", argc, argv);
	for (int i = 0; i < 3; i++) {
		*big[i] = get(FLOATS * sizeof(float));
		for (int64_t j = 0; j < FLOATS; j++)
			(*big[i])[j] = (float)(j % 17) * .01f - .08f;
	}
	w = get(WEIGHTS * sizeof(float));
	bias = get(4 * 384 * sizeof(float));
	scratch = get(SCRATCH);
	for (int64_t i = 0; i < WEIGHTS; i++)
		w[i] = (float)(i % 13) * .01f - .06f;
	peaks(&b);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (enum kind kind = FORWARD; kind <= DW; kind++)
			block(&b, kind, &sizes[i]);
	for (int i = 0; i < 3; i++)
		mem_free(*big[i]);
	mem_free(w);
	mem_free(bias);
	mem_free(scratch);
	bench_end(&b);
	return 0;
}
