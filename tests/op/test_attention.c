/* ATTENTION and its gradient. Tolerance in float: scores are sums of d products, exp is within 2 ulp at scores of size 10, and sums have S terms:
 * 1e-5 of the largest value. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

static double score(const struct op_call *c, int64_t b, int64_t h, int64_t t, int64_t s)
{
	const struct array *q = &c->in[0], *k = &c->in[1];
	double sum = 0;

	for (int64_t i = 0; i < q->shape[3]; i++)
		sum += *element(q, (int64_t[ARRAY_RANK]){b, t, h, i}) * *element(k, (int64_t[ARRAY_RANK]){b, s, h, i});
	if (c->nin > 3)
		sum += *element(&c->in[3], (int64_t[ARRAY_RANK]){b, h, t, s}) / c->attr.attention.scale;
	return c->attr.attention.causal && s > t ? -INFINITY : c->attr.attention.scale * sum;
}

static void ref_attention(const struct op_call *c)
{
	const struct array *v = &c->in[2], *o = &c->out[0];
	int64_t i[ARRAY_RANK] = {0};

	do {
		double top = -INFINITY, sum = 0, y = 0;

		for (int64_t s = 0; s < v->shape[1]; s++)
			top = fmax(top, score(c, i[0], i[2], i[1], s));
		for (int64_t s = 0; s < v->shape[1]; s++) {
			double p = exp(score(c, i[0], i[2], i[1], s) - top);

			sum += p;
			y += p * *element(v, (int64_t[ARRAY_RANK]){i[0], s, i[2], i[3]});
		}
		*element(o, i) = y / sum;
		*element(&c->out[1], (int64_t[ARRAY_RANK]){i[0], i[2], i[1]}) = top + log(sum);
	} while (index_next(o, i));
}

static struct optest forward(int64_t b, int64_t t, int64_t s, int64_t heads, int64_t d, int causal)
{
	struct operand q = {.rank = 4, .shape = {b, t, heads, d}, .batch = 1}, k = {.rank = 4, .shape = {b, s, heads, d}, .batch = 1};

	return (struct optest){.name = "ATTENTION",
	                       .op = OP_ATTENTION,
	                       .attr.attention = {causal, 1 / sqrt((double)d)},
	                       .nin = 3,
	                       .nout = 2,
	                       .in = {q, k, k},
	                       .out = {q, {.rank = 3, .shape = {b, heads, t}, .batch = 1}},
	                       .ref = ref_attention,
	                       .tol32 = 1e-5,
	                       .tol64 = 1e-13,
	                       .samples = 1};
}

static void values(void **state)
{
	static const int64_t cases[][6] = {
	    {3, 5, 5, 2, 8, 0},     {2, 1, 1, 1, 8, 0},    {2, 7, 13, 3, 24, 0},  {2, 33, 17, 2, 12, 0},  {1, 300, 300, 1, 8, 0},
	    {2, 261, 261, 1, 8, 1}, {2, 64, 64, 2, 32, 0}, {1, 3, 2100, 1, 8, 0}, {1, 40, 2100, 1, 8, 0}, {2, 9, 9, 2, 8, 1},
	    {1, 300, 300, 1, 8, 1}, {2, 1, 5, 2, 128, 0},  {70, 4, 4, 2, 8, 0},   {70, 3, 3, 3, 5, 1},    {3, 16, 16, 2, 24, 0},
	    {3, 15, 16, 2, 33, 0},  {3, 16, 9, 1, 64, 0},  {3, 2, 16, 1, 1, 0},   {3, 17, 16, 2, 24, 0},  {3, 16, 17, 2, 24, 0},
	    {3, 16, 16, 2, 7, 1},   {3, 13, 6, 2, 17, 1},  {3, 6, 13, 2, 16, 1},  {1, 1, 16, 1, 128, 0},  {5, 300, 300, 1, 8, 0},
	    {9, 257, 300, 1, 8, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct optest t = forward(n[0], n[1], n[2], n[3], n[4], (int)n[5]);

		optest_run(&t);
	}
}

/* A bias for each head, query and key, and one that is broadcast over samples, or over heads and queries. */
static struct optest biased(const int64_t *n)
{
	struct optest t = forward(n[0], n[1], n[2], n[3], n[4], (int)n[5]);

