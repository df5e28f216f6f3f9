/* The product of bf16 numbers for training: its bits are those of the float product of the rounded matrices with the two ks of each pair
 * exchanged, for every transpose, size, pool and instruction set of this CPU; those of AMX's order of adding where it has AMX. They are the same
 * whichever matrices are stored in bf16. Matrices lie in larger ones full of NaN, which must be neither read nor written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "kernels/device.h"
#include "kernels/gemm_bf16.h"
#include "kernels/peak.h"
#include "kernels/vmath.h"
#include "tests/op/amx_order.h"

enum { PAD = 3, GUARD = 64 };

struct matrix {
	int64_t rows, cols, ld; /* as stored */
	float *v;
};

static struct matrix matrix_new(uint64_t seed, int64_t rows, int64_t cols)
{
	struct matrix m = {rows, cols, cols + PAD, NULL};
	float *draws = mem_alloc((size_t)(rows * cols + 1) * sizeof *draws);

	m.v = mem_alloc((size_t)((rows + 1) * m.ld) * sizeof *m.v);
	rng_normal(draws, (size_t)(rows * cols), seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < (rows + 1) * m.ld; i++)
		m.v[i] = NAN;
	for (int64_t i = 0; i < rows; i++)
		memcpy(m.v + i * m.ld, draws + i * cols, (size_t)cols * sizeof *draws);
	mem_free(draws);
	return m;
}

static float at(const struct matrix *m, int trans, int64_t i, int64_t j)
{
	return trans ? m->v[j * m->ld + i] : m->v[i * m->ld + j];
}

/* A matrix (rows, even) of m, or of its transpose if `trans`: rounded to bf16, with the ks of each pair exchanged unless `in_order`. */
static float *rounded(const struct matrix *m, int trans, int64_t rows, int64_t k, int64_t even, int in_order)
{
	float *out = mem_zalloc((size_t)(rows * even + 1), sizeof *out);

	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < k; j++)
			out[i * even + (in_order ? j : j ^ 1)] = bf16_to_f32(f32_to_bf16(at(m, trans, i, j)));
	return out;
}

struct wanted {
	float *c, *aux, *sums;
};

/* a, its numbers and its gaps rounded to bf16. */
static struct matrix whole_rounded(const struct matrix *a)
{
	int64_t n = (a->rows + 1) * a->ld;
	struct matrix r = *a;

	r.v = mem_alloc((size_t)n * sizeof *r.v);
	for (int64_t i = 0; i < n; i++)
		r.v[i] = bf16_to_f32(f32_to_bf16(a->v[i]));
	return r;
}

/* By the float product: op(A) and the transpose of op(B) as rows along k; of AMX's product, which is in `c` already, only what follows it. The
 * sums of op(A)'s rows are those of the float product of a rounded A. */
static void expect(const struct wanted *w, const struct gemm *g, const struct matrix *a, const struct matrix *b, const struct gemm_epilogue_f32 *ep,
                   enum compact_isa isa)
{
	int amx = isa == COMPACT_AMX;
	int64_t even = amx ? g->k : (g->k + 1) / 2 * 2;
	float *x = rounded(a, g->ta == GEMM_T, g->m, g->k, even, amx), *y = rounded(b, g->tb == GEMM_N, g->n, g->k, even, amx);
	struct gemm q = {.tb = GEMM_T, .m = g->m, .n = g->n, .k = even, .lda = even, .ldb = even, .ldc = g->ldc, .accumulate = g->accumulate};
	struct gemm_epilogue_f32 own = *ep, sums = {.row_sums = w->sums};
	float *unused = mem_zalloc((size_t)(g->m * g->ldc + 1), sizeof *unused);
	void *scratch = mem_try(gemm_scratch_f32(&q, 1) + gemm_scratch_f32(g, 1) + 64, 1, "test", NULL);

