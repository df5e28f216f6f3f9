/* The tables of rotary positions against the formula with the C library's functions, the split of a head, and op_rotary on a tape. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/rotarytable.h"
#include "tape/ops.h"

/* Wan 2.1: heads of 128 channels have 44 for time, 42 for rows and 42 for columns. */
static void splits_a_head(void **state)
{
	int64_t pairs[ROTARY_AXES];

	(void)state;
	rotary_split(128, pairs);
	assert_true(pairs[0] == 22 && pairs[1] == 21 && pairs[2] == 21);
	rotary_split(64, pairs);
	assert_true(pairs[0] == 12 && pairs[1] == 10 && pairs[2] == 10);
	rotary_split(2, pairs);
	assert_true(pairs[0] == 1 && pairs[1] == 0 && pairs[2] == 0);
}

/* Both powers have errors of a few ulp, which a position of up to 10 multiplies. */
static void fills_by_the_formula(void **state)
{
	static const struct rotary_axes a = {3, {2, 3, 4}, {3, 1, 2}, {5, 0, -1.5}, 10000};
	double cosine[2 * 3 * 4 * 6], sine[2 * 3 * 4 * 6];

	(void)state;
	rotary_fill(&a, cosine, sine);
	for (int64_t n = 0; n < 24; n++) {
		const double at[3] = {5 + (double)(n / 12), (double)(n / 4 % 3), -1.5 + (double)(n % 4)};
		int64_t column = 0;

		for (int axis = 0; axis < 3; axis++)
			for (int64_t i = 0; i < a.pairs[axis]; i++, column++) {
				double angle = at[axis] / pow(10000, (double)(2 * i) / (double)(2 * a.pairs[axis]));

				assert_true(fabs(cosine[n * 6 + column] - cos(angle)) < 1e-13);
				assert_true(fabs(sine[n * 6 + column] - sin(angle)) < 1e-13);
			}
	}
}

enum { CAPACITY = 2, TOKENS = 6, WIDTH = 3 * 2 * 8, IN = CAPACITY * TOKENS * WIDTH, OUT = IN / 3 };

/* Attention with queries and keys turned, from packed (B, T, 3, heads, d). */
static struct tensor *turned_attention(struct tape *t, struct tensor *x, enum rotary_pairs way)
{
	static const struct rotary_axes a = {3, {1, 2, 3}, {2, 1, 1}, {0, 1, 2}, 100};
	int64_t packed[5] = {CAPACITY, TOKENS, 3, 2, 8};
	struct tensor *p[3], *cosine, *sine;

	rotary_record(t, &a, &cosine, &sine);
	op_unstack(t, op_reshape(t, x, 5, packed), 2, p);
	for (int i = 0; i < 2; i++)
		p[i] = op_rotary(t, p[i], cosine, sine, way);
	return op_attention(t, p[0], p[1], p[2], .5, 0);
}

static double weighted(const double *y, const double *w)
{
	double sum = 0;

	for (int i = 0; i < OUT; i++)
		sum += y[i] * w[i];
	return sum;
}

/* Central differences in double: errors of h^2 and of 1e-16 / h. */
static void differentiates(void **state)
{
	const double h = 1e-5;
	const int64_t shape[3] = {CAPACITY, TOKENS, WIDTH};
	double x[IN], dy[OUT];

	(void)state;
	for (int way = ROTARY_ADJACENT; way <= ROTARY_HALVES; way++) {
		struct tape *t = tape_new(DT_F64, CAPACITY);
		struct device *d = device_cpu(NULL, DT_F64);
		struct params p = {0};
		struct tensor *in = tape_input(t, DT_F64, 3, shape, TAPE_BATCHED | TAPE_GRAD), *y = turned_attention(t, in, way), *dout;
		int forward;

		tape_keep(t, y);
		forward = tape_mark(t);
		dout = tape_input(t, DT_F64, y->rank, y->shape, TAPE_BATCHED);
		tape_backward(t, y, dout);
		tape_layout(t, d, &(struct plan_options){.poison = 1});
		assert_int_equal(tape_allocate(t, NULL), 0);
		for (int i = 0; i < IN; i++)
			x[i] = sin(3. * i);
		for (int i = 0; i < OUT; i++)
			dy[i] = cos(5. * i);
		tape_bind(t, in, x);
		tape_bind(t, dout, dy);
		for (int i = 0; i < IN; i += 5) {
			struct tensor *g = tape_grad(t, in);
			double keep = x[i], above, below, got;
			int64_t at = i / (TOKENS * WIDTH) * g->stride[0] + i / WIDTH % TOKENS * g->stride[1] + i % WIDTH * g->stride[2];

			tape_run(t, CAPACITY, 0, tape_mark(t));
			got = ((double *)tape_data(t, g))[at];
			x[i] = keep + h;
			tape_run(t, CAPACITY, 0, forward);
			above = weighted(tape_data(t, y), dy);
			x[i] = keep - h;
			tape_run(t, CAPACITY, 0, forward);
			below = weighted(tape_data(t, y), dy);
			x[i] = keep;
			assert_true(fabs((above - below) / (2 * h) - got) < 1e-8);
		}
		tape_free(t);
		params_release(&p);
		device_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(splits_a_head),
	    cmocka_unit_test(fills_by_the_formula),
	    cmocka_unit_test(differentiates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
