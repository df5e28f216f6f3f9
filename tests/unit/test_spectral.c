/* cluster/knngraph, cluster/topeigen, cluster/spectral: neighbours of points on a line and of equal points; eigenvalues of a ring and of a path in
 * closed form, repeated ones too; rings inside each other; graphs in pieces; the same bits for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cluster/knngraph.h"
#include "cluster/spectral.h"
#include "cluster/topeigen.h"
#include "core/mem.h"
#include "core/rng.h"

#define PI 3.14159265358979323846

/* Nearest neighbours of 0, 1, 3, 10: 1, 0, 1, 3. */
static void edges(void **state)
{
	const float x[] = {0, 1, 3, 10};
	const int32_t to[] = {1, 0, 2, 1, 3, 2};
	const float weight[] = {1, 1, .5f, .5f, .5f, .5f};
	const int64_t start[] = {0, 1, 3, 5, 6};
	struct knngraph g;
	struct err e = {0};

	(void)state;
	assert_int_equal(knngraph_make(&g, x, 4, 1, 1, NULL, NULL, &e), 0);
	assert_memory_equal(g.start, start, sizeof start);
	assert_memory_equal(g.to, to, sizeof to);
	assert_memory_equal(g.weight, weight, sizeof weight);
	assert_true(g.degree[1] == 1.5 && g.degree[3] == .5);
	assert_int_equal(knngraph_pieces(&g, NULL), 1);
	knngraph_release(&g);
}

/* Of equal points the first ones are the neighbours, and a point is not its own. */
static void equal_points(void **state)
{
	const float x[] = {5, 5, 5, 5, 9, 9, 9};
	const int32_t of[] = {0, 0, 0, 0, 1, 1, 1};
	struct knngraph g;
	struct err e = {0};
	int32_t piece[7];

	(void)state;
	assert_int_equal(knngraph_make(&g, x, 7, 1, 2, NULL, NULL, &e), 0);
	assert_int_equal(g.to[g.start[3]], 0);
	assert_int_equal(g.to[g.start[3] + 1], 1);
	assert_int_equal(g.start[4] - g.start[3], 2);
	assert_int_equal(knngraph_pieces(&g, piece), 2);
	assert_memory_equal(piece, of, sizeof of);
	knngraph_release(&g);
}

struct chain {
	int64_t n;
	int ring;
};

/* Each point is half its two neighbours: eigenvalues cos(2 pi j / n) of a ring, cos(pi j / (n + 1)), j = 1.. of a path. */
static void chain_rows(void *arg, double *out, const double *in, int columns, int64_t from, int64_t to)
{
	const struct chain *c = arg;

	for (int64_t i = from; i < to; i++)
		for (int k = 0; k < columns; k++) {
			double before = i || c->ring ? in[(i ? i - 1 : c->n - 1) * columns + k] : 0;
			double after = i < c->n - 1 || c->ring ? in[(i < c->n - 1 ? i + 1 : 0) * columns + k] : 0;

			out[i * columns + k] = (before + after) / 2;
		}
}

static void closed_form(void **state)
{
	(void)state;
	for (int ring = 0; ring < 2; ring++)
		for (int64_t n = 3; n <= 3000; n = n * 7 + 2) { /* 3, 23, 163, 1143: smaller and larger than the block, one and two pieces of rows */
			struct chain c = {n, ring};
			struct topeigen_matrix m = {n, chain_rows, &c};
			int k = n < 9 ? (int)n : 9;
			struct topeigen t;
			struct err e = {0};

			if (topeigen_find(&t, &m, k, 1e-8, 2000, 1, NULL, NULL, &e))
				fail_msg("%s", e.msg);
			assert_true(t.residual <= 1e-8);
			for (int j = 0; j < k; j++) {
				double want = ring ? cos(2 * PI * ((j + 1) / 2) / (double)n) : cos(PI * (j + 1) / (double)(n + 1)), length = 0,
				       dot = 0;

				if (!(fabs(t.value[j] - want) < 1e-12))
					fail_msg("n %d, value %d: %.15g, not %.15g", (int)n, j, t.value[j], want);
				for (int64_t i = 0; i < n; i++) {
					length += t.vector[i * t.columns + j] * t.vector[i * t.columns + j];
					dot += j ? t.vector[i * t.columns + j] * t.vector[i * t.columns + j - 1] : 0;
				}
				assert_true(fabs(length - 1) < 1e-12 && fabs(dot) < 1e-12);
			}
			topeigen_release(&t);
		}
}

