/* LINEAR, LINEAR_DX, LINEAR_DW through the device, in float and double, against plain loops. Rows lie within wider ones whose padding is NaN, outputs
 * are NaN before, and any pool gives the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "kernels/device.h"
#include "kernels/probe.h"

enum { B = 3, GAP = 2 };

static size_t size_of(const struct device *d)
{
	return dtype_size(d->real);
}

static double get(const struct device *d, const void *p, int64_t i)
{
	return d->real == DT_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void put(const struct device *d, void *p, int64_t i, double v)
{
	if (d->real == DT_F64)
		((double *)p)[i] = v;
	else
		((float *)p)[i] = (float)v;
}

static double wave(int key, int64_t i)
{
	return (double)(float)sin(1.7 * (double)i + 3.1 * key + .3 * (double)(i % 7));
}

/* An array [B, T, n] with row stride n + gap: all NaN, then filled with values from `key` unless that is 0. */
static struct array rows_new(const struct device *d, int key, int64_t t, int64_t n, int64_t gap)
{
	struct array a = {.dtype = d->real, .rank = 3, .shape = {B, t, n}, .stride = {t * (n + gap), n + gap, 1}};

	a.data = mem_alloc((size_t)(B * t * (n + gap) + 1) * size_of(d));
	for (int64_t i = 0; i < B * t * (n + gap); i++)
		put(d, a.data, i, key && i % (n + gap) < n ? wave(key, i / (n + gap) * n + i % (n + gap)) : NAN);
	return a;
}

static struct array flat_new(const struct device *d, int key, int64_t rows, int64_t n)
{
	struct array a = {.dtype = d->real, .rank = 2, .shape = {rows, n}, .stride = {n, 1}};

	if (!rows)
		a = (struct array){.dtype = d->real, .rank = 1, .shape = {n}, .stride = {1}};
	rows += !rows;
	a.data = mem_alloc((size_t)(rows * n + 1) * size_of(d));
	for (int64_t i = 0; i < rows * n; i++)
		put(d, a.data, i, key ? wave(key, i) : NAN);
	return a;
}

/* Element j of row r, where rows are numbered over the leading dimensions in row-major order. */
static double at(const struct device *d, const struct array *a, int64_t r, int64_t j)
{
	for (int i = a->rank - 2; i >= 0; i--) {
		j += r % a->shape[i] * a->stride[i];
		r /= a->shape[i];
	}
	return get(d, a->data, j);
}

static void op_run(struct device *d, enum op op, struct op_call *c)
{
	const struct kernel *k = d->kernel[op];
	size_t bytes = k->scratch ? k->scratch(c, pool_threads(d->pool)) : 0;
	unsigned char *scratch = mem_try(bytes + 64, 1, "scratch", NULL);

	memset(scratch, 0xff, bytes);
	c->pool = d->pool;
	c->scratch = scratch;
	k->run(c);
	for (int i = 0; i < 64; i++)
		assert_int_equal(scratch[bytes + (size_t)i], 0);
	mem_free(scratch);
}

static double activation(int64_t act, double x)
{
	switch (act - 1) {
	case UNARY_SILU:
		return x / (1 + exp(-x));
	case UNARY_GELU_TANH:
		return .5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + .044715 * x * x * x)));
	case UNARY_TANH:
		return tanh(x);
	case UNARY_RELU:
		return x > 0 ? x : 0;
	default:
		return x;
	}
}

static void near(const struct device *d, double got, double want, int64_t terms)
{
	assert_true(fabs(got - want) <= (d->real == DT_F64 ? 2e-15 : 2e-7) * ((double)(terms + 8) + 8 * fabs(want)));
}

static void free_all(struct op_call *c)
{
	for (int i = 0; i < c->nin; i++)
		mem_free(c->in[i].data);
	for (int i = 0; i < c->nout; i++)
		mem_free(c->out[i].data);
}

