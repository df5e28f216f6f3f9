/* CONV and its gradients. A sum of K products in float, whose chunks are added in order, has an error of a few sqrt(K) times 6e-8 of its terms: 3e-6
 * of the largest value at these sizes; 1e-14 in double. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

/* Channels of one pixel of x, and the weights (o, ky, kx, ..) that belong to them: what the sums below combine. */
struct taps {
	double *x; /* NULL outside x */
	double *w;
	int64_t x_step, w_step, n;
};

/* The pixel of x that output pixel y (b, oy, ox, o) and the weight pixel (ky, kx) combine: (b, oy step + ky - top, ox step + kx - left). */
static struct taps taps_at(const struct op_attr *a, const struct array *x, const struct array *w, const int64_t y[ARRAY_RANK], int64_t ky, int64_t kx)
{
	int64_t at[ARRAY_RANK] = {y[0], y[1] * a->conv.stride + ky - a->conv.top, y[2] * a->conv.stride + kx - a->conv.left};
	int64_t k[ARRAY_RANK] = {y[3], ky, kx};
	int inside = at[1] >= 0 && at[1] < x->shape[1] && at[2] >= 0 && at[2] < x->shape[2];

	return (struct taps){inside ? element(x, at) : NULL, element(w, k), x->stride[3], w->stride[3], w->shape[3]};
}

static double act_of(int64_t act, double z)
{
	switch (act - 1) {
	case UNARY_SILU:
		return z / (1 + exp(-z));
	case UNARY_RELU:
		return z < 0 ? 0 : z;
	case UNARY_TANH:
		return tanh(z);
	default:
		return z;
	}
}

static void ref_conv(const struct op_call *c)
{
	const struct array *y = &c->out[0], *w = &c->in[1];
	int64_t i[ARRAY_RANK] = {0};

	do {
		double z = c->in[3].data ? *element(&c->in[3], i) : 0;
		int64_t bias[ARRAY_RANK] = {i[3]};

		for (int64_t k = 0; k < w->shape[1] * w->shape[2]; k++) {
			struct taps t = taps_at(&c->attr, &c->in[0], w, i, k / w->shape[2], k % w->shape[2]);

			for (int64_t j = 0; t.x && j < t.n; j++)
				z += t.x[j * t.x_step] * t.w[j * t.w_step];
		}
		z += c->in[2].data ? *element(&c->in[2], bias) : 0;
		*element(y, i) = act_of(c->attr.conv.act, z);
		if (c->out[1].data)
			*element(&c->out[1], i) = z;
	} while (index_next(y, i));
}

static void ref_dx(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *w = &c->in[1], *dx = &c->out[0];
	int64_t i[ARRAY_RANK] = {0};

	memset(dx->data, 0, (size_t)array_count(dx) * sizeof(double));
	do
		for (int64_t k = 0; k < w->shape[1] * w->shape[2]; k++) {
			struct taps t = taps_at(&c->attr, dx, w, i, k / w->shape[2], k % w->shape[2]);

			for (int64_t j = 0; t.x && j < t.n; j++)
				t.x[j * t.x_step] += *element(dy, i) * t.w[j * t.w_step];
		}
	while (index_next(dy, i));
}

static void ref_dw(const struct op_call *c)
{
	const struct array *dy = &c->in[0], *x = &c->in[1], *dw = &c->out[0], *db = &c->out[1];
	int64_t i[ARRAY_RANK] = {0};

	memset(dw->data, 0, (size_t)array_count(dw) * sizeof(double));
	if (db->data)
		memset(db->data, 0, (size_t)array_count(db) * sizeof(double));
	do {
		int64_t bias[ARRAY_RANK] = {i[3]};

		for (int64_t k = 0; k < dw->shape[1] * dw->shape[2]; k++) {
			struct taps t = taps_at(&c->attr, x, dw, i, k / dw->shape[2], k % dw->shape[2]);

			for (int64_t j = 0; t.x && j < t.n; j++)
				t.w[j * t.w_step] += *element(dy, i) * t.x[j * t.x_step];
		}
		if (db->data)
			*element(db, bias) += *element(dy, i);
	} while (index_next(dy, i));
}