	own.aux = ep->aux ? w->aux : NULL;
	own.row_sums = NULL;
	if (amx) {
		amx_product(w->c, g->ldc, x, y, g->m, g->n, g->k, g->accumulate);
		q.k = 0;
		q.accumulate = 1;
	}
	gemm_run_f32(NULL, &q, w->c, x, y, &own, scratch);
	if (ep->row_sums) {
		struct matrix r = whole_rounded(a);

		gemm_run_f32(NULL, g, unused, r.v, b->v, &sums, scratch);
		mem_free(r.v);
	}
	mem_free(scratch);
	mem_free(unused);
	mem_free(x);
	mem_free(y);
}

/* Pads each row of C with a value of its own, to see that it stays. */
static float *output(int64_t m, int64_t n, int64_t ld)
{
	float *c = mem_try((size_t)(m * ld + 1), sizeof *c, "test", NULL);

	for (int64_t i = 0; i < m * ld; i++)
		c[i] = i % ld < n ? (float)(i % 5) - 2 : 1e30f;
	return c;
}

/* m in bf16, its gaps NaN too. */
static uint16_t *shortened(const struct matrix *m)
{
	int64_t n = (m->rows + 1) * m->ld;
	uint16_t *v = mem_alloc((size_t)n * sizeof *v);

	for (int64_t i = 0; i < n; i++)
		v[i] = f32_to_bf16(m->v[i]);
	return v;
}

struct checked {
	struct gemm g;
	struct matrix a, b;
	struct gemm_epilogue_f32 ep; /* aux and row_sums: of the product with all matrices in float */
	float *c;                    /* of that product */
	float *start;                /* C before it */
	int threads;
	enum compact_isa isa;
};

/* The product with some matrices stored in bf16. */
static void check_stored(struct pool *p, const struct checked *t, unsigned stored)
{
	const struct gemm *g = &t->g;
	uint16_t *a = shortened(&t->a), *b = shortened(&t->b), *short_c = mem_alloc((size_t)(g->m * g->ldc + 1) * sizeof *short_c);
	size_t bytes = gemm_bf16_scratch(g, stored, t->threads), count = (size_t)(g->m * g->ldc), kept = (size_t)(g->m * t->ep.ldaux);
	char *scratch = mem_try(bytes + GUARD, 1, "test", NULL);
	float *c = mem_alloc((count + 1) * sizeof *c), *aux = output(g->m, g->n, t->ep.ldaux), *sums = mem_zalloc((size_t)g->m + 1, sizeof *sums);
	struct gemm_epilogue_f32 ep = t->ep;

	ep.aux = ep.aux ? aux : NULL;
	ep.row_sums = ep.row_sums ? sums : NULL;
	memcpy(c, t->start, count * sizeof *c);
	for (size_t i = 0; i < count; i++)
		short_c[i] = f32_to_bf16(t->start[i]);
	memset(scratch, 0xff, bytes);
	memset(scratch + bytes, 0x5a, GUARD);
	gemm_bf16_run(p, t->isa, g, stored, stored & GEMM_BF16_C ? (void *)short_c : c, stored & GEMM_BF16_A ? (const void *)a : t->a.v,
	              stored & GEMM_BF16_B ? (const void *)b : t->b.v, &ep, scratch);
	for (size_t i = 0; i < count && stored & GEMM_BF16_C; i++)
		if (short_c[i] != f32_to_bf16(t->c[i]))
			fail_msg("%dx%dx%d, stored %u, set %d: %d", (int)g->m, (int)g->n, (int)g->k, stored, (int)t->isa, (int)i);
	if (!(stored & GEMM_BF16_C))
		assert_memory_equal(c, t->c, count * sizeof *c);
	if (ep.aux)
		assert_memory_equal(aux, t->ep.aux, kept * sizeof *aux);
	if (ep.row_sums)
		assert_memory_equal(sums, t->ep.row_sums, (size_t)g->m * sizeof *sums);
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
	mem_free(a), mem_free(b), mem_free(short_c), mem_free(scratch), mem_free(c), mem_free(aux), mem_free(sums);
}

