/* The matrix product: values against a plain loop, and the promise that sampling needs: the bits of an element depend only on its row of op(A), its
 * column of op(B) and K. Matrices lie in larger ones full of NaN, which must be neither read nor written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "kernels/cut.h"
#include "kernels/gemm.h"
#include "kernels/gemm_library.h"
#include "kernels/peak.h"
#include "kernels/vmath.h"

enum { PAD = 3, LANE = 16 };

/* rows x cols values in (-1, 1) with row stride cols + PAD and NaN in the padding, transposed in memory if requested. The value at (i, j) depends on
 * key, i and j. */
static float value(uint32_t key, int64_t i, int64_t j)
{
	uint32_t ctr[4] = {(uint32_t)i, (uint32_t)j, key, 0}, k[2] = {1, 2}, out[4];

	philox4x32(ctr, k, out);
	return (float)((int32_t)out[0] >> 8) * 0x1p-23f;
}

struct matrix {
	float *f;
	double *d;
	int64_t ld, count;
};

static struct matrix matrix_new(uint32_t key, int trans, int64_t rows, int64_t cols, int64_t row0)
{
	int64_t r = trans ? cols : rows, c = trans ? rows : cols;
	struct matrix m = {.ld = c + PAD, .count = (r + 1) * (c + PAD)};

	m.f = mem_alloc((size_t)m.count * sizeof *m.f);
	m.d = mem_alloc((size_t)m.count * sizeof *m.d);
	for (int64_t i = 0; i < m.count; i++)
		m.d[i] = m.f[i] = NAN;
	for (int64_t i = 0; i < r; i++)
		for (int64_t j = 0; j < c; j++)
			m.d[i * m.ld + j] = m.f[i * m.ld + j] = trans ? value(key, row0 + j, i) : value(key, row0 + i, j);
	return m;
}

static void matrix_free(struct matrix *m)
{
	mem_free(m->f);
	mem_free(m->d);
}

static void *poisoned(size_t bytes)
{
	unsigned char *p = mem_try(bytes + 64, 1, "scratch", NULL);

	memset(p, 0xff, bytes + 64);
	memset(p + bytes, 0x5a, 64);
	return p;
}

static void scratch_check(unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(p[bytes + i], 0x5a);
	mem_free(p);
}

static void run_f32(struct pool *p, const struct gemm *g, float *c, const float *a, const float *b, const struct gemm_epilogue_f32 *ep)
{
	size_t bytes = gemm_scratch_f32(g, pool_threads(p));
	void *scratch = poisoned(bytes);

	if (pool_threads(p) == 1)
		gemm_serial_f32(g, c, a, b, ep, scratch);
	else
		gemm_run_f32(p, g, c, a, b, ep, scratch);
	scratch_check(scratch, bytes);
}

/* Rows [row0, row0 + m) of a product, computed from these m rows in float: (m, n), contiguous. Caller frees. */
static float *product(struct pool *p, int ta, int tb, int64_t row0, int64_t m, int64_t n, int64_t k)
{
	struct matrix a = matrix_new(1, ta, m, k, row0), b = matrix_new(2, tb, k, n, 0);
	float *c = mem_alloc((size_t)(m * n + 1) * sizeof *c);
	struct gemm g = {.ta = ta ? GEMM_T : GEMM_N, .tb = tb ? GEMM_T : GEMM_N, .m = m, .n = n, .k = k, .lda = a.ld, .ldb = b.ld, .ldc = n};

	run_f32(p, &g, c, a.f, b.f, NULL);
	matrix_free(&a);
	matrix_free(&b);
	return c;
}