static void check_forward(struct device *d, int64_t t, int64_t n, int64_t k, int64_t act, int bias, int pre)
{
	struct op_call c = {.nin = 3, .nout = 2, .attr = {.linear = {act}}};
	struct array *x = &c.in[0], *w = &c.in[1], *y = &c.out[0];

	*x = rows_new(d, 1, t, k, GAP);
	*w = flat_new(d, 2, n, k);
	*y = rows_new(d, 0, t, n, GAP + 1);
	if (bias)
		c.in[2] = flat_new(d, 3, 0, n);
	if (pre)
		c.out[1] = rows_new(d, 0, t, n, 0);
	op_run(d, OP_LINEAR, &c);
	for (int64_t r = 0; r < B * t; r++) {
		for (int64_t j = 0; j < n; j++) {
			double z = bias ? wave(3, j) : 0;

			for (int64_t q = 0; q < k; q++)
				z += at(d, x, r, q) * at(d, w, j, q);
			near(d, at(d, y, r, j), activation(act, z), k);
			if (pre)
				near(d, at(d, &c.out[1], r, j), z, k);
		}
		assert_true(isnan(at(d, y, r, n)));
	}
	free_all(&c);
}

static double derivative(int64_t act, double x)
{
	double h = 1e-5;

	return act - 1 == UNARY_RELU ? x > 0 : (activation(act, x + h) - activation(act, x - h)) / (2 * h);
}

/* LINEAR_DX times the derivative of an activation: near differences of it, and with the bits of LINEAR_DX and UNARY_GRAD. */
static void check_slope(struct device *d, int64_t t, int64_t n, int64_t k, int64_t act)
{
	struct op_call c = {.nin = 3, .nout = 1, .attr = {.linear = {act}}}, e, u = {.nin = 2, .nout = 1};
	struct array *dx = &c.out[0], plain;

	c.in[0] = rows_new(d, 4, t, n, GAP);
	c.in[1] = flat_new(d, 2, n, k);
	c.in[2] = rows_new(d, 5, t, k, GAP + 2);
	*dx = rows_new(d, 0, t, k, GAP);
	op_run(d, OP_LINEAR_DX, &c);
	plain = rows_new(d, 0, t, k, GAP);
	e = c;
	e.nin = 2;
	e.out[0] = plain;
	op_run(d, OP_LINEAR_DX, &e);
	for (int64_t r = 0; r < B * t; r++)
		for (int64_t q = 0; q < k; q++)
			assert_true(fabs(at(d, dx, r, q) - at(d, &plain, r, q) * derivative(act, at(d, &c.in[2], r, q))) <
			            (d->real == DT_F64 ? 1e-9 : 1e-6) * (double)(n + 8));
	u.in[0] = u.out[0] = plain;
	u.in[1] = c.in[2];
	u.attr.unary.fn = (enum unary)(act - 1);
	op_run(d, OP_UNARY_GRAD, &u);
	assert_memory_equal(dx->data, plain.data, (size_t)(B * t * (k + GAP)) * size_of(d));
	mem_free(plain.data);
	free_all(&c);
}

static void check_gradients(struct device *d, int64_t t, int64_t n, int64_t k, int bias)
{
	struct op_call c = {.nin = 2, .nout = 1}, e = {.nin = 2, .nout = 2};
	struct array *dy = &c.in[0], *w = &c.in[1], *dx = &c.out[0], *x = &e.in[1], *dw = &e.out[0];

	*dy = rows_new(d, 4, t, n, GAP);
	*w = flat_new(d, 2, n, k);
	*dx = rows_new(d, 0, t, k, GAP);
	op_run(d, OP_LINEAR_DX, &c);
	for (int64_t r = 0; r < B * t; r++)
		for (int64_t q = 0; q < k; q++) {
			double z = 0;

			for (int64_t j = 0; j < n; j++)
				z += at(d, dy, r, j) * at(d, w, j, q);
			near(d, at(d, dx, r, q), z, n);
		}
	e.in[0] = rows_new(d, 4, t, n, 1);
	*x = rows_new(d, 1, t, k, GAP);
	*dw = flat_new(d, 0, n, k);
	if (bias)
		e.out[1] = flat_new(d, 0, 0, n);
	op_run(d, OP_LINEAR_DW, &e);
	for (int64_t j = 0; j < n; j++) {
		double s = 0;

		for (int64_t q = 0; q < k; q++) {
			double z = 0;

			for (int64_t r = 0; r < B * t; r++)
				z += at(d, dy, r, j) * at(d, x, r, q);
			near(d, at(d, dw, j, q), z, B * t);
		}
		for (int64_t r = 0; r < B * t; r++)
			s += at(d, dy, r, j);
		if (bias)
			near(d, get(d, e.out[1].data, j), s, B * t);
	}
	free_all(&c);
	free_all(&e);
}

