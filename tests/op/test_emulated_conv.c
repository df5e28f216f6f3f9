/* CUDA's CONV, GROUPNORM, POOL and their gradients, run with tests/op/emulate.h, against the CPU's. A float product is made of three of tf32, which
 * loses 2 bits: 4e-6 of the largest value. */
#include "tests/op/hostile.h"
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"

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
    {2, 5, 4, 8, 3, 1, 1, 1, {0}}, /* 1 x 1: plain products */
    {2, 5, 6, 16, 8, 1, 1, 2, {0}},
    {1, 1, 1, 2, 3, 3, 3, 1, {1, 1, 1, 1}}, /* windows with a single pixel inside */
    {3, 9, 8, 4, 6, 3, 3, 2, {1, 1, 1, 1}},
    {2, 8, 9, 8, 16, 3, 3, 2, {0, 0, 1, 1}},  /* whole 16-byte words, padding on one side */
    {1, 7, 7, 20, 33, 1, 7, 1, {0, 3, 0, 3}}, /* a window of one row */
    {1, 7, 7, 24, 72, 7, 1, 1, {3, 0, 3, 0}},
    {1, 11, 13, 3, 4, 5, 5, 3, {2, 2, 2, 2}},
    {1, 4, 4, 2, 2, 3, 2, 1, {4, 0, 0, 3}}, /* windows entirely outside */
    {1, 9, 10, 40, 70, 3, 3, 1, {1, 1, 1, 1}},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* many: only for the gradient of the weights, whose sum is cut into parts. large: only for bfloat16, with large tiles, the last of them partial. */
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
	struct operands o = {.attr = {.conv = {.act = act, .stride = s->step, .top = s->pad[0], .left = s->pad[1]}}};

	o.x = (struct operand){.rank = 4, .shape = {s->b, s->h, s->w, s->c}, .batch = 1};
	o.w = (struct operand){.rank = 4, .shape = {s->o, s->kh, s->kw, s->c}, .dense = 1, .scale = 1 / sqrt((double)(s->c * s->kh * s->kw))};
	o.bias = (struct operand){.rank = 1, .shape = {s->o}, .dense = 1};
	o.y = (struct operand){
	    .rank = 4,
	    .shape = {s->b, size_out(s->h, s->kh, s->step, s->pad[0], s->pad[2]), size_out(s->w, s->kw, s->step, s->pad[1], s->pad[3]), s->o},
	    .dense = s->h * s->w > 1,
	    .batch = 1};
	return o;
}

static void forward(void **state)
{
	static const int acts[] = {0, UNARY_RELU + 1, UNARY_SILU + 1, UNARY_TANH + 1};

	(void)state;
	for (int k = 0; k < SHAPES; k++) {
		struct operands o = operands_of(&shapes[k], acts[k % 4]);
		struct optest t = {.name = "CONV", .op = OP_CONV, .attr = o.attr, .nin = 4, .nout = 2, .in = {o.x, o.w}, .out = {o.y}, .samples = 1};

		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.in[2] = o.bias;
		t.in[2].exact = 1;
		t.out[1] = o.y;
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.out[1].rank = 0;
		t.in[3] = o.y;
		t.in_place = 4;
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
		t.in[1].exact = 1; /* float weights, bfloat16 for the rest */
		optest_twin(&t, &kernel_conv_cuda, 4e-6);
	}
}

