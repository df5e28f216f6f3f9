/* POOL: the maximum is one of the values; an average adds at most 25 values and multiplies once: 1e-6. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

/* The window of an output, clipped to [lo, hi) in both directions; returns the weight of a value in an average. */
static double window(const struct op_attr *a, const struct array *x, const int64_t y[ARRAY_RANK], int64_t lo[2], int64_t hi[2])
{
	for (int d = 0; d < 2; d++) {
		int64_t at = y[1 + d] * a->pool.stride - a->pool.pad;

		lo[d] = at < 0 ? 0 : at;
		hi[d] = at + a->pool.k > x->shape[1 + d] ? x->shape[1 + d] : at + a->pool.k;
	}
	return 1 / (double)(a->pool.kind == POOL_AVERAGE_ALL ? a->pool.k * a->pool.k : (hi[0] - lo[0]) * (hi[1] - lo[1]));
}

static double *largest(const struct array *x, const int64_t y[ARRAY_RANK], const int64_t lo[2], const int64_t hi[2])
{
	double *best = NULL;

	for (int64_t i = lo[0]; i < hi[0]; i++)
		for (int64_t j = lo[1]; j < hi[1]; j++) {
			double *v = element(x, (int64_t[]){y[0], i, j, y[3], 0, 0});

			if (!best || *v > *best)
				best = v;
		}
	return best;
}

static void ref_pool(const struct op_call *c)
{
	int64_t y[ARRAY_RANK] = {0}, lo[2], hi[2];

	do {
		double share = window(&c->attr, &c->in[0], y, lo, hi), sum = 0;

		for (int64_t i = lo[0]; i < hi[0]; i++)
			for (int64_t j = lo[1]; j < hi[1]; j++)
				sum += *element(&c->in[0], (int64_t[]){y[0], i, j, y[3], 0, 0});
		*element(&c->out[0], y) = c->attr.pool.kind == POOL_MAX ? *largest(&c->in[0], y, lo, hi) : sum * share;
	} while (index_next(&c->out[0], y));
}

static void ref_grad(const struct op_call *c)
{
	int64_t y[ARRAY_RANK] = {0}, lo[2], hi[2];
	double *dx = c->out[0].data;

	memset(dx, 0, (size_t)array_count(&c->out[0]) * sizeof *dx);
	do {
		double share = window(&c->attr, &c->in[1], y, lo, hi), dy = *element(&c->in[0], y);

		if (c->attr.pool.kind == POOL_MAX)
			dx[largest(&c->in[1], y, lo, hi) - (double *)c->in[1].data] += dy;
		for (int64_t i = lo[0]; c->attr.pool.kind != POOL_MAX && i < hi[0]; i++)
			for (int64_t j = lo[1]; j < hi[1]; j++)
				*element(&c->out[0], (int64_t[]){y[0], i, j, y[3], 0, 0}) += dy * share;
	} while (index_next(&c->in[0], y));
}

static void pools(void **state)
{
	/* B H W C, k stride pad, Ho Wo (including a last window that the edge cuts) */
	static const int64_t cases[][9] = {
	    {2, 6, 7, 3, 3, 1, 1, 6, 7}, {1, 1, 1, 1, 1, 1, 0, 1, 1}, {3, 7, 9, 70, 3, 2, 0, 3, 4},  {2, 6, 8, 5, 3, 2, 0, 3, 4},
	    {1, 8, 8, 4, 2, 2, 0, 4, 4}, {2, 5, 5, 2, 5, 3, 2, 2, 2}, {1, 2, 3, 130, 3, 1, 1, 2, 3},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int kind = POOL_MAX; kind <= POOL_AVERAGE_ALL; kind++) {
			const int64_t *n = cases[k];
			struct op_attr attr = {.pool = {kind, n[4], n[5], n[6]}};
			struct operand x = {.rank = 4, .shape = {n[0], n[1], n[2], n[3]}, .dense = 1, .batch = 1};
			struct operand y = {.rank = 4, .shape = {n[0], n[7], n[8], n[3]}, .dense = 1, .batch = 1};
			struct optest t = {.name = "POOL",
			                   .op = OP_POOL,
			                   .attr = attr,
			                   .nin = 1,
			                   .nout = 1,
			                   .in = {x},
			                   .out = {y},
			                   .ref = ref_pool,
			                   .tol32 = 1e-6,
			                   .tol64 = 1e-15,
			                   .samples = 1};
			struct optest back = {.name = "POOL_GRAD",
			                      .op = OP_POOL_GRAD,
			                      .attr = attr,
			                      .nin = 2,
			                      .nout = 1,
			                      .in = {y, x},
			                      .out = {x},
			                      .ref = ref_grad,
			                      .tol32 = 2e-6,
			                      .tol64 = 1e-14,
			                      .samples = 1};

			optest_run(&t);
			optest_run(&back);
		}
}

/* A NaN in a window is its maximum. */
static void not_a_number(void **state)
{
	static const double values[9] = {1, 2, 3, 4, NAN, 6, 7, 8, 9};
	float x[9], y[1];
	struct device *d = device_cpu(NULL, DT_F32);
	struct op_call c = {.nin = 1,
	                    .nout = 1,
	                    .attr.pool = {POOL_MAX, 3, 1, 0},
	                    .in = {{x, DT_F32, 4, {1, 3, 3, 1}, {9, 3, 1, 1}}},
	                    .out = {{y, DT_F32, 4, {1, 1, 1, 1}, {1, 1, 1, 1}}}};

	(void)state;
	for (int i = 0; i < 9; i++)
		x[i] = (float)values[i];
	device_run(d, OP_POOL, &c, NULL);
	assert_true(isnan(y[0]));
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pools), cmocka_unit_test(not_a_number)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