static void loops(void **state)
{
	static const int64_t shape[][3] = {{1, 1, 1}, {1, 37, 5}, {5, 7, 66}, {16, 96, 64}, {200, 9, 11}, {23, 40, 401}};
	static const enum unary slopes[] = {UNARY_SILU, UNARY_GELU_TANH, UNARY_TANH, UNARY_RELU};
	struct pool *p = pool_new(2, NULL);

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct device *d = device_cpu(i & 1 ? p : NULL, i & 2 ? DT_F64 : DT_F32);

		for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
			int64_t t = shape[s][0], n = shape[s][1], k = shape[s][2];

			check_forward(d, t, n, k, 0, 0, 0);
			check_forward(d, t, n, k, 0, 1, 0);
			check_forward(d, t, n, k, 1 + UNARY_SILU, 1, 1);
			check_forward(d, t, n, k, 1 + UNARY_GELU_TANH, 1, 1);
			check_forward(d, t, n, k, 1 + UNARY_GELU_TANH, 1, 0);
			check_forward(d, t, n, k, 1 + UNARY_TANH, 0, 1);
			check_forward(d, t, n, k, 1 + UNARY_RELU, 1, 1);
			check_gradients(d, t, n, k, (int)s & 1);
			check_gradients(d, t, n, k, !(s & 1));
			for (int a = 0; a < 8; a++) {
				if (d->real == DT_F32)
					assert_int_equal(device_set_precision(d, a & 1 ? PRECISION_BF16_EMULATED : PRECISION_F32, NULL), 0);
				check_slope(d, t, n, k, 1 + slopes[a / 2]);
			}
			device_set_precision(d, PRECISION_F32, NULL);
		}
		device_free(d);
	}
	pool_free(p);
}

/* One product with every pool size; also a row that is broadcast with a stride of 0. */
static void same_bits(void **state)
{
	enum { T = 700, N = 33, K = 20 };
	void *first[2] = {NULL, NULL};

	(void)state;
	for (int threads = 1; threads <= 5; threads++) {
		struct pool *p = pool_new(threads, NULL);
		struct device *d = device_cpu(p, DT_F32);
		struct op_call c = {.nin = 2, .nout = 2};
		struct array x0;

		c.in[0] = rows_new(d, 4, T, N, 1);
		c.in[1] = rows_new(d, 1, T, K, 0);
		c.out[0] = flat_new(d, 0, N, K);
		c.out[1] = flat_new(d, 0, 0, N);
		op_run(d, OP_LINEAR_DW, &c);
		for (int o = 0; o < 2; o++) {
			size_t bytes = (size_t)(o ? N : N * K) * size_of(d);

			if (!first[o])
				first[o] = memcpy(mem_alloc(bytes), c.out[o].data, bytes);
			assert_memory_equal(first[o], c.out[o].data, bytes);
		}
		free_all(&c);

		x0 = rows_new(d, 1, 1, K, 0);
		c = (struct op_call){.nin = 2, .nout = 1};
		c.in[0] = (struct array){.data = x0.data, .dtype = d->real, .rank = 2, .shape = {50, K}, .stride = {0, 1}};
		c.in[1] = flat_new(d, 2, N, K);
		c.out[0] = flat_new(d, 0, 50, N);
		op_run(d, OP_LINEAR, &c);
		for (int r = 1; r < 50; r++)
			assert_memory_equal(c.out[0].data, (float *)c.out[0].data + r * N, N * sizeof(float));
		free_all(&c);
		device_free(d);
		pool_free(p);
	}
	mem_free(first[0]);
	mem_free(first[1]);
}

static void *no_memory(struct device *d, size_t bytes, const char *what, struct err *e)
{
	(void)d;
	(void)bytes;
	(void)what;
	(void)e;
	return NULL;
}

/* The probes give positive numbers and leave nothing allocated. */
static void probes(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct device_memory m;
	double flops = probe_flops(d);

	(void)state;
	assert_true(flops > 1e6 && flops < 1e15);
	d->memory(d, &m);
	assert_true(m.used == 0 && m.peak >= 3 * 512 * 512 * sizeof(float));
	d->alloc = no_memory;
	assert_true(probe_flops(d) == 0);
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loops),
	    cmocka_unit_test(same_bits),
	    cmocka_unit_test(probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