static void gradients_of(const struct shape *s)
{
	struct operands o = operands_of(s, 0);
	struct optest dx = {.name = "CONV_DX", .op = OP_CONV_DX, .attr = o.attr, .nin = 2, .nout = 1, .in = {o.y, o.w}, .out = {o.x}, .samples = 1};
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
	    {2, 3, 5, 6, 3, 0, 1, 1, 0},
	    {1, 1, 1, 4, 2, 0, 0, 1, 0},
	    {3, 2, 2, 5, 5, UNARY_SILU + 1, 1, 1, 0},
	    {2, 7, 3, 12, 1, UNARY_RELU + 1, 1, 1, 0},
	    {2, 9, 9, 64, 32, UNARY_SILU + 1, 1, 3, 50},
	    {1, 33, 31, 40, 4, 0, 1, 1, -2},
	    {1, 1, 5, 2000, 10, UNARY_SILU + 1, 1, 1, 0},
	    {2, 80, 60, 8, 2, UNARY_SILU + 1, 1, 1, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct operand x = {.rank = 4,
		                    .shape = {cases[k].b, cases[k].h, cases[k].w, cases[k].c},
		                    .dense = 1,
		                    .scale = cases[k].scale,
		                    .shift = cases[k].shift,
		                    .batch = 1};
		struct operand stats = {.rank = 3, .shape = {cases[k].b, cases[k].groups, 2}, .dense = 1, .exact = 1, .batch = 1}, rstd = stats,
			       v = {0};
		struct optest f = {.name = "GROUPNORM",
		                   .op = OP_GROUPNORM,
		                   .attr.groupnorm = {cases[k].groups, cases[k].act, 1e-5},
		                   .nin = 3,
		                   .nout = 2,
		                   .in = {x},
		                   .out = {x, stats},
		                   .in_place = 1,
		                   .samples = 1};
		struct optest g = {.name = "GROUPNORM_GRAD",
		                   .op = OP_GROUPNORM_GRAD,
		                   .attr = f.attr,
		                   .nin = 5,
		                   .nout = 3,
		                   .in = {x, x, rstd},
		                   .out = {x},
		                   .in_place = 1,
		                   .samples = !cases[k].affine};
		double tol = cases[k].shift > 9 ? 6e-5 : 4e-6;

		if (cases[k].affine)
			v = (struct operand){.rank = 1, .shape = {cases[k].c}, .dense = 1, .exact = 1};
		f.in[1] = f.in[2] = g.in[3] = g.in[4] = g.out[1] = g.out[2] = v;
		g.in[1].shift = 0;
		optest_twin(&f, &kernel_groupnorm_cuda, tol);
		optest_twin(&g, &kernel_groupnorm_grad_cuda, 1e-5);
	}
}

/* Run a kernel with exactly the scratch that it asks for. */
static void call(const struct kernel *k, struct op_call *c)
{
	c->scratch = mem_zalloc(k->scratch(c, 1) + 1, 1);
	optest_call(k, c);
	mem_free(c->scratch);
}

static void fill(const struct array *a, double phase)
{
	int64_t row = a->shape[a->rank - 1], stride = a->rank > 1 ? a->stride[a->rank - 2] : row;

	for (int64_t i = 0; i < array_count(a); i++) {
		float v = bf16_to_f32(f32_to_bf16(sinf((float)(phase * (double)i))));
		int64_t at = i / row * stride + i % row;

		if (a->dtype == DT_BF16)
			((uint16_t *)a->data)[at] = f32_to_bf16(v);
		else
			((float *)a->data)[at] = v;
	}
}

/* An array (n, h, w, c) with a stride of `pixel` between pixels, which begins at an address aligned to 16 bytes or, with `off`, one element later. */
static struct array lay(float *room, enum dtype t, int off, int64_t n, int64_t h, int64_t w, int64_t c, int64_t pixel)
{
	char *at = (char *)room + (16 - (uintptr_t)room % 16) % 16 + (off ? dtype_size(t) : 0);

	return (struct array){at, t, 4, {n, h, w, c}, {h * w * pixel, w * pixel, pixel, 1}};
}

enum { APART = 1 << 5 };

/* A convolution of 3 x 3 and its gradients. Three bits of `off` move the beginnings of the inputs; the others set the strides of the pixels of dy and
 * x to 8, 9 or 12. */
