/* NEAREST and SEGMENT_SUM of CUDA, run with tests/op/emulate.h, and of the CPU, against their definitions in double. The chosen centre is the nearest
 * within the rounding of float: 4e-6 of |x|^2 + |c|^2. */
#include "kernels/flavour.h"
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

#define KERNELS(X) X(nearest) X(segment_sum)
#define X(fn) extern const struct kernel kernel_##fn##_cuda;
KERNELS(X)
#undef X

enum { GUARD = 64 };
#define ROUNDING 4e-6

static struct array matrix(enum dtype t, void *data, int64_t rows, int64_t cols)
{
	return (struct array){.rank = 2, .dtype = t, .data = data, .shape = {rows, cols}, .stride = {cols, 1}};
}

/* Run a kernel with exactly the scratch that it asks for. */
static void run(const struct kernel *k, struct op_call c)
{
	struct op_call shapes = c;
	unsigned char *scratch;
	size_t need;

	for (int i = 0; i < OP_IN; i++)
		shapes.in[i].data = NULL;
	for (int i = 0; i < OP_OUT; i++)
		shapes.out[i].data = NULL;
	need = k->scratch ? k->scratch(&shapes, 1) : 0;
	scratch = mem_alloc(need + GUARD);
	memset(scratch, 0xff, need + GUARD);
	c.scratch = scratch;
	optest_call(k, &c);
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(scratch[need + (size_t)i], 0xff);
	mem_free(scratch);
}

static float *normals(int64_t n, uint64_t which)
{
	float *x = mem_alloc((size_t)n * sizeof *x);

	rng_normal(x, n, 7, RNG_TEST, which, 0);
	return x;
}

static double distance2(const float *x, const float *c, int64_t d)
{
	double sum = 0;

	for (int64_t i = 0; i < d; i++)
		sum += ((double)x[i] - (double)c[i]) * ((double)x[i] - (double)c[i]);
	return sum;
}

