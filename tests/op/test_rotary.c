/* ROTARY. Float: two products and a sum, each rounded once, 3 ulp = 2e-7 of the largest value. In double the kernel may or may not fuse. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

/* By complex numbers: a pair times cos + i sin, or times the conjugate. */
static void ref_rotary(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, half = c->in[1].shape[c->in[1].rank - 1];
	int last = c->in[1].rank - 1, halves = c->attr.rotary.pairs == ROTARY_HALVES;

	do {
		int64_t first[ARRAY_RANK], second[ARRAY_RANK];
		double cosine = *element(&c->in[1], i), sine = (c->attr.rotary.back ? -1 : 1) * *element(&c->in[2], i), a, b;

		memcpy(first, i, sizeof first);
		memcpy(second, i, sizeof second);
		first[last] = halves ? i[last] : 2 * i[last];
		second[last] = halves ? i[last] + half : 2 * i[last] + 1;
		a = *element(&c->in[0], first);
		b = *element(&c->in[0], second);
		*element(&c->out[0], first) = a * cosine - b * sine;
		*element(&c->out[0], second) = a * sine + b * cosine;
	} while (index_next(&c->in[1], i));
}

/* Shapes (B, T, heads, d), and the dimensions in which the tables are broadcast. 4: all heads have the same table; 5: all samples too; 7: all tokens
 * too. */
static const struct {
	int64_t shape[4];
	unsigned bcast;
} cases[] = {
    {{2, 3, 2, 4}, 5}, {{2, 3, 2, 4}, 4},  {{2, 3, 2, 6}, 0},  {{3, 5, 1, 2}, 5},   {{1, 1, 1, 2}, 5},  {{2, 7, 3, 10}, 4},
    {{2, 3, 2, 8}, 7}, {{2, 5, 3, 16}, 5}, {{2, 5, 3, 32}, 4}, {{2, 33, 6, 64}, 5}, {{3, 4, 2, 66}, 5}, {{1, 65, 3, 128}, 4},
};

static struct optest case_of(size_t k, enum rotary_pairs pairs, int back)
{
	struct optest t = {.name = "ROTARY",
	                   .op = OP_ROTARY,
	                   .attr.rotary = {pairs, back},
	                   .nin = 3,
	                   .nout = 1,
	                   .ref = ref_rotary,
	                   .tol32 = 2e-7,
	                   .tol64 = 4e-16,
	                   .in_place = 1,
	                   .samples = 1};

	t.in[0].rank = t.in[1].rank = 4;
	memcpy(t.in[0].shape, cases[k].shape, sizeof cases[k].shape);
	memcpy(t.in[1].shape, cases[k].shape, sizeof cases[k].shape);
	t.in[1].shape[3] /= 2;
	t.in[1].bcast = cases[k].bcast;
	t.in[0].batch = 1;
	t.in[1].batch = !(cases[k].bcast & 1);
	t.in[2] = t.in[1];
	t.out[0] = t.in[0];
	return t;
}

static void values(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int way = 0; way < 4; way++) {
			struct optest t = case_of(k, way & 1 ? ROTARY_HALVES : ROTARY_ADJACENT, way >> 1);

			optest_run(&t);
		}
}

/* The op is linear in x: differences of any step are exact up to rounding. Every element is moved, so only the small shapes. */
static void gradients(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases - 3; k++)
		for (int way = 0; way < 4; way++) {
			struct optest fwd = case_of(k, way & 1 ? ROTARY_HALVES : ROTARY_ADJACENT, way >> 1);
			struct optest back = case_of(k, way & 1 ? ROTARY_HALVES : ROTARY_ADJACENT, !(way >> 1));

			optest_gradient(&fwd, &back, (int[OP_IN]){FROM_DY, FROM_IN + 1, FROM_IN + 2}, (int[OP_OUT]){0}, 0, 1e-8);
		}
}

/* Rotations keep lengths, and the rotation back gives x again: errors of a few roundings. */
static void turns_back(void **state)
{
	enum { N = 2 * 3 * 2 * 16, PAIRS = 3 * 8 };
	double x[N], y[N], z[N], cosine[PAIRS], sine[PAIRS];

	(void)state;
	for (int i = 0; i < N; i++)
		x[i] = sin(i + 1.);
	for (int i = 0; i < PAIRS; i++)
		cosine[i] = cos(.7 * i), sine[i] = sin(.7 * i);
	for (int pairs = ROTARY_ADJACENT; pairs <= ROTARY_HALVES; pairs++) {
		struct array whole = {x, DT_F64, 4, {2, 3, 2, 16}, {96, 32, 16, 1}}, table = {cosine, DT_F64, 4, {1, 3, 1, 8}, {24, 8, 8, 1}};
		struct op_call c = {.nin = 3, .nout = 1, .in = {whole, table, table}, .out = {whole}, .attr.rotary = {pairs, 0}};
		extern const struct kernel kernel_rotary_f64;
		double before = 0, after = 0;

		for (int a = 1; a < 3; a++)
			c.in[a].shape[0] = 2, c.in[a].shape[2] = 2, c.in[a].stride[0] = c.in[a].stride[2] = 0;
		c.in[2].data = sine;
		c.out[0].data = y;
		optest_call(&kernel_rotary_f64, &c);
		c.in[0].data = y;
		c.out[0].data = z;
		c.attr.rotary.back = 1;
		optest_call(&kernel_rotary_f64, &c);
		for (int i = 0; i < N; i++) {
			before += x[i] * x[i];
			after += y[i] * y[i];
			assert_true(fabs(z[i] - x[i]) < 1e-15);
		}
		assert_true(fabs(after - before) < 1e-13 * before && memcmp(x, y, sizeof x) != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),
	    cmocka_unit_test(gradients),
	    cmocka_unit_test(turns_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