static void conv_at(unsigned off, enum dtype t, float *y, float *dx, float *dw)
{
	enum { C = 8, O = 8, SIDE = 5, MOST = SIDE * SIDE * 12 + 3 * 3 * C * O + 16 };
	static const struct op_attr attr = {.conv = {.stride = 1, .top = 1, .left = 1}};
	static float room[3][MOST];
	struct array x = lay(room[0], t, off & 1, 1, SIDE, SIDE, C, off & 16 ? 12 : C), w = lay(room[1], t, off & 2, O, 3, 3, C, C);
	struct array dy = lay(room[2], t, off & 4, 1, SIDE, SIDE, O, off & 8 ? O + 1 : O), none = {0};
	struct op_call f = {.nin = 2, .nout = 1, .in = {x, w}, .out = {lay(y, DT_F32, 0, 1, SIDE, SIDE, O, O)}, .attr = attr};
	struct op_call g = {.nin = 2, .nout = 1, .in = {dy, w}, .out = {lay(dx, DT_F32, 0, 1, SIDE, SIDE, C, C)}, .attr = attr};
	struct op_call h = {.nin = 2, .nout = 2, .in = {dy, x}, .out = {lay(dw, DT_F32, 0, O, 3, 3, C, C), none}, .attr = attr};

	fill(&x, 3);
	fill(&w, 5);
	fill(&dy, 7);
	call(&kernel_conv_cuda, &f);
	call(&kernel_conv_dx_cuda, &g);
	call(&kernel_conv_dw_cuda, &h);
}

