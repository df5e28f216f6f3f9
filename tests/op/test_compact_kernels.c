/* The inner kernels of products with bf16 numbers: AVX-512's, by an emulation of its instructions on any CPU and by the CPU's own where it has them,
 * have the bits of the portable ones. AMX's have those of its order of adding, emulated and by the CPU's own, as have whole products by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "kernels/compactrun.h"
#include "kernels/flavour.h"
#include "kernels/vmath.h"

#if defined(__x86_64__)

#include "core/shortfloat.h"
#include "tests/op/amx_order.h"
#include "tests/op/emulate_amx.h"

#define compact_avx512 compact_emulated
#define compact_avx512_widen emulated_avx512_widen
#define compact_avx512_weave emulated_avx512_weave
#define compact_avx512_columns emulated_avx512_columns
#define compact_amx compact_amx_emulated
#define compact_amx_permitted emulated_amx_permitted
#include "kernels/compact_avx512.c"
#include "kernels/compact_amx.c"
#undef compact_avx512
#undef compact_avx512_widen
#undef compact_avx512_weave
#undef compact_avx512_columns
#undef compact_amx
#undef compact_amx_permitted

enum { NR = COMPACT_NR, MR = 64, PAIRS = 25, K = 2 * PAIRS };

/* The kernels to compare with the portable ones. */
static int others(const struct compact_kernel *k[4])
{
	int n = 0;

	k[n++] = &compact_emulated;
	k[n++] = &compact_amx_emulated;
	if (compact_isa() != COMPACT_PORTABLE)
		k[n++] = &compact_avx512;
	if (compact_isa() == COMPACT_AMX)
		k[n++] = &compact_amx;
	return n;
}

/* Numbers of very different sizes, with zeros, infinities, NaN and subnormal ones among them if `hard`. */
static void draw(float *x, int64_t n, uint64_t seed, int hard)
{
	static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 1, 0x807fffff, 0x80000000, 0x7f7fffff, 0x3f808000, 0x3f818000};

	rng_normal(x, (size_t)n, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < n; i++)
		if (hard && i % 7 == 3)
			x[i] = float_of_bits((int32_t)odd[i / 7 % 10]);
		else if (i % 5 == 1)
			x[i] *= 0x1p-20f;
}

/* bf16 numbers of all kinds: the upper halves of n floats. */
static void shorten(uint16_t *to, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = (uint16_t)((uint32_t)bits_of_float(x[i]) >> 16);
}

/* Rows of one panel to three, with gaps between the panels, of two rows of B and of a single one. */
static void weaves_alike(void **state)
{
	enum { COLUMNS = 3 * NR, PITCH = NR + 5 };
	const struct compact_kernel *k[4];
	float even[COLUMNS], odd[COLUMNS];
	uint16_t short_even[COLUMNS], short_odd[COLUMNS];
	uint32_t want[3 * PITCH], got[3 * PITCH];

	(void)state;
	draw(even, COLUMNS, 1, 1);
	draw(odd, COLUMNS, 2, 1);
	shorten(short_even, even, COLUMNS);
	shorten(short_odd, odd, COLUMNS);
	for (int i = 0, count = others(k); i < count; i++)
		for (int n = 1; n <= COLUMNS; n++)
			for (int single = 0; single < 2; single++) {
				memset(want, 0xee, sizeof want);
				memset(got, 0xee, sizeof got);
				flavour_compact()->weave(want, PITCH, even, single ? NULL : odd, 0, n);
				k[i]->weave(got, PITCH, even, single ? NULL : odd, 0, n);
				assert_memory_equal(got, want, sizeof want);
				for (int j = n; j < (n + NR - 1) / NR * NR; j++)
					assert_int_equal(got[j / NR * PITCH + j % NR], 0);
				for (int j = 0; j < (n + NR - 1) / NR * NR; j++)
					want[j / NR * PITCH + j % NR] = j < n ? short_even[j] | (single ? 0 : (uint32_t)short_odd[j] << 16) : 0;
				k[i]->weave(got, PITCH, short_even, single ? NULL : short_odd, 1, n);
				assert_memory_equal(got, want, sizeof want);
				flavour_compact()->weave(got, PITCH, short_even, single ? NULL : short_odd, 1, n);
				assert_memory_equal(got, want, sizeof want);
			}
}