static void check(const struct gemm *shape, int threads, enum compact_isa isa, enum gemm_act act, unsigned stored)
{
	struct gemm g = *shape;
	struct matrix a = matrix_new(1, g.ta == GEMM_T ? g.k : g.m, g.ta == GEMM_T ? g.m : g.k);
	struct matrix b = matrix_new(2, g.tb == GEMM_T ? g.n : g.k, g.tb == GEMM_T ? g.k : g.n), bias = matrix_new(3, 1, g.n);
	struct pool *p = threads > 1 ? pool_new(threads, 0) : NULL;
	size_t bytes = gemm_bf16_scratch(&g, 0, threads), count;
	int64_t ldaux = g.m * g.n < 1 << 20 ? g.n + PAD : (g.n + PAD + 15) / 16 * 16; /* a large aux has aligned rows, so that it is streamed */
	char *scratch = mem_try(bytes + GUARD, 1, "test", NULL);
	struct gemm_epilogue_f32 ep = {.act = act};
	struct wanted want;
	float *c, *aux, *start;

	g.lda = a.ld;
	g.ldb = b.ld;
	g.ldc = g.n + PAD;
	count = (size_t)(g.m * g.ldc) * sizeof(float);
	want = (struct wanted){output(g.m, g.n, g.ldc), output(g.m, g.n, ldaux), mem_zalloc((size_t)g.m + 1, sizeof(float))};
	c = output(g.m, g.n, g.ldc);
	start = output(g.m, g.n, g.ldc);
	aux = output(g.m, g.n, ldaux);
	if (act != GEMM_LINEAR) {
		ep.bias = bias.v;
		ep.aux = aux;
		ep.ldaux = ldaux;
	}
	if (g.ta == GEMM_T)
		ep.row_sums = mem_zalloc((size_t)g.m + 1, sizeof(float));
	memset(scratch, 0xff, bytes);
	memset(scratch + bytes, 0x5a, GUARD);
	expect(&want, &g, &a, &b, &ep, isa);
	gemm_bf16_run(p, isa, &g, 0, c, a.v, b.v, &ep, scratch);
	assert_memory_equal(c, want.c, count);
	assert_memory_equal(aux, want.aux, (size_t)(g.m * ldaux) * sizeof *aux);
	if (ep.row_sums)
		assert_memory_equal(ep.row_sums, want.sums, (size_t)g.m * sizeof(float));
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
	if (g.ta == GEMM_T || g.accumulate)
		stored &= ~(unsigned)GEMM_BF16_C;
	check_stored(p, &(struct checked){g, a, b, ep, c, start, threads, isa}, stored);
	mem_free(start);
	mem_free(ep.row_sums);
	mem_free(want.c);
	mem_free(want.aux);
	mem_free(want.sums);
	mem_free(c);
	mem_free(aux);
	mem_free(scratch);
	mem_free(a.v);
	mem_free(b.v);
	mem_free(bias.v);
	pool_free(p);
}

static const struct gemm shapes[] = {{.m = 1, .n = 1, .k = 1},
                                     {.m = 13, .n = 33, .k = 3},
                                     {.m = 12, .n = 32, .k = 384},
                                     {.m = 50, .n = 70, .k = 385},
                                     {.m = 200, .n = 40, .k = 390},
                                     {.m = 7, .n = 500, .k = 770},
                                     {.m = 96, .n = 96, .k = 64},
                                     {.m = 5, .n = 3, .k = 0},
                                     {.m = 0, .n = 4, .k = 4},
                                     {.m = 4, .n = 0, .k = 4},
                                     {.m = 401, .n = 31, .k = 17},
                                     {.m = 48, .n = 416, .k = 1153},
                                     {.m = 101, .n = 200, .k = 5}, /* computed along the rows of C */
                                     {.m = 200, .n = 330, .k = 31, .accumulate = 1},
                                     {.m = 30, .n = 20, .k = 9, .accumulate = 1},
                                     {.m = 25, .n = 65, .k = 800, .accumulate = 1},
                                     {.m = 210, .n = 130, .k = 17 * GEMM_KC + 7}}; /* op(A) is rounded in several waves */