/* Float pictures with bfloat16 weights: the pictures must be converted for the tiles. */
static void conv_of_two_types(void **state)
{
	enum { C = 8, SIDE = 5, OUT = SIDE * SIDE * C };
	_Alignas(16) static float x[SIDE * SIDE * C + 8], w[9 * C * C + 8], y[2][OUT];
	struct array weights = lay(w, DT_BF16, 0, C, 3, 3, C, C);

	(void)state;
	fill(&weights, 5);
	for (int k = 0; k < 2; k++) {
		struct array picture = lay(x, k ? DT_BF16 : DT_F32, 0, 1, SIDE, SIDE, C, C);
		struct op_call f = {.nin = 2,
		                    .nout = 1,
		                    .in = {picture, weights},
		                    .out = {lay(y[k], DT_F32, 0, 1, SIDE, SIDE, C, C)},
		                    .attr = {.conv = {.stride = 1, .top = 1, .left = 1}}};

		fill(&picture, 3);
		call(&kernel_conv_cuda, &f);
	}
	assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Reading by words and by elements gives the same bits. */
static void convs_anywhere(void **state)
{
	_Alignas(16) static float want[3][576], got[3][576];

	(void)state;
	for (int t = 0; t < 2; t++) {
		memset(want, 0, sizeof want);
		conv_at(0, t ? DT_BF16 : DT_F32, want[0], want[1], want[2]);
		for (unsigned off = 1; off < APART; off++) {
			memset(got, 0, sizeof got);
			conv_at(off, t ? DT_BF16 : DT_F32, got[0], got[1], got[2]);
			assert_memory_equal(got, want, sizeof got);
		}
	}
}

/* The addend and the pre-activation have their own strides. Nothing is written between, before or after rows, where the rest of a tile would be. With
 * a window of 3 x 3, and of 1 x 1, which is a product. */
static void convs_with_rows_of_their_own(void **state)
{
	enum { C = 8, O = 5, SIDE = 5, PIXELS = SIDE * SIDE, FAR = 256 * 16, ROOM = PIXELS * 16 + FAR };
	static float x[PIXELS * C + 8], w[9 * C * O + 8], bias[O + 8], add[2][ROOM], pre[2][ROOM], y[2][ROOM];
	static float want[PIXELS][O];
	static const int64_t apart[2][3] = {{O, O, O}, {7, 11, 13}};

	(void)state;
	for (int side = 1; side <= 3; side += 2) {
		struct array in = lay(x, DT_F32, 0, 1, SIDE, SIDE, C, C), weights = lay(w, DT_F32, 0, O, side, side, C, C);
		struct array b = {bias, DT_F32, 1, {O}, {1}};

		fill(&in, 3);
		fill(&weights, 5);
		fill(&b, 2);
		for (int k = 0; k < 2; k++) {
			struct array sum = lay(add[k], DT_F32, 0, 1, SIDE, SIDE, O, apart[k][0]);
			struct array before = lay(pre[k], DT_F32, 0, 1, SIDE, SIDE, O, apart[k][1]);
			struct array out = lay(y[k], DT_F32, 0, 1, SIDE, SIDE, O, apart[k][2]);
			struct op_call f = {.nin = 4,
			                    .nout = 2,
			                    .in = {in, weights, b, sum},
			                    .out = {out, before},
			                    .attr.conv = {.act = UNARY_SILU + 1, .stride = 1, .top = side / 2, .left = side / 2}};

			for (int i = 0; i < ROOM; i++)
				add[k][i] = pre[k][i] = y[k][i] = 1e9f;
			fill(&sum, 7);
			call(&kernel_conv_cuda, &f);
			for (int i = 0; i < ROOM; i++) {
				int64_t at = i - ((float *)out.data - y[k]), of = i - ((float *)before.data - pre[k]);
				int row = at < 0 ? PIXELS : (int)(at / apart[k][2]), col = (int)(at % apart[k][2]);

				assert_int_equal(y[k][i] != 1e9f, row < PIXELS && col < O);
				assert_int_equal(pre[k][i] != 1e9f, of >= 0 && of / apart[k][1] < PIXELS && of % apart[k][1] < O);
				if (!k && row < PIXELS)
					want[row][col] = y[k][i];
				else if (row < PIXELS && col < O)
					assert_true(y[k][i] == want[row][col]);
			}
		}
	}
}

/* GROUPNORM of a sample (1, H, W, C): y, stats and the gradient dx. By the bits of `off`, arrays begin at an address aligned to 16 bytes or one
 * element later. */
static void norm_at(unsigned off, enum dtype t, float *out)
{
	enum { C = 16, COUNT = 2 * 3 * C };
	static const struct op_attr attr = {.groupnorm = {4, UNARY_SILU + 1, 1e-5}};
	static float room[4][COUNT + 8];
	float stats[8];
	const struct array a[4] = {lay(room[0], t, off & 1, 1, 2, 3, C, C), lay(room[1], t, off & 2, 1, 2, 3, C, C),
	                           lay(room[2], t, off & 4, 1, 2, 3, C, C), lay(room[3], t, off & 8, 1, 2, 3, C, C)};
	struct array s = {stats, DT_F32, 3, {1, 4, 2}, {8, 2, 1}}, none = {0};
	struct op_call f = {.nin = 3, .nout = 2, .in = {a[0], none, none}, .out = {a[1], s}, .attr = attr};
	struct op_call g = {.nin = 5, .nout = 3, .in = {a[2], a[0], s, none, none}, .out = {a[3], none, none}, .attr = attr};

	fill(&a[0], 3);
	fill(&a[2], 5);
	call(&kernel_groupnorm_cuda, &f);
	call(&kernel_groupnorm_grad_cuda, &g);
	for (int i = 0; i < COUNT; i++) {
		out[i] = t == DT_BF16 ? bf16_to_f32(((uint16_t *)a[1].data)[i]) : ((float *)a[1].data)[i];
		out[COUNT + i] = t == DT_BF16 ? bf16_to_f32(((uint16_t *)a[3].data)[i]) : ((float *)a[3].data)[i];
	}
}

/* An array that is not aligned is read by elements in the same order, which gives the same bits. */
static void group_norms_anywhere(void **state)
{
	float want[192], got[192];

	(void)state;
	for (int t = 0; t < 2; t++) {
		norm_at(0, t ? DT_BF16 : DT_F32, want);
		for (unsigned off = 1; off < 16; off++) {
			norm_at(off, t ? DT_BF16 : DT_F32, got);
			assert_memory_equal(got, want, sizeof got);
		}
	}
}

static void hostile_group_norms(void **state)
{
	(void)state;
	hostile_norms(&kernel_groupnorm_cuda, &kernel_groupnorm_grad_cuda, 4);
}

/* Without samples nothing is launched. */
static void group_norm_of_nothing(void **state)
{
	float x[4];
	struct array a = {x, DT_F32, 4, {0, 1, 1, 4}, {4, 4, 4, 1}}, s = {x, DT_F32, 3, {0, 2, 2}, {4, 2, 1}}, none = {0};
	struct op_call f = {.nin = 3, .nout = 2, .in = {a, none, none}, .out = {a, s}, .attr.groupnorm = {2, 0, 1e-5}};
	struct op_call g = {.nin = 5, .nout = 3, .in = {a, a, s, none, none}, .out = {a, none, none}, .attr.groupnorm = {2, 0, 1e-5}};

	(void)state;
	call(&kernel_groupnorm_cuda, &f);
	call(&kernel_groupnorm_grad_cuda, &g);
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
			struct optest t = {.name = "POOL", .op = OP_POOL, .attr = attr, .nin = 1, .nout = 1, .in = {x}, .out = {y}, .samples = 1};
			struct optest back = {
			    .name = "POOL_GRAD", .op = OP_POOL_GRAD, .attr = attr, .nin = 2, .nout = 1, .in = {y, x}, .out = {x}, .samples = 1};

			optest_twin(&t, &kernel_pool_cuda, 0);
			optest_twin(&back, &kernel_pool_grad_cuda, 1e-6);
		}
}