static void check_values(struct pool *p, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, int add)
{
	struct matrix a = matrix_new(1, ta, m, k, 0), b = matrix_new(2, tb, k, n, 0), c = matrix_new(3, 0, m, n, 0);
	struct gemm g = {.ta = ta ? GEMM_T : GEMM_N,
	                 .tb = tb ? GEMM_T : GEMM_N,
	                 .m = m,
	                 .n = n,
	                 .k = k,
	                 .lda = a.ld,
	                 .ldb = b.ld,
	                 .ldc = c.ld,
	                 .accumulate = add,
	                 .alpha = alpha};
	size_t bytes = gemm_scratch_f64(&g, pool_threads(p));
	void *scratch = poisoned(bytes);

	run_f32(p, &g, c.f, a.f, b.f, NULL);
	gemm_run_f64(p, &g, c.d, a.d, b.d, NULL, scratch);
	scratch_check(scratch, bytes);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			double s = 0, z;

			for (int64_t q = 0; q < k; q++)
				s += (ta ? a.d[q * a.ld + i] : a.d[i * a.ld + q]) * (tb ? b.d[j * b.ld + q] : b.d[q * b.ld + j]);
			z = (alpha != 0 ? alpha : 1) * s + (add ? (double)value(3, i, j) : 0);
			assert_true(fabs(c.d[i * c.ld + j] - z) < 1e-13 * (double)(k + 10));
			assert_true(fabs((double)c.f[i * c.ld + j] - z) < 1e-7 * (double)(k + 10));
		}
	for (int64_t i = 0; i < c.count; i++)
		if (i % c.ld >= n || i / c.ld >= m)
			assert_true(isnan(c.f[i]) && isnan(c.d[i]));
	matrix_free(&a);
	matrix_free(&b);
	matrix_free(&c);
}

static void values(void **state)
{
	static const int64_t m[] = {1, 2, 7, 13, 40}, n[] = {1, 5, 16, 33, 70}, k[] = {0, 1, 3, 50, GEMM_KC, 2 * GEMM_KC + 5};
	struct pool *p = pool_new(2, NULL);
	int turn = 0;

	(void)state;
	for (size_t im = 0; im < 5; im++)
		for (size_t in = 0; in < 5; in++)
			for (size_t ik = 0; ik < 6; ik++)
				for (int t = 0; t < 4; t++, turn++)
					check_values(turn % 3 ? p : NULL, t & 1, t >> 1, m[im], n[in], k[ik], turn % 5 ? 0 : -.3, turn & 1);
	check_values(p, 0, 1, 500, 200, 30, 0, 0);
	check_values(p, 1, 0, 200, 800, 30, 0, 1);
	/* Rows with a stride of 1024 are copied first. */
	check_values(p, 0, 0, 30, 40, 1024 - PAD, 0, 0);
	check_values(p, 1, 0, 1024 - PAD, 40, 31, 0, 0);
	check_values(p, 1, 0, 41, 1024 - PAD, GEMM_KC + 1, 0, 1);
	check_values(NULL, 1, 1, 1024 - PAD, 70, 15, 0, 0);
	check_values(p, 0, 1, 0, 40, 5, 0, 0);
	check_values(p, 0, 1, 40, 0, 5, 0, 0);
	pool_free(p);
}

static void own_product_only(void)
{
	if (REAL_NAME(gemm_library)()) {
		print_message("# skip: promised of the built-in product only\n");
		skip();
	}
}

/* Every batch size from 1 to 70, from the first row and from the middle; N even and odd; every storage order. */
static void rows_alone(void **state)
{
	static const struct {
		int64_t n, k;
	} shape[] = {{1, 7}, {37, 65}, {64, GEMM_KC + 9}, {131, 33}};
	enum { M = 70, FROM = 5 };

	(void)state;
	own_product_only();
	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
		int64_t n = shape[s].n, k = shape[s].k;
		float *all = product(NULL, 0, 1, 0, M + FROM, n, k);

		for (int t = 0; t < 4; t++)
			for (int64_t m = 1; m <= M; m++) {
				int64_t row0 = m % 2 ? FROM : 0;
				float *c = product(NULL, t & 1, t >> 1, row0, m, n, k);

				assert_memory_equal(c, all + row0 * n, (size_t)(m * n) * sizeof *c);
				mem_free(c);
			}
		mem_free(all);
	}
}

/* A product with fewer columns has the same bits in them. */
static void columns_alone(void **state)
{
	enum { M = 9, N = 140, K = 77 };
	float *all;

	(void)state;
	own_product_only();
	all = product(NULL, 0, 1, 0, M, N, K);
	for (int64_t n = 1; n <= N; n++) {
		float *c = product(NULL, 0, n & 1, 0, M, n, K);

		for (int64_t i = 0; i < M; i++)
			assert_memory_equal(c + i * n, all + i * N, (size_t)n * sizeof *c);
		mem_free(c);
	}
	mem_free(all);
}