	t.nin = 4;
	t.in[3] = (struct operand){.rank = 4, .shape = {n[0], n[3], n[1], n[2]}, .bcast = (unsigned)n[6], .batch = !(n[6] & 1), .scale = 3};
	return t;
}

static void biases(void **state)
{
	static const int64_t cases[][7] = {
	    {3, 5, 5, 2, 8, 0, 0},     {2, 7, 13, 3, 24, 0, 1}, {2, 33, 17, 2, 12, 0, 6},  {1, 300, 300, 1, 8, 0, 1}, {1, 40, 2100, 2, 8, 0, 0},
	    {1, 261, 261, 1, 8, 1, 1}, {2, 9, 9, 2, 8, 1, 0},   {1, 300, 300, 1, 8, 1, 1}, {2, 1, 1, 1, 8, 0, 0},     {5, 3, 70, 2, 5, 0, 7},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = biased(cases[k]);

		optest_run(&t);
	}
}

/* A bias of -10000 removes a key: the result is attention over the other keys. */
static void mask(void **state)
{
	struct optest t = biased((const int64_t[7]){2, 6, 9, 2, 8, 0, 6}), part = forward(2, 6, 7, 2, 8, 0);
	double *in[OP_IN] = {0}, *out[OP_OUT] = {0}, *few[OP_OUT] = {0}, *cut[OP_IN] = {0}, bias[18] = {0};

	(void)state;
	for (int i = 0; i < 18; i++)
		bias[i] = i % 9 == 3 || i % 9 == 8 ? -10000 : 0;
	t.in[3].values = bias;
	optest_values(&t, in, out);
	part.in[0].values = in[0];
	for (int a = 1; a < 3; a++) {
		double *v = mem_zalloc(2 * 7 * 16, sizeof *v);

		for (int b = 0; b < 2; b++)
			for (int s = 0, to = 0; s < 9; s++)
				if (s != 3 && s != 8)
					memcpy(v + (b * 7 + to++) * 16, in[a] + (b * 9 + s) * 16, 16 * sizeof *v);
		part.in[a].values = v;
	}
	optest_values(&part, cut, few);
	for (int i = 0; i < 2 * 6 * 16; i++)
		assert_true(fabs(out[0][i] - few[0][i]) < 1e-13);
	for (int a = 0; a < OP_IN; a++) {
		mem_free(in[a]);
		mem_free(cut[a]);
		if (a == 1 || a == 2)
			mem_free((double *)part.in[a].values);
	}
	for (int a = 0; a < OP_OUT; a++) {
		mem_free(out[a]);
		mem_free(few[a]);
	}
}

/* Scores of several hundred: the maximum must be subtracted before exp. */
static void large_scores(void **state)
{
	struct optest t = forward(2, 9, 9, 2, 8, 0);

	(void)state;
	t.in[0].scale = t.in[1].scale = 30;
	t.tol32 = 1e-3;
	t.tol64 = 1e-11;
	optest_run(&t);
}

static void gradients(void **state)
{
	static const int64_t cases[][6] = {
	    {2, 5, 5, 2, 8, 0},   {2, 1, 3, 1, 4, 0},   {1, 7, 13, 3, 6, 0},  {1, 18, 9, 2, 5, 0},  {2, 9, 9, 1, 8, 1},   {1, 6, 6, 2, 4, 1},
	    {1, 16, 16, 1, 9, 0}, {1, 16, 4, 2, 17, 0}, {2, 16, 16, 1, 3, 1}, {1, 17, 16, 1, 5, 0}, {1, 16, 17, 1, 5, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct optest t = forward(n[0], n[1], n[2], n[3], n[4], (int)n[5]);
		struct optest back = {.name = "ATTENTION_GRAD",
		                      .op = OP_ATTENTION_GRAD,
		                      .attr = t.attr,
		                      .nin = 6,
		                      .nout = 3,
		                      .in = {t.in[0], t.in[0], t.in[1], t.in[2], t.out[0], t.out[1]},
		                      .out = {t.in[0], t.in[1], t.in[2]},
		                      .tol32 = 2e-5,
		                      .tol64 = 1e-12,
		                      .samples = 1};

		optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_IN + 1, FROM_IN + 2, FROM_OUT, FROM_OUT + 1}, (int[OP_OUT]){0, 1, 2},
		                0, 1e-8);
	}
}