static void widens_alike(void **state)
{
	const struct compact_kernel *k[4];
	int8_t q[K * NR];
	uint32_t want[PAIRS * NR], got[PAIRS * NR];

	(void)state;
	for (int i = 0; i < K * NR; i++)
		q[i] = (int8_t)(i * 37 % 255 - 127);
	for (int i = 0, count = others(k); i < count; i++) {
		flavour_compact()->widen(want, q, PAIRS);
		k[i]->widen(got, q, PAIRS);
		assert_memory_equal(got, want, sizeof want);
	}
}

static void *room(int64_t bytes)
{
	return mem_try((size_t)bytes, 1, "test", NULL);
}

static void columns_alike(void **state)
{
	const struct compact_kernel *k[4];
	enum { LD = K + 3 };
	float x[NR * LD];
	uint16_t shorter[NR * LD];
	uint32_t want[PAIRS * NR], got[PAIRS * NR];

	(void)state;
	draw(x, NR * LD, 6, 1);
	shorten(shorter, x, NR * LD);
	for (int i = 0, count = others(k); i < count; i++)
		for (int n = 1; n <= NR; n++)
			for (int deep = K - 19; deep <= K; deep++) {
				memset(want, 0xee, sizeof want);
				memset(got, 0xee, sizeof got);
				flavour_compact()->columns(want, x, 0, LD, n, deep);
				k[i]->columns(got, x, 0, LD, n, deep);
				assert_memory_equal(got, want, sizeof want);
				for (int at = 0; at < (deep + 1) / 2 * 2; at++)
					for (int j = 0; j < NR; j++)
						((uint16_t *)want)[(at / 2 * NR + j) * 2 + at % 2] = j < n && at < deep ? shorter[j * LD + at] : 0;
				k[i]->columns(got, shorter, 1, LD, n, deep);
				assert_memory_equal(got, want, sizeof want);
				flavour_compact()->columns(got, shorter, 1, LD, n, deep);
				assert_memory_equal(got, want, sizeof want);
			}
}

/* sum of m rows of x (m, k) and of x stored transposed, times a panel; with `bf16` x holds bf16 numbers */
static void multiply(const struct compact_kernel *q, int across, const void *x, int bf16, int64_t m, int64_t k, const uint32_t *panel, float *sum)
{
	int64_t pairs = (k + 1) / 2, lda = across ? MR : K, step = q->row(pairs), bytes = (MR + q->mr) * step;
	char *rows = room(bytes);

	memset(rows, 0xff, (size_t)bytes);
	if (across)
		q->across(rows, x, bf16, lda, m, k);
	else
		for (int64_t i = 0; i < m; i++)
			q->round(rows + i * step, compact_number(x, bf16, i * lda), bf16, k);
	if (q->begin)
		q->begin();
	for (int64_t i = 0; i < m; i += q->mr)
		(across ? q->tile_across : q->tile)(sum + i * NR, NR, rows + i * step, panel, pairs, m - i < q->mr ? m - i : q->mr);
	if (q->end)
		q->end();
	mem_free(rows);
}

/* The same in the order of AMX. */
static void multiply_in_order(int across, const float *x, int64_t m, int64_t k, const uint32_t *panel, float *sum)
{
	float rows[MR * K], columns[NR * K];

	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < k; j++)
			rows[i * k + j] = bf16_to_f32(f32_to_bf16(across ? x[j * MR + i] : x[i * K + j]));
	for (int64_t n = 0; n < NR; n++)
		for (int64_t j = 0; j < k; j++)
			columns[n * k + j] = bf16_to_f32((uint16_t)(panel[j / 2 * NR + n] >> 16 * (j % 2)));
	amx_product(sum, NR, rows, columns, m, NR, k, 0);
}

