/* The functions of OP_UNARY and their derivatives, for .cu files. */
#ifndef DDM_KERNELS_UNARY_H
#define DDM_KERNELS_UNARY_H

#include "kernels/launch.h"

static __device__ inline float sigmoid(float x)
{
	return 1.f / (1.f + expf(-x));
}

/* (1 + tanh u) / 2 computed as sigmoid(2 u), which avoids cancellation for negative x. */
static __device__ inline float gelu_gate(float x)
{
	return sigmoid(x * fmaf(x * x, .07135481627260025f, 1.5957691216057308f));
}

static __device__ inline float normal_cdf(float x)
{
	return .5f * erfcf(-.70710678118654752440f * x);
}

template <int U> struct unary_value;
template <int U> struct unary_slope;

/* clang-format off */
#define UNARY(kind, value, slope) \
	template <> struct unary_value<kind> { \
		__device__ float operator()(float x, float) const { return value; } \
	}; \
	template <> struct unary_slope<kind> { \
		__device__ float operator()(float dy, float x) const { return dy * (slope); } \
	};
/* clang-format on */

UNARY(UNARY_SILU, x *sigmoid(x), fmaf(x *sigmoid(x), sigmoid(-x), sigmoid(x)))
UNARY(UNARY_GELU_TANH, x *gelu_gate(x), gelu_gate(x) * fmaf(x * (1.f - gelu_gate(x)), fmaf(x *x, .21406444881780076f, 1.5957691216057308f), 1.f))
UNARY(UNARY_GELU_ERF, x *normal_cdf(x), normal_cdf(x) + x * .39894228040143267794f * expf(-.5f * x * x))
UNARY(UNARY_TANH, tanhf(x), 1.f - tanhf(x) * tanhf(x))
UNARY(UNARY_SIGMOID, sigmoid(x), sigmoid(x) * sigmoid(-x))
UNARY(UNARY_EXP, expf(x), expf(x))
UNARY(UNARY_SQUARE, x *x, 2.f * x)
UNARY(UNARY_RELU, x > 0.f ? x : 0.f, x > 0.f ? 1.f : 0.f)

/* Apply activation u, enum unary + 1; 0: x itself. u is uniform over the launch. */
static __device__ inline float unary_apply(int u, float x)
{
	switch (u - 1) {
	case UNARY_SILU:
		return unary_value<UNARY_SILU>()(x, x);
	case UNARY_GELU_TANH:
		return unary_value<UNARY_GELU_TANH>()(x, x);
	case UNARY_GELU_ERF:
		return unary_value<UNARY_GELU_ERF>()(x, x);
	case UNARY_TANH:
		return unary_value<UNARY_TANH>()(x, x);
	case UNARY_SIGMOID:
		return unary_value<UNARY_SIGMOID>()(x, x);
	case UNARY_EXP:
		return unary_value<UNARY_EXP>()(x, x);
	case UNARY_SQUARE:
		return unary_value<UNARY_SQUARE>()(x, x);
	case UNARY_RELU:
		return unary_value<UNARY_RELU>()(x, x);
	default:
		return x;
	}
}

/* dy times the derivative of activation u at x; 0: dy. u is uniform over the launch. */
static __device__ inline float unary_slope_apply(int u, float dy, float x)
{
	switch (u - 1) {
	case UNARY_SILU:
		return unary_slope<UNARY_SILU>()(dy, x);
	case UNARY_GELU_TANH:
		return unary_slope<UNARY_GELU_TANH>()(dy, x);
	case UNARY_GELU_ERF:
		return unary_slope<UNARY_GELU_ERF>()(dy, x);
	case UNARY_TANH:
		return unary_slope<UNARY_TANH>()(dy, x);
	case UNARY_SIGMOID:
		return unary_slope<UNARY_SIGMOID>()(dy, x);
	case UNARY_EXP:
		return unary_slope<UNARY_EXP>()(dy, x);
	case UNARY_SQUARE:
		return unary_slope<UNARY_SQUARE>()(dy, x);
	case UNARY_RELU:
		return unary_slope<UNARY_RELU>()(dy, x);
	default:
		return dy;
	}
}

#endif