static void biased_gradients(void **state)
{
	static const int64_t cases[][7] = {{2, 5, 5, 2, 8, 0, 0}, {1, 7, 13, 3, 6, 0, 6}, {2, 9, 9, 1, 8, 1, 1}, {1, 1, 3, 1, 4, 0, 0}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = biased(cases[k]);
		struct optest back = {.name = "ATTENTION_GRAD, biased",
		                      .op = OP_ATTENTION_GRAD,
		                      .attr = t.attr,
		                      .nin = 7,
		                      .nout = 3,
		                      .in = {t.in[0], t.in[0], t.in[1], t.in[2], t.out[0], t.out[1], t.in[3]},
		                      .out = {t.in[0], t.in[1], t.in[2]},
		                      .tol32 = 2e-5,
		                      .tol64 = 1e-12,
		                      .samples = 1};

		optest_gradient(&t, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_IN + 1, FROM_IN + 2, FROM_OUT, FROM_OUT + 1, FROM_IN + 3},
		                (int[OP_OUT]){0, 1, 2}, 0, 1e-8);
	}
}

/* The gradient is summed over several blocks of queries: 2100 keys with 40 queries, and causal attention over 300, against plain loops. */
static void ref_gradient(const struct op_call *g)
{
	const struct op_call c = {.in = {g->in[1], g->in[2], g->in[3]}, .attr = g->attr};
	const struct array *dy = &g->in[0], *o = &g->in[4], *lse = &g->in[5];
	int64_t heads = dy->shape[2], d = dy->shape[3];
	int64_t i[ARRAY_RANK] = {0};

	for (int a = 0; a < 3; a++)
		do
			*element(&g->out[a], i) = 0;
		while (index_next(&g->out[a], i));
	for (int64_t r = 0; r < dy->shape[0] * heads * dy->shape[1]; r++)
		for (int64_t s = 0; s < c.in[1].shape[1]; s++) {
			int64_t at[ARRAY_RANK] = {r / heads / dy->shape[1], r % dy->shape[1], r / dy->shape[1] % heads, 0};
			int64_t to[ARRAY_RANK] = {at[0], s, at[2], 0};
			double p = exp(score(&c, at[0], at[2], at[1], s) - *element(lse, (int64_t[ARRAY_RANK]){at[0], at[2], at[1]}));
			double dp = 0;

			for (to[3] = at[3] = 0; at[3] < d; to[3] = ++at[3])
				dp += *element(dy, at) * (*element(&c.in[2], to) - *element(o, at));
			for (to[3] = at[3] = 0; at[3] < d; to[3] = ++at[3]) {
				*element(&g->out[0], at) += g->attr.attention.scale * p * dp * *element(&c.in[1], to);
				*element(&g->out[1], to) += g->attr.attention.scale * p * dp * *element(&c.in[0], at);
				*element(&g->out[2], to) += p * *element(dy, at);
			}
		}
}

static void long_gradients(void **state)
{
	static const int64_t cases[][6] = {{1, 40, 2100, 1, 8, 0}, {1, 300, 300, 2, 8, 1}, {2, 300, 300, 1, 8, 0}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct optest t = forward(n[0], n[1], n[2], n[3], n[4], (int)n[5]);
		struct optest back = {.name = "ATTENTION_GRAD, long",
		                      .op = OP_ATTENTION_GRAD,
		                      .attr = t.attr,
		                      .nin = 6,
		                      .nout = 3,
		                      .in = {t.in[0], t.in[0], t.in[1], t.in[2], t.out[0], t.out[1]},
		                      .ref = ref_gradient,
		                      .out = {t.in[0], t.in[1], t.in[2]},
		                      .tol32 = 2e-5,
		                      .tol64 = 1e-12,
		                      .samples = 1};
		double *in[OP_IN] = {0}, *out[OP_OUT] = {0};

		optest_values(&t, in, out);
		for (int i = 0; i < 3; i++)
			back.in[1 + i].values = in[i];
		back.in[4].values = out[0];
		back.in[5].values = out[1];
		optest_run(&back);
		for (int i = 0; i < 3; i++)
			mem_free(in[i]);
		mem_free(out[0]);
		mem_free(out[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),       cmocka_unit_test(biases),    cmocka_unit_test(mask),           cmocka_unit_test(biased_gradients),
	    cmocka_unit_test(large_scores), cmocka_unit_test(gradients), cmocka_unit_test(long_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