/* With too few iterations the residual says so. */
static void unsettled(void **state)
{
	struct chain c = {20000, 1};
	struct topeigen_matrix m = {c.n, chain_rows, &c};
	struct topeigen t;
	struct err e = {0};

	(void)state;
	assert_int_equal(topeigen_find(&t, &m, 4, 1e-8, 3, 1, NULL, NULL, &e), 0);
	assert_int_equal(t.iterations, 3);
	assert_true(t.residual > 1e-8 && t.residual < 1);
	topeigen_release(&t);
}

/* n points on `rings` rings of radius 1, 2, ...; ring of point i: i % rings. */
static float *make_rings(int64_t n, int rings, float noise)
{
	float *x = mem_alloc((size_t)(2 * n) * sizeof *x);

	rng_normal(x, (size_t)(2 * n), 3, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < n; i++) {
		double at = 2 * PI * rng_uniform(3, RNG_TEST, 1, (uint64_t)i, 0), r = 1 + (double)(i % rings);

		x[2 * i] = (float)(r * cos(at)) + noise * x[2 * i];
		x[2 * i + 1] = (float)(r * sin(at)) + noise * x[2 * i + 1];
	}
	return x;
}

static void finds_rings(void **state)
{
	enum { N = 900 };

	(void)state;
	for (int neighbours = 8; neighbours <= 24; neighbours += 16) { /* three pieces; one, because edges join the rings */
		float *x = make_rings(N, 3, .08f);
		struct spectral_options o = {.k = 3, .neighbours = neighbours, .restarts = 10, .seed = 2};
		struct spectral_report r, again;
		struct err e = {0};
		struct pool *pool = pool_new(3, &e);
		int32_t c[N], other[N];
		int wrong = 0;

		if (spectral_cut(c, &r, x, N, 2, &o, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(r.pieces, neighbours == 8 ? 3 : 1);
		assert_int_equal(r.iterations > 0, neighbours == 24);
		assert_true(r.residual <= SPECTRAL_TOLERANCE);
		for (int i = 0; i < N; i++)
			wrong += c[i] != i % 3;
		assert_int_equal(wrong, 0);
		o.pool = pool;
		assert_int_equal(spectral_cut(other, &again, x, N, 2, &o, &e), 0);
		assert_memory_equal(c, other, sizeof c);
		assert_true(again.residual == r.residual);
		pool_free(pool);
		mem_free(x);
	}
}

static void pieces_refused(void **state)
{
	enum { N = 900 };
	float *x = make_rings(N, 3, .08f);
	struct spectral_options o = {.k = 2, .neighbours = 8, .seed = 2};
	struct spectral_report r;
	struct err e = {0};
	int32_t c[N];

	(void)state;
	assert_int_equal(spectral_cut(c, &r, x, N, 2, &o, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_string_equal(e.msg, "the graph of 8 nearest neighbours falls into 3 pieces, more than 2 clusters: take more neighbours or clusters");
	e = (struct err){0};
	o.k = SPECTRAL_CLUSTERS + 1;
	assert_int_equal(spectral_cut(c, &r, x, N, 2, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(edges),     cmocka_unit_test(equal_points), cmocka_unit_test(closed_form),
	    cmocka_unit_test(unsettled), cmocka_unit_test(finds_rings),  cmocka_unit_test(pieces_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