/* Shapes that are divided by rows, by columns, and (gradients of weights, more chunks than a wave) by chunks of K. Gradients of wide weights are
 * packed by task and, if they are large, together. */
static void any_threads(void **state)
{
	static const struct {
		int ta, tb;
		int64_t m, n, k;
	} shape[] = {
	    {0, 1, 1000, 96, 96},
	    {0, 0, 50, 1000, 40},
	    {1, 0, 96, 96, 35 * GEMM_KC + 1},
	    {1, 0, 17, 9, 3000},
	    {1, 0, 400, 400, 800},
	    {1, 0, 130, 200, 35 * GEMM_KC + 1},
	    {1, 0, 90, 230, 800},
	    {1, 0, 301, 391, 19 * GEMM_KC + 5},
	    {1, 1, 301, 391, 900},
	};

	(void)state;
	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
		float *one = product(NULL, shape[s].ta, shape[s].tb, 0, shape[s].m, shape[s].n, shape[s].k);

		for (int threads = 2; threads <= 9; threads += threads < 3 ? 1 : 6) {
			struct pool *p = pool_new(threads, NULL);
			float *c = product(p, shape[s].ta, shape[s].tb, 0, shape[s].m, shape[s].n, shape[s].k);

			assert_memory_equal(one, c, (size_t)(shape[s].m * shape[s].n) * sizeof *c);
			mem_free(c);
			pool_free(p);
		}
		mem_free(one);
	}
}

/* With B packed by the caller the bits are those of the plain product, for both transposes, with an epilogue, with addition, for any pool. The packed
 * memory is filled completely, and unpacks to B. */
static void check_packed(struct pool *p, int tb, int64_t m, int64_t n, int64_t k, int add)
{
	struct matrix a = matrix_new(1, 0, m, k, 0), b = matrix_new(2, tb, k, n, 0), c = matrix_new(3, 0, m, n, 0);
	struct matrix want = matrix_new(3, 0, m, n, 0), bias = matrix_new(4, 0, 1, n, 0);
	struct gemm g = {.tb = tb ? GEMM_T : GEMM_N, .m = m, .n = n, .k = k, .lda = a.ld, .ldb = b.ld, .ldc = c.ld, .accumulate = add};
	struct gemm_epilogue_f32 ep = {.bias = bias.f, .act = add ? GEMM_LINEAR : GEMM_GELU};
	int64_t count = gemm_packed_f32(&g);
	float *packed = poisoned((size_t)count * sizeof *packed), *back = mem_alloc((size_t)b.count * sizeof *back);

	run_f32(p, &g, want.f, a.f, b.f, &ep);
	gemm_pack_f32(&g, packed, b.f);
	for (int64_t i = 0; i < b.count; i++)
		back[i] = NAN;
	gemm_unpack_f32(&g, back, packed);
	for (int64_t i = 0; i < b.count; i++)
		assert_true(back[i] == b.f[i] || (isnan(back[i]) && isnan(b.f[i])));
	for (int64_t i = 0; i < count; i++)
		assert_false(isnan(packed[i]));
	g.tb = GEMM_PACKED;
	g.ldb = 0;
	run_f32(p, &g, c.f, a.f, packed, &ep);
	for (int64_t i = 0; i < m; i++)
		assert_memory_equal(c.f + i * c.ld, want.f + i * want.ld, (size_t)n * sizeof *c.f);
	scratch_check((unsigned char *)packed, (size_t)count * sizeof *packed);
	mem_free(back);
	matrix_free(&a);
	matrix_free(&b);
	matrix_free(&c);
	matrix_free(&want);
	matrix_free(&bias);
}