static void bits_are_those_of_rounded_floats(void **state)
{
	static const int threads[] = {1, 2, 5};
	static const enum gemm_act acts[] = {GEMM_LINEAR, GEMM_SILU, GEMM_GELU, GEMM_RELU};
	enum compact_isa sets[] = {COMPACT_PORTABLE, compact_isa_pairwise(), compact_isa()};

	(void)state;
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (int trans = 0; trans < 4; trans++)
			for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
				for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
					struct gemm g = shapes[s];

					g.ta = trans & 1 ? GEMM_T : GEMM_N;
					g.tb = trans & 2 ? GEMM_T : GEMM_N;
					check(&g, threads[t], sets[i], acts[(s + t) % 4], 1 + (unsigned)(s + i + t) % 7);
				}
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		check(&(struct gemm){.tb = GEMM_T, .m = 1030, .n = 1033, .k = 40}, 3, sets[i], GEMM_GELU, GEMM_BF16_C);
		for (int k = 2; k < 6; k++) /* chunks of sums that C cannot hold, more panels than a task of AMX has */
			check(&(struct gemm){.tb = GEMM_T, .m = 200, .n = 1700, .k = k * GEMM_KC - 5}, 1 + (k + 1) % 3, sets[i],
			      k % 2 ? GEMM_GELU : GEMM_LINEAR, GEMM_BF16_A | GEMM_BF16_C);
	}
}

/* The derivative of GELU in the epilogue is the product times gelu'(pre), whole tiles and parts of them, last and earlier chunks. */
static void slopes_are_multiplied(void **state)
{
	struct gemm g = {.m = 77, .n = 70, .k = 800};
	struct matrix a = matrix_new(4, g.m, g.k), b = matrix_new(5, g.k, g.n), pre = matrix_new(6, g.m, g.n);
	struct gemm_epilogue_f32 ep = {.pre = pre.v, .ldpre = pre.ld};
	enum compact_isa sets[] = {COMPACT_PORTABLE, compact_isa_pairwise(), compact_isa()};
	uint16_t *short_a = shortened(&a), *short_c = mem_alloc((size_t)(g.m * (g.n + PAD)) * sizeof *short_c);
	float *plain, *c;
	void *scratch;

	(void)state;
	g.lda = a.ld;
	g.ldb = b.ld;
	g.ldc = g.n + PAD;
	scratch = mem_try(gemm_bf16_scratch(&g, GEMM_BF16_A | GEMM_BF16_C, 1), 1, "test", NULL);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		plain = output(g.m, g.n, g.ldc);
		c = output(g.m, g.n, g.ldc);
		gemm_bf16_run(NULL, sets[i], &g, 0, plain, a.v, b.v, NULL, scratch);
		gemm_bf16_run(NULL, sets[i], &g, 0, c, a.v, b.v, &ep, scratch);
		gemm_bf16_run(NULL, sets[i], &g, GEMM_BF16_A | GEMM_BF16_C, short_c, short_a, b.v, &ep, scratch);
		for (int64_t r = 0; r < g.m; r++)
			for (int64_t j = 0; j < g.ldc; j++) {
				float want = plain[r * g.ldc + j];

				assert_true(c[r * g.ldc + j] == (j < g.n ? want * real_gelu_slope(pre.v[r * pre.ld + j]) : want));
				if (j < g.n)
					assert_int_equal(short_c[r * g.ldc + j], f32_to_bf16(c[r * g.ldc + j]));
			}
		mem_free(plain);
		mem_free(c);
	}
	mem_free(scratch);
	mem_free(short_a);
	mem_free(short_c);
	mem_free(a.v);
	mem_free(b.v);
	mem_free(pre.v);
}