/* Of equal values the first gets the whole gradient. NaN counts as the largest. */
static void ties(void **state)
{
	static const double values[16] = {1, 3, 3, 2, 3, 3, 1, 1, 2, 2, 2, 2, 1, 2, 2, 1};
	struct operand x = {.rank = 4, .shape = {1, 4, 4, 1}, .dense = 1, .values = values};
	struct operand y = {.rank = 4, .shape = {1, 3, 3, 1}, .dense = 1};
	struct optest back = {
	    .name = "POOL_GRAD", .op = OP_POOL_GRAD, .attr.pool = {POOL_MAX, 2, 1, 0}, .nin = 2, .nout = 1, .in = {y, x}, .out = {x}};
	float in[9] = {1, 2, 3, 4, NAN, 6, 7, 8, 9}, out[1];
	struct op_call c = {.nin = 1,
	                    .nout = 1,
	                    .attr.pool = {POOL_MAX, 3, 1, 0},
	                    .in = {{in, DT_F32, 4, {1, 3, 3, 1}, {9, 3, 1, 1}}},
	                    .out = {{out, DT_F32, 4, {1, 1, 1, 1}, {1, 1, 1, 1}}}};

	(void)state;
	optest_twin(&back, &kernel_pool_grad_cuda, 1e-6);
	optest_call(&kernel_pool_cuda, &c);
	assert_true(isnan(out[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forward),
	                                   cmocka_unit_test(gradients),
	                                   cmocka_unit_test(large_tiles),
	                                   cmocka_unit_test(convs_anywhere),
	                                   cmocka_unit_test(convs_with_rows_of_their_own),
	                                   cmocka_unit_test(conv_of_two_types),
	                                   cmocka_unit_test(group_norms),
	                                   cmocka_unit_test(group_norms_anywhere),
	                                   cmocka_unit_test(hostile_group_norms),
	                                   cmocka_unit_test(group_norm_of_nothing),
	                                   cmocka_unit_test(pools),
	                                   cmocka_unit_test(ties)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