static void packed_by_the_caller(void **state)
{
	static const int64_t shape[][3] = {{1, 1, 1}, {50, 71, 2 * GEMM_KC + 3}, {13, 32, GEMM_KC}, {200, 400, 96}, {5, 33, 0}};
	struct pool *p = pool_new(3, NULL);

	(void)state;
	own_product_only();
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		for (int v = 0; v < 8; v++)
			check_packed(v & 4 ? p : NULL, v & 1, shape[i][0], shape[i][1], shape[i][2], v >> 1 & 1);
	pool_free(p);
}

static void check_epilogue(struct pool *p, int ta, int64_t m, int64_t n, int64_t k, enum gemm_act act, int bias, int aux)
{
	float *z = product(p, ta, 0, 0, m, n, k), *c, *pre, *bs;
	struct matrix a = matrix_new(1, ta, m, k, 0), b = matrix_new(2, 0, k, n, 0);
	struct gemm g = {.ta = ta ? GEMM_T : GEMM_N, .tb = GEMM_N, .m = m, .n = n, .k = k, .lda = a.ld, .ldb = b.ld, .ldc = n};
	struct gemm_epilogue_f32 ep = {.act = act, .ldaux = m * n > 1 << 20 ? (n + LANE - 1) / LANE * LANE : n + 1};

	c = mem_alloc((size_t)(m * n) * sizeof *c);
	pre = mem_try((size_t)(m * (n + LANE)), sizeof *pre, "aux", NULL);
	bs = mem_alloc((size_t)n * sizeof *bs);
	for (int64_t j = 0; j < n; j++)
		bs[j] = value(9, 0, j);
	ep.bias = bias ? bs : NULL;
	ep.aux = aux ? pre : NULL;
	run_f32(p, &g, c, a.f, b.f, &ep);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			float x = z[i * n + j] + (bias ? bs[j] : 0), y;

			y = act == GEMM_SILU ? real_silu(x) : act == GEMM_GELU ? real_gelu(x) : act == GEMM_RELU && x < 0 ? 0 : x;
			if (aux)
				assert_memory_equal(&x, &pre[i * ep.ldaux + j], sizeof x);
			assert_memory_equal(&y, &c[i * n + j], sizeof y);
		}
	matrix_free(&a);
	matrix_free(&b);
	mem_free(z);
	mem_free(c);
	mem_free(pre);
	mem_free(bs);
}

static void epilogues(void **state)
{
	struct pool *p = pool_new(2, NULL);

	(void)state;
	check_epilogue(p, 0, 1031, 1051, 2, GEMM_GELU, 1, 1);
	for (enum gemm_act act = GEMM_LINEAR; act <= GEMM_RELU; act++)
		for (int i = 0; i < 4; i++) {
			check_epilogue(i & 1 ? p : NULL, 0, 50, 71, 2 * GEMM_KC + 3, act, i & 1, i >> 1);
			check_epilogue(p, 1, 20, 33, 2000, act, i & 1, i >> 1);
		}
	check_epilogue(p, 1, 300, 260, 2000, GEMM_GELU, 1, 1);
	pool_free(p);
}

/* The sums of the rows of op(A), beside a product that is computed in place, packed by task and packed together. */
static void row_sums(void **state)
{
	static const int64_t shape[][3] = {{70, 40, 900}, {200, 150, 900}, {301, 391, 10 * GEMM_KC + 5}};

	(void)state;
	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
		int64_t m = shape[s][0], n = shape[s][1], k = shape[s][2];
		struct matrix a = matrix_new(1, 1, m, k, 0), b = matrix_new(2, 0, k, n, 0);
		float *c = mem_alloc((size_t)(m * n) * sizeof *c), *one = mem_alloc((size_t)m * sizeof *one),
		      *sums = mem_alloc((size_t)m * sizeof *sums);
		struct gemm g = {.ta = GEMM_T, .tb = GEMM_N, .m = m, .n = n, .k = k, .lda = a.ld, .ldb = b.ld, .ldc = n};

		for (int threads = 1; threads <= 5; threads += 2) {
			struct pool *p = threads > 1 ? pool_new(threads, NULL) : NULL;

			run_f32(p, &g, c, a.f, b.f, &(struct gemm_epilogue_f32){.row_sums = threads > 1 ? sums : one});
			if (p)
				assert_memory_equal(one, sums, (size_t)m * sizeof *sums);
			pool_free(p);
		}
		for (int64_t i = 0; i < m; i++) {
			double sum = 0;

			for (int64_t q = 0; q < k; q++)
				sum += a.d[q * a.ld + i];
			assert_true(fabs((double)one[i] - sum) < 1e-7 * (double)k);
		}
		matrix_free(&a);
		matrix_free(&b);
		mem_free(c);
		mem_free(one);
		mem_free(sums);
	}
}

