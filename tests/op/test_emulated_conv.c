/* CONV, GROUPNORM, POOL and their gradients of CUDA, run by tests/op/emulate.h, beside the CPU's. Float products are made of three of
 * tf32, which loses 2 bits: 4e-6 of the largest value, as for the attention's. */
#include "tests/op/optest.h"

#include <math.h>

#define KERNELS(X) X(conv) X(conv_dx) X(conv_dw) X(groupnorm) X(groupnorm_grad) X(pool) X(pool_grad)
#define X(fn) extern const struct kernel kernel_##fn##_cuda;
KERNELS(X)
#undef X

/* Padding at the top, left, bottom, right. */
struct shape {
	int64_t b, h, w, c, o, kh, kw, step, pad[4];
};

static const struct shape shapes[] = {
    {2, 6, 7, 3, 5, 3, 3, 1, {1, 1, 1, 1}},
    {1, 1, 1, 1, 1, 1, 1, 1, {0}},
    {2, 5, 4, 8, 3, 1, 1, 1, {0}},            /* plain products */
    {2, 5, 6, 16, 8, 1, 1, 2, {0}},
    {1, 1, 1, 2, 3, 3, 3, 1, {1, 1, 1, 1}},   /* patches of which one pixel is inside */
    {3, 9, 8, 4, 6, 3, 3, 2, {1, 1, 1, 1}},
    {2, 8, 9, 8, 16, 3, 3, 2, {0, 0, 1, 1}},  /* whole words, padding on one side */
    {1, 7, 7, 20, 33, 1, 7, 1, {0, 3, 0, 3}}, /* a row, a column */
    {1, 7, 7, 24, 72, 7, 1, 1, {3, 0, 3, 0}},
    {1, 11, 13, 3, 4, 5, 5, 3, {2, 2, 2, 2}},
    {1, 4, 4, 2, 2, 3, 2, 1, {4, 0, 0, 3}},   /* windows wholly outside */
    {1, 9, 10, 40, 70, 3, 3, 1, {1, 1, 1, 1}},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Of the gradient of the weights alone: the sum is cut; of bfloat16 alone: large tiles, the last of them cut. */
static const struct shape many = {2, 48, 44, 3, 4, 3, 3, 1, {1, 1, 1, 1}}, large = {1, 129, 128, 8, 130, 1, 3, 1, {0, 1, 0, 1}};

static int64_t size_out(int64_t n, int64_t k, int64_t step, int64_t before, int64_t after)
{
	return (n + before + after - k) / step + 1;
}

struct operands {
	struct op_attr attr;
	struct operand x, w, bias, y;
};

static struct operands operands_of(const struct shape *s, int act)
{
	struct operands o = {.attr = {.i = {act, s->step, s->pad[0], s->pad[1]}}};

	o.x = (struct operand){.rank = 4, .shape = {s->b, s->h, s->w, s->c}};
	o.w = (struct operand){.rank = 4, .shape = {s->o, s->kh, s->kw, s->c}, .dense = 1, .scale = 1 / sqrt((double)(s->c * s->kh * s->kw))};
	o.bias = (struct operand){.rank = 1, .shape = {s->o}, .dense = 1};
	o.y = (struct operand){.rank = 4, .shape = {s->b, size_out(s->h, s->kh, s->step, s->pad[0], s->pad[2]),
	                                            size_out(s->w, s->kw, s->step, s->pad[1], s->pad[3]), s->o},
	                       .dense = s->h * s->w > 1};
	return o;
}

static void forward(void **state)
{
	static const int acts[] = {0, UNARY_RELU + 1, UNARY_SILU + 1, UNARY_TANH + 1};

	(void)state;
	for (int k = 0; k < SHAPES; k++) {
		struct operands o = operands_of(&shapes[k], acts[k % 4]);
		struct optest t = {.name = "CONV", .op = OP_CONV, .attr = o.attr, .nin = 4, .nout = 2, .in = {o.x, o.w}, .out = {o.y}};

		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.in[2] = o.bias;
		t.in[2].exact = 1;
		t.out[1] = o.y;
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.out[1].rank = 0;
		t.in[3] = o.y;
		t.in_place = 4;
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.in[1].exact = 1; /* float weights among bfloat16 */
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
	}
}

static void gradients_of(const struct shape *s)
{
	struct operands o = operands_of(s, 0);
	struct optest dx = {.name = "CONV_DX", .op = OP_CONV_DX, .attr = o.attr, .nin = 2, .nout = 1, .in = {o.y, o.w}, .out = {o.x}};
	struct optest dw = {.name = "CONV_DW", .op = OP_CONV_DW, .attr = o.attr, .nin = 2, .nout = 2, .in = {o.y, o.x}, .out = {o.w, o.bias}};

	dx.in[0].dense = 0;
	dx.out[0].dense = o.y.dense;
	dw.out[0].exact = dw.out[1].exact = 1;
	optest_twin(&dx, &kernel_conv_dx_cuda, 4e-6);
	optest_twin(&dw, &kernel_conv_dw_cuda, 4e-6);
	dw.out[1].rank = 0;
	optest_twin(&dw, &kernel_conv_dw_cuda, 4e-6);
}

static void gradients(void **state)
{
	(void)state;
	for (int k = 0; k < SHAPES; k++)
		gradients_of(&shapes[k]);
	gradients_of(&many);
}

static void large_tiles(void **state)
{
	struct operands o = operands_of(&large, 0);
	struct optest t = {.name = "CONV", .op = OP_CONV, .attr = o.attr, .nin = 2, .nout = 1, .in = {o.x, o.w}, .out = {o.y}};

	(void)state;
	optest_twin(&t, &kernel_conv_cuda, 4e-6);
}

static void group_norms(void **state)
{
	static const struct {
		int64_t b, h, w, c, groups;
		int act, affine;
		double scale, shift;
	} cases[] = {
	    {2, 3, 5, 6, 3, 0, 1, 1, 0},          {1, 1, 1, 4, 2, 0, 0, 1, 0},   {3, 2, 2, 5, 5, UNARY_SILU + 1, 1, 1, 0},
	    {2, 7, 3, 12, 1, UNARY_RELU + 1, 1, 1, 0}, {2, 9, 9, 64, 32, UNARY_SILU + 1, 1, 3, 50}, {1, 33, 31, 40, 4, 0, 1, 1, -2},
	    {1, 1, 5, 2000, 10, UNARY_SILU + 1, 1, 1, 0}, {2, 80, 60, 8, 2, UNARY_SILU + 1, 1, 1, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct operand x = {.rank = 4, .shape = {cases[k].b, cases[k].h, cases[k].w, cases[k].c}, .dense = 1, .scale = cases[k].scale,
		                    .shift = cases[k].shift};
		struct operand stats = {.rank = 3, .shape = {cases[k].b, cases[k].groups, 2}, .dense = 1, .exact = 1}, rstd = stats, v = {0};
		struct optest f = {.name = "GROUPNORM", .op = OP_GROUPNORM, .attr = {{cases[k].groups, cases[k].act}, {1e-5}}, .nin = 3, .nout = 2,
		                   .in = {x}, .out = {x, stats}, .in_place = 1};
		struct optest g = {.name = "GROUPNORM_GRAD", .op = OP_GROUPNORM_GRAD, .attr = f.attr, .nin = 5, .nout = 3, .in = {x, x, rstd},
		                   .out = {x}, .in_place = 1};
		double tol = cases[k].shift > 9 ? 6e-5 : 4e-6;

		if (cases[k].affine)
			v = (struct operand){.rank = 1, .shape = {cases[k].c}, .dense = 1, .exact = 1};
		f.in[1] = f.in[2] = g.in[3] = g.in[4] = g.out[1] = g.out[2] = v;
		g.in[1].shift = 0;
		optest_twin(&f, &kernel_groupnorm_cuda, tol);
		optest_twin(&g, &kernel_groupnorm_grad_cuda, 1e-5);
	}
}

static void pools(void **state)
{
	/* B H W C, k stride pad, Ho Wo (those of a last window that the edge cuts too) */
	static const int64_t cases[][9] = {
	    {2, 6, 7, 3, 3, 1, 1, 6, 7}, {1, 1, 1, 1, 1, 1, 0, 1, 1},   {3, 7, 9, 70, 3, 2, 0, 3, 4}, {2, 6, 8, 5, 3, 2, 0, 3, 4},
	    {1, 8, 8, 4, 2, 2, 0, 4, 4}, {2, 5, 5, 2, 5, 3, 2, 2, 2}, {1, 2, 3, 130, 3, 1, 1, 2, 3},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int kind = POOL_MAX; kind <= POOL_AVERAGE_ALL; kind++) {
			const int64_t *n = cases[k];
			struct op_attr attr = {{kind, n[4], n[5], n[6]}, {0}};
			struct operand x = {.rank = 4, .shape = {n[0], n[1], n[2], n[3]}, .dense = 1};
			struct operand y = {.rank = 4, .shape = {n[0], n[7], n[8], n[3]}, .dense = 1};
			struct optest t = {.name = "POOL", .op = OP_POOL, .attr = attr, .nin = 1, .nout = 1, .in = {x}, .out = {y}};
			struct optest back = {.name = "POOL_GRAD", .op = OP_POOL_GRAD, .attr = attr, .nin = 2, .nout = 1, .in = {y, x}, .out = {x}};

			optest_twin(&t, &kernel_pool_cuda, 0);
			optest_twin(&back, &kernel_pool_grad_cuda, 1e-6);
		}
}

/* Equal values: the first takes all. Not a number is the largest. */
static void ties(void **state)
{
	static const double values[16] = {1, 3, 3, 2, 3, 3, 1, 1, 2, 2, 2, 2, 1, 2, 2, 1};
	struct operand x = {.rank = 4, .shape = {1, 4, 4, 1}, .dense = 1, .values = values};
	struct operand y = {.rank = 4, .shape = {1, 3, 3, 1}, .dense = 1};
	struct optest back = {.name = "POOL_GRAD", .op = OP_POOL_GRAD, .attr = {{POOL_MAX, 2, 1, 0}, {0}}, .nin = 2, .nout = 1, .in = {y, x},
	                      .out = {x}};
	float in[9] = {1, 2, 3, 4, NAN, 6, 7, 8, 9}, out[1];
	struct op_call c = {.nin = 1, .nout = 1, .attr = {{POOL_MAX, 3, 1, 0}, {0}},
	                    .in = {{in, DT_F32, 4, {1, 3, 3, 1}, {9, 3, 1, 1}}}, .out = {{out, DT_F32, 4, {1, 1, 1, 1}, {1, 1, 1, 1}}}};

	(void)state;
	optest_twin(&back, &kernel_pool_grad_cuda, 1e-6);
	optest_call(&kernel_pool_cuda, &c);
	assert_true(isnan(out[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forward),     cmocka_unit_test(gradients), cmocka_unit_test(large_tiles),
	                                   cmocka_unit_test(group_norms), cmocka_unit_test(pools),     cmocka_unit_test(ties)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