static double length2(const float *x, int64_t d)
{
	double sum = 0;

	for (int64_t i = 0; i < d; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

struct points {
	int64_t n, d;
	int k;
	float *x, *c, *offset; /* offset NULL: none */
	float *near;
	int32_t *cluster;
	double *sums;
};

static int64_t pieces(const struct points *p)
{
	return (p->n + NEAREST_PIECE - 1) / NEAREST_PIECE;
}

static struct points points_new(int64_t n, int64_t d, int k)
{
	struct points p = {n, d, k, normals(n * d, 1), normals(k * d, 2), NULL, NULL, NULL, NULL};

	p.near = mem_alloc((size_t)n * sizeof *p.near);
	p.cluster = mem_alloc((size_t)n * sizeof *p.cluster);
	p.sums = mem_alloc((size_t)pieces(&p) * sizeof *p.sums);
	return p;
}

static void points_free(struct points *p)
{
	mem_free(p->x);
	mem_free(p->c);
	mem_free(p->offset);
	mem_free(p->near);
	mem_free(p->cluster);
	mem_free(p->sums);
}

static void find(const struct kernel *k, struct points *p, int lower, int clusters)
{
	struct op_call c = {.nin = 3, .nout = 3, .attr.nearest = {lower}, .in = {matrix(DT_F32, p->x, p->n, p->d), matrix(DT_F32, p->c, p->k, p->d)}};

	if (p->offset)
		c.in[2] = array_vector(DT_F32, p->offset, p->k);
	if (clusters)
		c.out[0] = array_vector(DT_I32, p->cluster, p->n);
	c.out[1] = array_vector(DT_F32, p->near, p->n);
	c.out[2] = array_vector(DT_F64, p->sums, pieces(p));
	if (!lower)
		memset(p->near, 0xff, (size_t)p->n * sizeof *p->near);
	memset(p->cluster, 0xff, (size_t)p->n * sizeof *p->cluster);
	memset(p->sums, 0xff, (size_t)pieces(p) * sizeof *p->sums);
	run(k, c);
}

static void check_sums(const struct points *p)
{
	for (int64_t s = 0; s < pieces(p); s++) {
		double sum = 0;

		for (int64_t i = s * NEAREST_PIECE; i < p->n && i < (s + 1) * NEAREST_PIECE; i++)
			sum += (double)p->near[i];
		if (!(fabs(sum - p->sums[s]) <= 1e-12 * sum))
			fail_msg("piece %d: %.17g, not %.17g", (int)s, p->sums[s], sum);
	}
}

/* No centre is nearer than the chosen one by more than rounding. Of equal centres the first is chosen. */
static void check(const struct points *p)
{
	for (int64_t i = 0; i < p->n; i++) {
		const float *x = p->x + i * p->d;
		int at = p->cluster[i];
		double own, price, rounding;

		if (at < 0 || at >= p->k)
			fail_msg("point %d: centre %d of %d", (int)i, at, p->k);
		own = distance2(x, p->c + at * p->d, p->d);
		price = own + (p->offset ? (double)p->offset[at] : 0);
		for (int k = 0; k < p->k; k++) {
			double other = distance2(x, p->c + k * p->d, p->d) + (p->offset ? (double)p->offset[k] : 0);

			rounding = ROUNDING * (length2(x, p->d) + length2(p->c + k * p->d, p->d) + (p->offset ? fabs((double)p->offset[k]) : 0));
			if (other < price - rounding || (k < at && other == price))
				fail_msg("point %d: centre %d at %.9g, not %d at %.9g", (int)i, at, price, k, other);
		}
		if (!(fabs((double)p->near[i] - own) <= ROUNDING * own))
			fail_msg("point %d: distance %.9g, not %.9g", (int)i, (double)p->near[i], own);
	}
	check_sums(p);
}

static const struct {
	int64_t n, d;
	int k;
} sizes[] = {
    {1, 1, 1}, {5, 3, 2}, {300, 33, 4}, {257, 40, 5}, {130, 1, 6}, {129, 7, 64}, {128, 64, 65}, {200, 100, 257}, {70, 96, 530}, {513, 24, 9},
};

static void nearest_by(const struct kernel *kernel)
{
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int offset = 0; offset < 2; offset++) {
			struct points p = points_new(sizes[s].n, sizes[s].d, sizes[s].k);

			p.offset = offset ? normals(p.k, 3) : NULL;
			find(kernel, &p, 0, 1);
			check(&p);
			points_free(&p);
		}
}

static void nearest(void **state)
{
	(void)state;
	nearest_by(flavour_kernels()[OP_NEAREST]);
	nearest_by(&kernel_nearest_cuda);
}

/* Far from the origin, where the prices are nearly equal. Factors of 16 bits cannot tell the centres apart, but distances in float can. Centres of
 * the first half are repeated in the second: the first one is chosen. */
static void near_ties_by(const struct kernel *kernel)
{
	struct points p = points_new(140, 50, 90);

	for (int64_t i = 0; i < p.n * p.d; i++)
		p.x[i] = 300 + p.x[i];
	for (int64_t i = 0; i < p.k * p.d; i++)
		p.c[i] = 300 + p.c[i];
	memcpy(p.c + 30 * p.d, p.c, (size_t)(30 * p.d) * sizeof *p.c);
	memcpy(p.c + 60 * p.d, p.c, (size_t)(15 * p.d) * sizeof *p.c);
	find(kernel, &p, 0, 1);
	for (int64_t i = 0; i < p.n; i++) {
		double own = distance2(p.x + i * p.d, p.c + p.cluster[i] * p.d, p.d);

		assert_true(p.cluster[i] < 30 || p.cluster[i] >= 75);
		for (int k = 0; k < p.k; k++) /* differences are exact, so the distances have errors of a few roundings */
			assert_true(distance2(p.x + i * p.d, p.c + k * p.d, p.d) >= own * (1 - 2e-6));
	}
	points_free(&p);
}

/* Pairs of centres that are far from each other, with points between the two centres of a pair. */
static void pairs_by(const struct kernel *kernel)
{
	struct points p = points_new(140, 50, 90);

	for (int k = 0; k < p.k; k++)
		for (int64_t o = 0; o < p.d; o++)
			p.c[k * p.d + o] = k % 2 ? p.c[(k - 1) * p.d + o] + .01f * p.c[k * p.d + o] : 300 * p.c[k * p.d + o];
	for (int64_t i = 0; i < p.n; i++)
		for (int64_t o = 0; o < p.d; o++)
			p.x[i * p.d + o] = .01f * p.x[i * p.d + o] + p.c[i % p.k * p.d + o];
	find(kernel, &p, 0, 1);
	for (int64_t i = 0; i < p.n; i++) {
		double own = distance2(p.x + i * p.d, p.c + p.cluster[i] * p.d, p.d);

		assert_int_equal(p.cluster[i] / 2, i % p.k / 2);
		assert_true(distance2(p.x + i * p.d, p.c + (p.cluster[i] ^ 1) * p.d, p.d) >= own * (1 - 2e-6));
	}
	points_free(&p);
}

static void near_ties(void **state)
{
	(void)state;
	pairs_by(flavour_kernels()[OP_NEAREST]);
	pairs_by(&kernel_nearest_cuda);
	near_ties_by(flavour_kernels()[OP_NEAREST]);
	near_ties_by(&kernel_nearest_cuda);
}

/* Each of a row's three lowest prices may be in any column: the row equals a centre, which takes every position. */
static void every_column(void **state)
{
	struct points p = points_new(600, 32, 600);

	(void)state;
	memcpy(p.x, p.c, (size_t)(p.n * p.d) * sizeof *p.x);
	find(&kernel_nearest_cuda, &p, 0, 1);
	for (int i = 0; i < p.n; i++) {
		assert_int_equal(p.cluster[i], i);
		assert_true(p.near[i] == 0);
	}
	points_free(&p);
}

/* With i0 distances can only become smaller, and the index of the centre is not computed. */
static void lowers_by(const struct kernel *kernel, int k)
{
	struct points p = points_new(300, 20, k);
	float *all = mem_alloc((size_t)p.n * sizeof *all);

	find(kernel, &p, 0, 0);
	memcpy(all, p.near, (size_t)p.n * sizeof *all);
	for (int64_t i = 0; i < p.n; i++)
		p.near[i] = i % 2 ? all[i] / 2 : INFINITY;
	find(kernel, &p, 1, 0);
	for (int64_t i = 0; i < p.n; i++) {
		assert_int_equal(p.cluster[i], -1);
		assert_true(p.near[i] == (i % 2 ? all[i] / 2 : all[i]));
	}
	check_sums(&p);
	mem_free(all);
	points_free(&p);
}

static void lowers(void **state)
{
	(void)state;
	for (int k = 3; k < 9; k += 5) {
		lowers_by(flavour_kernels()[OP_NEAREST], k);
		lowers_by(&kernel_nearest_cuda, k);
	}
}

/* Sums of x [n, d] by index, computed twice. If there are several segments, the last one stays empty. */
static void segments_by(const struct kernel *kernel, int64_t n, int64_t d, int k, int spread)
{
	float *x = normals(n * d, 4);
	int32_t *index = mem_alloc((size_t)n * sizeof *index), *count = mem_alloc((size_t)k * sizeof *count);
	double *sum = mem_alloc((size_t)(k * d) * sizeof *sum), *own = mem_zalloc((size_t)(k * d), sizeof *own);
	int64_t *rows = mem_zalloc((size_t)k, sizeof *rows);
	struct op_call c = {.nin = 2,
	                    .nout = 2,
	                    .in = {matrix(DT_F32, x, n, d), array_vector(DT_I32, index, n)},
	                    .out = {matrix(DT_F64, sum, k, d), array_vector(DT_I32, count, k)}};

	for (int64_t i = 0; i < n; i++) {
		index[i] = k < 2 ? 0 : (int32_t)(rng_below(1000, 7, RNG_TEST, 5, (uint64_t)i, 0) % (uint64_t)(spread < k ? spread : k - 1));
		rows[index[i]]++;
		for (int64_t o = 0; o < d; o++)
			own[index[i] * d + o] += (double)x[i * d + o];
	}
	memset(sum, 0xff, (size_t)(k * d) * sizeof *sum);
	memset(count, 0xff, (size_t)k * sizeof *count);
	for (int again = 0; again < 2; again++) {
		c.attr.segment_sum.anew = !again;
		run(kernel, c);
	}
	for (int s = 0; s < k; s++) {
		assert_int_equal(count[s], 2 * rows[s]);
		for (int64_t o = 0; o < d; o++)
			if (!(fabs(sum[s * d + o] - 2 * own[s * d + o]) <= 1e-12 * (double)(rows[s] + 1)))
				fail_msg("segment %d, column %d: %.17g, not %.17g", s, (int)o, sum[s * d + o], 2 * own[s * d + o]);
	}
	mem_free(x);
	mem_free(index);
	mem_free(count);
	mem_free(sum);
	mem_free(own);
	mem_free(rows);
}

static void segments(void **state)
{
	static const struct {
		int64_t n, d;
		int k, spread;
	} cases[] = {{1, 1, 1, 1},     {0, 5, 3, 1},        {700, 4, 1, 1},       {2500, 3, 7, 3}, {1025, 33, 300, 300},
	             {400, 260, 2, 1}, {90, 8, 1500, 1000}, {3000, 5, 1100, 900}, {50, 1030, 5, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		segments_by(flavour_kernels()[OP_SEGMENT_SUM], cases[i].n, cases[i].d, cases[i].k, cases[i].spread);
		segments_by(&kernel_segment_sum_cuda, cases[i].n, cases[i].d, cases[i].k, cases[i].spread);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nearest), cmocka_unit_test(near_ties), cmocka_unit_test(every_column),
	                                   cmocka_unit_test(lowers), cmocka_unit_test(segments)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