static int64_t busiest(int64_t m, int64_t rows, int64_t across, int64_t workers)
{
	return ((m + rows - 1) / rows * across + workers - 1) / workers * rows;
}

/* No other number of rows that is allowed gives the busiest worker fewer rows, and no larger one as few. */
static void rows_are_cut(void **state)
{
	(void)state;
	assert_int_equal(cut_rows(2048, 192, 12, 1, 2), 132);
	assert_int_equal(cut_rows(1152, 192, 12, 1, 2), 192);
	for (int64_t m = 1; m < 3000; m += 37)
		for (int64_t across = 1; across < 4; across++)
			for (int64_t workers = 2; workers <= 16; workers++) {
				int64_t rows = cut_rows(m, 192, 32, across, workers);

				assert_true(rows >= 96 && rows <= 192 && rows % 32 == 0);
				for (int64_t other = 96; other <= 192; other += 32)
					assert_true(busiest(m, rows, across, workers) < busiest(m, other, across, workers) + (other <= rows));
			}
}

/* Each part once; one worker goes down the columns, and each of several has rows of its own where they divide evenly. */
static void parts_are_shared(void **state)
{
	(void)state;
	for (int64_t mt = 1; mt < 9; mt++)
		for (int64_t nt = 1; nt < 4; nt++)
			for (int64_t workers = 1; workers < 12; workers++) {
				int seen[9][4] = {{0}};

				for (int64_t task = 0; task < mt * nt; task++) {
					struct cut part = cut_part(task, mt, nt, workers);

					assert_true(part.row >= 0 && part.row < mt && part.column >= 0 && part.column < nt);
					assert_int_equal(seen[part.row][part.column]++, 0);
					if (workers == 1)
						assert_true(part.row == task % mt && part.column == task / mt);
					if (mt % workers == 0)
						assert_int_equal(part.row / (mt / workers), task / (mt / workers * nt));
				}
			}
}

/* A plan is made for the largest batch, so no smaller batch may need more scratch. */
static void scratch_grows(void **state)
{
	(void)state;
	for (int workers = 1; workers <= 4; workers += 3)
		for (int t = 0; t < 6; t++) {
			int64_t w = t < 2 ? 96 : t < 4 ? 192 : 384;
			struct gemm g = {.ta = t & 1 ? GEMM_T : GEMM_N, .tb = GEMM_N, .m = w, .n = w, .k = w, .lda = w, .ldb = w, .ldc = w};
			size_t last = 0, now;

			for (int64_t rows = 0; rows < 20000; rows += 61, last = now) {
				*(t & 1 ? &g.k : &g.m) = rows;
				now = gemm_scratch_f32(&g, workers);
				assert_true(now >= last);
			}
		}
}

/* The measured peaks are positive numbers. */
static void peaks(void **state)
{
	struct pool *p = pool_new(2, NULL);

	(void)state;
	for (int i = 0; i < 2; i++) {
		double fma = peak_fma_flops(i ? p : NULL), product = peak_gemm_flops(i ? p : NULL), copy = peak_copy_bytes(i ? p : NULL);

		assert_true(fma > 1e7 && fma < 1e15 && product > 1e6 && product < 1e15 && copy > 1e6 && copy < 1e15);
	}
	pool_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),
	    cmocka_unit_test(rows_alone),
	    cmocka_unit_test(columns_alone),
	    cmocka_unit_test(any_threads),
	    cmocka_unit_test(packed_by_the_caller),
	    cmocka_unit_test(epilogues),
	    cmocka_unit_test(row_sums),
	    cmocka_unit_test(rows_are_cut),
	    cmocka_unit_test(parts_are_shared),
	    cmocka_unit_test(scratch_grows),
	    cmocka_unit_test(peaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