static void tiles_alike(void **state)
{
	const struct compact_kernel *k[4];
	float *x = room(K * MR * 4), *even = room(PAIRS * NR * 4), *odd = room(PAIRS * NR * 4), *want = room(MR * NR * 4),
	      *got = room(2 * MR * NR * 4);
	uint32_t *panel = room(PAIRS * NR * 4);
	uint16_t *shorter = room(K * MR * 2);

	(void)state;
	draw(x, K * MR, 3, 0);
	for (int i = 0; i < K * MR; i++)
		shorter[i] = f32_to_bf16(x[i]);
	draw(even, PAIRS * NR, 4, 0);
	draw(odd, PAIRS * NR, 5, 0);
	for (int p = 0; p < PAIRS; p++)
		flavour_compact()->weave(panel + p * NR, NR, even + p * NR, odd + p * NR, 0, NR);
	for (int i = 0, count = others(k); i < count; i++)
		for (int across = 0; across < 2; across++)
			for (int m = 1; m <= MR; m++)
				for (int odd_k = 0; odd_k < 2; odd_k++) {
					if (k[i]->mr == COMPACT_MR_AMX)
						multiply_in_order(across, x, m, K - odd_k, panel, want);
					else
						multiply(flavour_compact(), across, x, 0, m, K - odd_k, panel, want);
					for (int bf16 = 0; bf16 < 2; bf16++) {
						multiply(k[i], across, bf16 ? (const void *)shorter : x, bf16, m, K - odd_k, panel, got);
						assert_memory_equal(got, want, (size_t)(m * NR) * sizeof *got);
					}
					if (k[i]->mr == COMPACT_MR_AMX)
						continue;
					multiply(flavour_compact(), across, shorter, 1, m, K - odd_k, panel, got);
					assert_memory_equal(got, want, (size_t)(m * NR) * sizeof *got);
				}
	mem_free(x);
	mem_free(shorter);
	mem_free(even);
	mem_free(odd);
	mem_free(panel);
	mem_free(want);
	mem_free(got);
}

/* A product C = op(A) B [+ C] with one of the epilogues. A is transposed if `across`. */
enum { PLAIN, BIASED, SCALED_RELU, KEPT_RELU, SLOPE, EPILOGUES };

struct whole {
	struct gemm g;
	struct compact_panels b;
	struct gemm_epilogue_f32 ep;
	float *a, *rows, *columns, *c, *want, *aux; /* rows (M, K) and columns (N, K): both operands as they are rounded */
	void *data;
};

enum { GAP = 3 }; /* floats between the rows of A, C and aux, and after them */

/* Set the panels of B, bf16 or int8, and their numbers in w->columns. */
static void draw_panels(struct whole *w)
{
	const struct compact_kernel *q = flavour_compact();
	int64_t n = w->b.n, k = w->b.k;
	float *b = room(k * n * 4);

	draw(b, k * n, 8, 0);
	for (int64_t i = 0; i < k * n; i++) {
		b[i] = w->b.type == COMPACT_INT8 ? (float)(i * 37 % 255 - 127) : bf16_to_f32(f32_to_bf16(b[i]));
		w->columns[i % n * k + i / n] = b[i];
	}
	for (int64_t chunk = 0; chunk * GEMM_KC < k; chunk++)
		for (int64_t p = 0; p < compact_panel_count(&w->b); p++) {
			int64_t len = compact_chunk_len(&w->b, chunk), cols = n - p * NR < NR ? n - p * NR : NR;
			const float *from = b + chunk * GEMM_KC * n + p * NR;
			int8_t *to = compact_panel_at(&w->b, chunk, p);

			if (w->b.type == COMPACT_BF16)
				compact_pack_rows(q, (uint32_t *)(void *)to, 0, from, 0, n, cols, len);
			for (int64_t i = 0; w->b.type == COMPACT_INT8 && i < len * cols; i++)
				to[i / cols * NR + i % cols] = (int8_t)from[i / cols * n + i % cols];
		}
	mem_free(b);
}

static struct whole whole_new(int64_t m, int64_t n, int64_t k, enum compact_type type, int across, int accumulate)
{
	int64_t lda = (across ? m : k) + GAP, ldc = n + GAP, panels = (n + NR - 1) / NR;
	struct whole w = {.g = {.ta = across ? GEMM_T : GEMM_N, .m = m, .n = n, .k = k, .lda = lda, .ldc = ldc, .accumulate = accumulate}};

