/* Elementwise ops on the CPU: ADD, MUL, UNARY and its gradient. */
#include "kernels/device.h"

#include "kernels/vmath.h"
#include "kernels/walk.h"

static int dense(const struct each *e, int a)
{
	return each_step(e, a) == 1;
}

/* Define loops over runs that are contiguous in y and a, with b contiguous, constant, or strided. */
#define BINARY(name, expr) \
	static void name##_dense(real *y, const real *a, const real *b, real f0, real f1, int64_t n) \
	{ \
		(void)f0; \
		(void)f1; \
		INDEPENDENT for (int64_t i = 0; i < n; i++) \
		{ \
			real u = a[i], v = b[i]; \
			y[i] = expr; \
		} \
	} \
	static void name##_value(real *y, const real *a, real v, real f0, real f1, int64_t n) \
	{ \
		(void)f0; \
		(void)f1; \
		INDEPENDENT for (int64_t i = 0; i < n; i++) \
		{ \
			real u = a[i]; \
			y[i] = expr; \
		} \
	} \
	static void name##_span(const struct each *e, real *const p[], int64_t n) \
	{ \
		int64_t sy = each_step(e, 0), sa = each_step(e, 1), sb = each_step(e, 2); \
		real f0 = (real)e->c->attr.add.a, f1 = (real)e->c->attr.add.b; \
		(void)f0; \
		(void)f1; \
		if (sy == 1 && sa == 1 && sb == 1) \
			name##_dense(p[0], p[1], p[2], f0, f1, n); \
		else if (sy == 1 && sa == 1 && sb == 0) \
			name##_value(p[0], p[1], p[2][0], f0, f1, n); \
		else \
			for (int64_t i = 0; i < n; i++) { \
				real u = p[1][i * sa], v = p[2][i * sb]; \
				p[0][i * sy] = expr; \
			} \
	}

BINARY(add, REAL_FMA(f0, u, f1 *v))
BINARY(mul, u *v)

static void binary(const struct op_call *c, void (*fn)(const struct each *, real *const[], int64_t))
{
	struct each e;

	each_init(&e, c, &c->out[0]);
	each_add(&e, &c->out[0]);
	each_add(&e, &c->in[0]);
	each_add(&e, &c->in[1]);
	each_run(&e, fn);
}

static void add_run(const struct op_call *c)
{
	binary(c, add_span);
}

static void mul_run(const struct op_call *c)
{
	binary(c, mul_span);
}

static inline real gelu_erf(real x)
{
	return REAL_C(0.5) * x * (REAL_C(1.0) + real_erf(x * REAL_C(0.70710678118654752440)));
}

/* The derivative of x Phi(x): Phi(x) + x phi(x), with the normal distribution's Phi and density phi. */
static inline real gelu_erf_slope(real x)
{
	real phi = REAL_C(0.39894228040143267794) * real_exp(REAL_C(-0.5) * x * x);

	return REAL_C(0.5) * (REAL_C(1.0) + real_erf(x * REAL_C(0.70710678118654752440))) + x * phi;
}

static inline real tanh_slope(real x)
{
	real t = real_tanh(x);

	return REAL_C(1.0) - t * t;
}

static inline real sigmoid_slope(real x)
{
	real s, rest;

	real_sigmoid_pair(x, &s, &rest);
	return s * rest;
}

#define UNARY(name, value, slope) \
	static void name(real *y, const real *a, int64_t n) \
	{ \
		INDEPENDENT for (int64_t i = 0; i < n; i++) \
		{ \
			real x = a[i]; \
			y[i] = value; \
		} \
	} \
	static void name##_back(real *dx, const real *dy, const real *a, int64_t n) \
	{ \
		INDEPENDENT for (int64_t i = 0; i < n; i++) \
		{ \
			real x = a[i]; \
			dx[i] = dy[i] * (slope); \
		} \
	}

UNARY(silu, real_silu(x), real_silu_slope(x))
UNARY(gelu, real_gelu(x), real_gelu_slope(x))
UNARY(gelue, gelu_erf(x), gelu_erf_slope(x))
UNARY(tanhyp, real_tanh(x), tanh_slope(x))
UNARY(sigmoid, real_sigmoid(x), sigmoid_slope(x))
UNARY(expo, real_exp(x), real_exp(x))
UNARY(square, x *x, REAL_C(2.0) * x)
UNARY(relu, x > 0 ? x : 0, x > 0 ? REAL_C(1.0) : REAL_C(0.0))

static void (*const values[UNARY_COUNT])(real *, const real *, int64_t) = {
    [UNARY_SILU] = silu,       [UNARY_GELU_TANH] = gelu, [UNARY_GELU_ERF] = gelue, [UNARY_TANH] = tanhyp,
    [UNARY_SIGMOID] = sigmoid, [UNARY_EXP] = expo,       [UNARY_SQUARE] = square,  [UNARY_RELU] = relu,
};

static void (*const slopes[UNARY_COUNT])(real *, const real *, const real *, int64_t) = {
    [UNARY_SILU] = silu_back,       [UNARY_GELU_TANH] = gelu_back, [UNARY_GELU_ERF] = gelue_back, [UNARY_TANH] = tanhyp_back,
    [UNARY_SIGMOID] = sigmoid_back, [UNARY_EXP] = expo_back,       [UNARY_SQUARE] = square_back,  [UNARY_RELU] = relu_back,
};

static void unary_span(const struct each *e, real *const p[], int64_t n)
{
	void (*fn)(real *, const real *, int64_t) = values[e->c->attr.unary.fn];

	if (dense(e, 0) && dense(e, 1))
		fn(p[0], p[1], n);
	else
		for (int64_t i = 0; i < n; i++)
			fn(p[0] + i * each_step(e, 0), p[1] + i * each_step(e, 1), 1);
}

static void unary_grad_span(const struct each *e, real *const p[], int64_t n)
{
	void (*fn)(real *, const real *, const real *, int64_t) = slopes[e->c->attr.unary.fn];

	if (dense(e, 0) && dense(e, 1) && dense(e, 2))
		fn(p[0], p[1], p[2], n);
	else
		for (int64_t i = 0; i < n; i++)
			fn(p[0] + i * each_step(e, 0), p[1] + i * each_step(e, 1), p[2] + i * each_step(e, 2), 1);
}

static void unary_run(const struct op_call *c)
{
	struct each e;

	each_init(&e, c, &c->out[0]);
	each_add(&e, &c->out[0]);
	each_add(&e, &c->in[0]);
	each_run(&e, unary_span);
}

static void unary_grad_run(const struct op_call *c)
{
	binary(c, unary_grad_span);
}

const struct kernel REAL_NAME(kernel_add) = {add_run, NULL};
const struct kernel REAL_NAME(kernel_mul) = {mul_run, NULL};
const struct kernel REAL_NAME(kernel_unary) = {unary_run, NULL};
const struct kernel REAL_NAME(kernel_unary_grad) = {unary_grad_run, NULL};