/* The padding is top, left, bottom, right, then 1 for op_conv_many. */
struct shape {
	int64_t b, h, w, c, o, kh, kw, step, pad[5];
};

static const struct shape shapes[] = {
    {2, 6, 7, 3, 5, 3, 3, 1, {1, 1, 1, 1}},
    {1, 1, 1, 1, 1, 1, 1, 1, {0}},
    {3, 1, 1, 5, 7, 1, 1, 1, {0}},
    {2, 5, 4, 8, 3, 1, 1, 1, {0}},
    {1, 1, 1, 2, 3, 3, 3, 1, {1, 1, 1, 1}}, /* windows with a single pixel inside */
    {3, 9, 8, 4, 6, 3, 3, 2, {1, 1, 1, 1}},
    {2, 8, 9, 4, 6, 3, 3, 2, {0, 0, 1, 1}},   /* padding below and to the right only, as in the downsampling of autoencoders */
    {1, 7, 7, 20, 33, 1, 7, 1, {0, 3, 0, 3}}, /* windows of one row or column, as in Inception */
    {1, 7, 7, 20, 33, 7, 1, 1, {3, 0, 3, 0}},
    {1, 11, 13, 3, 4, 5, 5, 3, {2, 2, 2, 2}},
    {1, 4, 4, 2, 2, 3, 2, 1, {4, 0, 0, 3}},     /* windows entirely outside */
    {2, 12, 11, 50, 70, 3, 3, 1, {1, 1, 1, 1}}, /* 450 products: two chunks, the second starts within a pixel */
    {1, 17, 15, 130, 34, 3, 3, 1, {1, 1, 1, 1}},
    /* Winograd: odd sizes, uneven padding, channels that are no multiple of the vector width, more than one block of tiles and columns */
    {3, 20, 20, 32, 32, 3, 3, 1, {1, 1, 1, 1}},
    {2, 21, 19, 37, 39, 3, 3, 1, {1, 1, 1, 1}},
    {1, 20, 22, 40, 33, 3, 3, 1, {0, 2, 1, 0}},
    {1, 20, 20, 200, 33, 3, 3, 1, {1, 1, 1, 1}},
    {1, 20, 20, 32, 150, 3, 3, 1, {1, 1, 1, 1}},
    {2, 17, 16, 33, 40, 5, 5, 1, {2, 2, 2, 2}},
    {1, 14, 16, 34, 36, 3, 3, 1, {1, 1, 1, 1}},   /* one pixel too few */
    {1, 15, 15, 244, 240, 3, 3, 1, {1, 1, 1, 1}}, /* enough weights for smaller transforms */
    {2, 17, 17, 40, 140, 1, 7, 1, {0, 3, 0, 3}},
    {2, 17, 16, 160, 34, 7, 1, 1, {1, 0, 4, 0}},
    {1, 15, 17, 34, 140, 1, 3, 1, {0, 1, 0, 1}},
    {2, 19, 15, 37, 40, 3, 1, 1, {2, 0, 0, 0}},
    /* few pixels, many samples */
    {5, 8, 8, 64, 150, 1, 3, 1, {0, 1, 0, 1, 1}},
    {3, 9, 8, 130, 34, 3, 1, 1, {1, 0, 1, 0, 1}},
    {3, 8, 8, 40, 132, 3, 3, 1, {1, 1, 1, 1, 1}},
    {2, 8, 8, 244, 240, 3, 3, 1, {1, 1, 1, 1, 1}},
    {2, 7, 9, 40, 36, 3, 3, 1, {1, 1, 1, 1, 1}}, /* one pixel too few here too */
};

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
	struct operands o = {.attr = {.conv = {.act = act, .many = (int)s->pad[4], .stride = s->step, .top = s->pad[0], .left = s->pad[1]}}};
	double fan = sqrt((double)(s->c * s->kh * s->kw));

	o.x = (struct operand){.rank = 4, .shape = {s->b, s->h, s->w, s->c}, .batch = 1};
	o.w = (struct operand){.rank = 4, .shape = {s->o, s->kh, s->kw, s->c}, .dense = 1, .scale = 1 / fan};
	o.bias = (struct operand){.rank = 1, .shape = {s->o}, .dense = 1};
	o.y = (struct operand){
	    .rank = 4,
	    .shape = {s->b, size_out(s->h, s->kh, s->step, s->pad[0], s->pad[2]), size_out(s->w, s->kw, s->step, s->pad[1], s->pad[3]), s->o},
	    .dense = s->h * s->w > 1,
	    .batch = 1};
	return o;
}