	w.a = room((across ? k : m) * lda * 4);
	w.rows = room(m * k * 4);
	w.columns = room(n * k * 4);
	w.c = room(m * ldc * 4);
	w.want = room(m * ldc * 4);
	w.aux = room(m * ldc * 4);
	w.data = room((k + 1) * panels * NR * 2);
	w.b = (struct compact_panels){.type = type, .n = n, .k = k, .data = w.data};
	memset(w.data, 0, (size_t)((k + 1) * panels * NR * 2));
	draw_panels(&w);
	draw(w.a, (across ? k : m) * lda, 7, 0);
	for (int64_t i = 0; i < m * k; i++)
		w.rows[i] = bf16_to_f32(f32_to_bf16(w.a[across ? i % k * lda + i / k : i / k * lda + i % k]));
	draw(w.c, m * ldc, 9, 0);
	memcpy(w.want, w.c, (size_t)(m * ldc) * sizeof *w.c);
	memcpy(w.aux, w.c, (size_t)(m * ldc) * sizeof *w.c);
	amx_product(w.want, ldc, w.rows, w.columns, m, n, k, accumulate);
	return w;
}

static void whole_free(struct whole *w)
{
	mem_free(w->a), mem_free(w->rows), mem_free(w->columns), mem_free(w->c), mem_free(w->want), mem_free(w->aux), mem_free(w->data);
}

/* Multiply, and compare all of C and aux, gaps too, with w->want, which is the product in the order of AMX, or with the portable product. `epilogue`
 * follows: a bias; a scale, bias and relu, or bias and relu, with the values before relu in aux; GELU's slope. p may be NULL. */
static void whole_test(struct pool *p, const struct compact_kernel *q, struct whole *w, int epilogue, int in_order)
{
	int64_t m = w->g.m, n = w->g.n, ld = w->g.ldc;
	int kept = epilogue == SCALED_RELU || epilogue == KEPT_RELU;
	float *bias = room(n * 4), *scale = room(n * 4), *aux = room(m * ld * 4), *pre = room(m * ld * 4);
	void *own = room(pool_threads(p) * (int64_t)compact_own_bytes(NULL, 0)),
	     *shared = room((int64_t)compact_shared_bytes(&w->g, pool_threads(p)));

	draw(bias, n, 10, 0);
	draw(scale, n, 11, 0);
	draw(pre, m * ld, 12, 0);
	memcpy(aux, w->aux, (size_t)(m * ld) * sizeof *aux);
	if (!in_order) {
		memcpy(w->want, w->c, (size_t)(m * ld) * sizeof *aux);
		compact_multiply(NULL, flavour_compact(), &w->g, 0, &w->b, w->want, w->a, NULL, own, NULL);
	}
	w->b.scale = epilogue == SCALED_RELU ? scale : NULL;
	w->ep = (struct gemm_epilogue_f32){.bias = epilogue == BIASED || kept ? bias : NULL, .act = kept ? GEMM_RELU : GEMM_LINEAR};
	if (kept) {
		w->ep.aux = w->aux;
		w->ep.ldaux = ld;
	}
	if (epilogue == SLOPE) {
		w->ep.pre = pre;
		w->ep.ldpre = ld;
	}
	for (int64_t i = 0; i < m * ld; i++) {
		float *z = &w->want[i];

		if (i % ld >= n)
			continue;
		if (w->b.scale)
			*z *= scale[i % ld];
		if (w->ep.bias)
			*z += bias[i % ld];
		if (kept) {
			aux[i] = *z;
			*z = *z < 0 ? 0 : *z;
		} else if (epilogue == SLOPE) {
			*z *= real_gelu_slope(pre[i]);
		}
	}
	compact_multiply(p, q, &w->g, 0, &w->b, w->c, w->a, epilogue == PLAIN ? NULL : &w->ep, own, shared);
	if (memcmp(w->c, w->want, (size_t)(m * ld) * sizeof *aux) || memcmp(w->aux, aux, (size_t)(m * ld) * sizeof *aux))
		fail_msg("%dx%dx%d, type %d, ta %d, accumulate %d, epilogue %d, threads %d", (int)m, (int)n, (int)w->g.k, (int)w->b.type,
		         (int)w->g.ta, w->g.accumulate, epilogue, pool_threads(p));
	mem_free(bias);
	mem_free(scale);
	mem_free(aux);
	mem_free(pre);
	mem_free(own);
	mem_free(shared);
}