/* Against double: each factor is wrong by at most 2^-9 of itself, so a product by 2^-8 and a little. */
static void error_is_that_of_rounding(void **state)
{
	struct gemm g = {.ta = GEMM_T, .tb = GEMM_N, .m = 60, .n = 44, .k = 500};
	struct matrix a = matrix_new(4, g.k, g.m), b = matrix_new(5, g.k, g.n);
	float *c = mem_zalloc((size_t)(g.m * g.n), sizeof *c);
	void *scratch = mem_try(gemm_bf16_scratch(&g, 0, 1), 1, "test", NULL);
	double worst = 0;

	(void)state;
	g.lda = a.ld;
	g.ldb = b.ld;
	g.ldc = g.n;
	gemm_bf16_run(NULL, compact_isa(), &g, 0, c, a.v, b.v, NULL, scratch);
	for (int64_t i = 0; i < g.m; i++)
		for (int64_t j = 0; j < g.n; j++) {
			double sum = 0, size = 0, miss;

			for (int64_t k = 0; k < g.k; k++) {
				sum += (double)at(&a, 1, i, k) * at(&b, 0, k, j);
				size += fabs((double)at(&a, 1, i, k) * at(&b, 0, k, j));
			}
			miss = fabs(c[i * g.n + j] - sum) / size;
			assert_true(miss < 0x1p-8);
			worst = miss > worst ? miss : worst;
		}
	assert_true(worst > 1e-5); /* the inputs were rounded */
	mem_free(scratch);
	mem_free(c);
	mem_free(a.v);
	mem_free(b.v);
}

static void refused(struct device *d, enum precision p, int code)
{
	struct err e = {0};

	assert_int_equal(device_set_precision(d, p, &e), -1);
	assert_int_equal(e.code, code);
}

/* LINEAR on a CPU device: its inputs are rounded only after the device is set so, and as before once it is set back. */
static void device_switches(void **state)
{
	enum { M = 21, N = 34, K = 19 };
	struct device *d = device_cpu(NULL, DT_F32);
	struct matrix x = matrix_new(6, M, K), w = matrix_new(7, N, K);
	float plain[M * N], y[M * N], xs[M * K], ws[N * K];
	struct op_call c;
	struct err e = {0};
	static const enum precision asked[] = {PRECISION_F32, PRECISION_BF16_EMULATED, PRECISION_F32};

	(void)state;
	for (int64_t i = 0; i < M; i++)
		memcpy(xs + i * K, x.v + i * x.ld, K * sizeof *xs);
	for (int64_t i = 0; i < N; i++)
		memcpy(ws + i * K, w.v + i * w.ld, K * sizeof *ws);
	for (int turn = 0; turn < 3; turn++) {
		void *scratch;

		assert_int_equal(device_set_precision(d, asked[turn], &e), 0);
		c = (struct op_call){.nin = 2, .nout = 1};
		c.in[0] = (struct array){.rank = 2, .shape = {M, K}, .stride = {K, 1}, .dtype = DT_F32, .data = xs};
		c.in[1] = (struct array){.rank = 2, .shape = {N, K}, .stride = {K, 1}, .dtype = DT_F32, .data = ws};
		c.out[0] = (struct array){.rank = 2, .shape = {M, N}, .stride = {N, 1}, .dtype = DT_F32, .data = turn ? y : plain};
		scratch = mem_try(device_scratch(d, OP_LINEAR, &c), 1, "test", NULL);
		device_run(d, OP_LINEAR, &c, scratch);
		mem_free(scratch);
		if (turn == 1)
			assert_true(memcmp(y, plain, sizeof y));
		if (turn == 2)
			assert_memory_equal(y, plain, sizeof y);
	}
	refused(d, PRECISION_TF32, ERR_USAGE);
	if (compact_isa() == COMPACT_PORTABLE)
		refused(d, PRECISION_BF16, ERR_UNAVAILABLE);
	else
		assert_int_equal(device_set_precision(d, PRECISION_BF16, &e), 0);
	device_free(d);
	d = device_cpu(NULL, DT_F64);
	refused(d, PRECISION_BF16_EMULATED, ERR_USAGE);
	device_free(d);
	mem_free(x.v);
	mem_free(w.v);
}

static void peak_is_positive(void **state)
{
	(void)state;
	assert_true(peak_bf16_flops(NULL) > 1e8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_rounded_floats), cmocka_unit_test(error_is_that_of_rounding),
	                                   cmocka_unit_test(slopes_are_multiplied), cmocka_unit_test(device_switches),
	                                   cmocka_unit_test(peak_is_positive)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