/* Without all optional operands; with bias and both outputs; with an addend that is overwritten. */
static void forward(void **state)
{
	static const int acts[] = {0, UNARY_RELU + 1, UNARY_SILU + 1, UNARY_TANH + 1};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operands o = operands_of(&shapes[k], acts[k % 4]);
		struct optest t = {.name = "CONV",
		                   .op = OP_CONV,
		                   .attr = o.attr,
		                   .nin = 4,
		                   .nout = 2,
		                   .in = {o.x, o.w},
		                   .out = {o.y},
		                   .ref = ref_conv,
		                   .tol32 = 3e-6,
		                   .tol64 = 1e-14,
		                   .samples = 1};

		optest_run(&t);
		t.in[2] = o.bias;
		t.out[1] = o.y;
		optest_run(&t);
		t.out[1].rank = 0;
		t.in[3] = o.y;
		t.in_place = 4;
		optest_run(&t);
	}
}

static void gradients(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		struct operands o = operands_of(&shapes[k], 0);
		struct optest dx = {.name = "CONV_DX",
		                    .op = OP_CONV_DX,
		                    .attr = o.attr,
		                    .nin = 2,
		                    .nout = 1,
		                    .in = {o.y, o.w},
		                    .out = {o.x},
		                    .ref = ref_dx,
		                    .tol32 = 3e-6,
		                    .tol64 = 1e-14,
		                    .samples = 1};
		struct optest dw = {.name = "CONV_DW",
		                    .op = OP_CONV_DW,
		                    .attr = o.attr,
		                    .nin = 2,
		                    .nout = 2,
		                    .in = {o.y, o.x},
		                    .out = {o.w, o.bias},
		                    .ref = ref_dw,
		                    .tol32 = 3e-6,
		                    .tol64 = 1e-14};

		dx.in[0].dense = 0;
		dx.out[0].dense = o.y.dense;
		optest_run(&dx);
		optest_run(&dw);
		dw.out[1].rank = 0;
		optest_run(&dw);
	}
}

/* The gradient rules are adjoints of the forward kernel. */
static void differences(void **state)
{
	static const struct shape small[] = {{2, 4, 5, 2, 3, 3, 3, 1, {1, 1, 1, 1}}, {1, 5, 4, 3, 2, 3, 2, 2, {0, 1, 1, 0}}};

	(void)state;
	for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
		struct operands o = operands_of(&small[k], 0);
		struct optest fwd = {.name = "CONV", .op = OP_CONV, .attr = o.attr, .nin = 4, .nout = 2, .in = {o.x, o.w, o.bias}, .out = {o.y}};
		struct optest dx = {.name = "CONV_DX",
		                    .op = OP_CONV_DX,
		                    .attr = o.attr,
		                    .nin = 2,
		                    .nout = 1,
		                    .in = {o.y, o.w},
		                    .out = {o.x},
		                    .tol32 = 3e-6,
		                    .tol64 = 1e-14,
		                    .samples = 1};
		struct optest dw = {.name = "CONV_DW",
		                    .op = OP_CONV_DW,
		                    .attr = o.attr,
		                    .nin = 2,
		                    .nout = 2,
		                    .in = {o.y, o.x},
		                    .out = {o.w, o.bias},
		                    .tol32 = 3e-6,
		                    .tol64 = 1e-14};

		dx.out[0].dense = 1;
		optest_gradient(&fwd, &dx, (int[OP_IN]){FROM_DY, FROM_IN + 1}, (int[OP_OUT]){0}, 0, 1e-8);
		optest_gradient(&fwd, &dw, (int[OP_IN]){FROM_DY, FROM_IN}, (int[OP_OUT]){1, 2}, 0, 1e-8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(gradients), cmocka_unit_test(differences)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