/* Whole products by the first `count` kernels: whole and partial tiles, several tasks, panels and chunks of K, one thread and three. */
static void test_products(const struct compact_kernel *const *k, int count, int in_order)
{
	static const int64_t shapes[][3] = {{1, 1, 1},     {11, 31, 33},  {15, 31, 33},  {12, 32, 32},  {32, 32, 32},
	                                    {33, 100, 50}, {70, 64, 383}, {200, 33, 64}, {64, 97, 801}, {70, 133, 7}};
	struct pool *three = pool_new(3, NULL);

	for (int i = 0; i < count; i++)
		for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
			for (int way = 0; way < 16 * EPILOGUES; way++) {
				enum compact_type type = way & 1 ? COMPACT_INT8 : COMPACT_BF16;
				struct whole w = whole_new(shapes[s][0], shapes[s][1], shapes[s][2], type, way >> 1 & 1, way >> 2 & 1);

				whole_test(way & 8 ? three : NULL, k[i], &w, way / 16, in_order);
				whole_free(&w);
			}
	pool_free(three);
}

/* By AMX's tiles, emulated and by the CPU's own. */
static void products_in_order(void **state)
{
	(void)state;
	test_products((const struct compact_kernel *[]){&compact_amx_emulated, &compact_amx}, compact_isa() == COMPACT_AMX ? 2 : 1, 1);
}

/* By AVX-512's instructions, emulated and by the CPU's own. */
static void products_alike(void **state)
{
	(void)state;
	test_products((const struct compact_kernel *[]){&compact_emulated, &compact_avx512}, compact_isa() == COMPACT_PORTABLE ? 1 : 2, 0);
}

/* Numbers near 2^-126, infinities and NaN: the tiles do what their emulation does. */
static void tiles_are_emulated(void **state)
{
	float *x, *y, *want, *got;
	uint32_t *panel;
	int zeros = 0, odd = 0;

	(void)state;
	if (compact_isa() != COMPACT_AMX) {
		print_message("# skip: this CPU has no AMX\n");
		skip();
	}
	x = room(K * MR * 4), y = room(2 * PAIRS * NR * 4), want = room(MR * NR * 4), got = room(MR * NR * 4);
	panel = room(PAIRS * NR * 4);
	for (int turn = 0; turn < 2; turn++) {
		draw(x, K * MR, 7, turn);
		draw(y, 2 * PAIRS * NR, 8, turn);
		for (int i = 0; !turn && i < K * MR; i++)
			x[i] *= 0x1p-64f;
		for (int i = 0; !turn && i < 2 * PAIRS * NR; i++)
			y[i] *= 0x1p-63f;
		for (int p = 0; p < PAIRS; p++)
			flavour_compact()->weave(panel + p * NR, NR, y + 2 * p * NR, y + (2 * p + 1) * NR, 0, NR);
		multiply(&compact_amx_emulated, 0, x, 0, MR, K, panel, want);
		multiply(&compact_amx, 0, x, 0, MR, K, panel, got);
		for (int i = 0; i < MR * NR; i++) {
			assert_true((isnan(got[i]) && isnan(want[i])) || bits_of_float(got[i]) == bits_of_float(want[i]));
			zeros += got[i] == 0;
			odd += !isfinite(got[i]);
		}
	}
	assert_true(zeros > 0 && odd > 0);
	mem_free(x);
	mem_free(y);
	mem_free(want);
	mem_free(got);
	mem_free(panel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(weaves_alike),      cmocka_unit_test(widens_alike),   cmocka_unit_test(tiles_alike),
	                                   cmocka_unit_test(columns_alike),     cmocka_unit_test(products_alike), cmocka_unit_test(products_in_order),
	                                   cmocka_unit_test(tiles_are_emulated)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif
