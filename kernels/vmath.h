/* Elementary functions without branches or calls, so that a loop over them vectorises. In float: polynomials, relative error
 * within the bound beside each (tests/op/test_vmath.c measures them against libm). In double: libm, for tests. A value has the same bits
 * in a vector lane, in a loop's tail and alone, because only REAL_FMA fuses operations. NaN gives NaN. */
#ifndef DDM_KERNELS_VMATH_H
#define DDM_KERNELS_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/real.h"

#ifdef REAL_IS_DOUBLE

static inline real real_exp(real x)
{
	return exp(x);
}
static inline real real_exp_down(real x)
{
	return exp(x);
}
static inline real real_exp2_near(real t)
{
	return exp2(t);
}
static inline real real_log(real x)
{
	return log(x);
}
static inline real real_tanh(real x)
{
	return tanh(x);
}
static inline real real_erf(real x)
{
	return erf(x);
}

static inline void real_sincos(real x, real *s, real *c)
{
	*s = sin(x);
	*c = cos(x);
}

#else

static inline float float_of_bits(int32_t i)
{
	float f;

	memcpy(&f, &i, sizeof f);
	return f;
}

static inline int32_t bits_of_float(float f)
{
	int32_t i;

	memcpy(&i, &f, sizeof i);
	return i;
}

/* e^x for x <= 88.3, as in a softmax. 1.5 ulp; 0 below -87.33, where the result would be subnormal. x = n ln 2 + r, e^r
 * by a polynomial (Cephes' coefficients). Adding 1.5 2^23 + 127 rounds to an integer and leaves n + 127, the exponent of 2^n, in the
 * low bits. */
static inline real real_exp_down(real x)
{
	const float magic = 0x1.8p23f + 127.0f;
	float t, n, r, p;

	t = REAL_FMA(x, 1.44269504f, magic);
	n = t - magic;
	r = REAL_FMA(n, -0.693359375f, x);
	r = REAL_FMA(n, 2.12194440e-4f, r);
	p = 1.9875691500e-4f;
	p = REAL_FMA(p, r, 1.3981999507e-3f);
	p = REAL_FMA(p, r, 8.3334519073e-3f);
	p = REAL_FMA(p, r, 4.1665795894e-2f);
	p = REAL_FMA(p, r, 1.6666665459e-1f);
	p = REAL_FMA(p, r, 5.0000001201e-1f);
	p = REAL_FMA(p, r * r, r) + 1.0f;
	p *= float_of_bits((int32_t)((uint32_t)bits_of_float(t) << 23));
	return x < -87.33f ? 0.0f : p;
}

/* e^x: real_exp_down, and infinity above 88.37. */
static inline real real_exp(real x)
{
	real y = real_exp_down(x);

	return x > 88.37f ? HUGE_VALF : y;
}

/* 2^t for -126 <= t <= 126. 2.5 ulp. t = n + f with f exact; 2^f is a polynomial, and n is added to its exponent bits. */
static inline real real_exp2_near(real t)
{
	const float magic = 0x1.8p23f;
	float m = t + magic, f = t - (m - magic), p;

	p = 1.326472726e-03f;
	p = REAL_FMA(p, f, 9.671512700e-03f);
	p = REAL_FMA(p, f, 5.550733744e-02f);
	p = REAL_FMA(p, f, 2.402224208e-01f);
	p = REAL_FMA(p, f, 6.931469776e-01f);
	p = REAL_FMA(p, f, 1.0f);
	return float_of_bits((int32_t)((uint32_t)bits_of_float(p) + ((uint32_t)bits_of_float(m) << 23)));
}

/* log x, 1.5 ulp. x = 2^n m, m in [sqrt(1/2), sqrt(2)), log m by a polynomial (Cephes' coefficients). log 0 = -infinity; NaN for x < 0. */
static inline real real_log(real x)
{
	int tiny = x < 0x1p-126f;
	float y = x * (tiny ? 0x1p23f : 1.0f), f, z, p, n;
	int32_t b = bits_of_float(y), e = (int32_t)((uint32_t)b - 0x3f3504f3u) >> 23;

	n = (float)e - (tiny ? 23.0f : 0.0f);
	f = float_of_bits((int32_t)((uint32_t)b - ((uint32_t)e << 23))) - 1.0f;
	z = f * f;
	p = 7.0376836292e-2f;
	p = REAL_FMA(p, f, -1.1514610310e-1f);
	p = REAL_FMA(p, f, 1.1676998740e-1f);
	p = REAL_FMA(p, f, -1.2420140846e-1f);
	p = REAL_FMA(p, f, 1.4249322787e-1f);
	p = REAL_FMA(p, f, -1.6668057665e-1f);
	p = REAL_FMA(p, f, 2.0000714765e-1f);
	p = REAL_FMA(p, f, -2.4999993993e-1f);
	p = REAL_FMA(p, f, 3.3333331174e-1f);
	p = p * f * z;
	p = REAL_FMA(n, -2.12194440e-4f, p);
	p = REAL_FMA(z, -0.5f, p);
	p = REAL_FMA(n, 0.693359375f, f + p);
	p = x == 0.0f ? -HUGE_VALF : p;
	p = x == HUGE_VALF ? HUGE_VALF : p;
	return x >= 0.0f ? p : (float)NAN;
}

/* tanh x, 2.5 ulp. */
static inline real real_tanh(real x)
{
	float a = x < 0.0f ? -x : x, z = x * x, p, big;

	big = 1.0f - 2.0f / (real_exp(a + a) + 1.0f);
	big = x < 0.0f ? -big : big;
	p = -5.70498872745e-3f;
	p = REAL_FMA(p, z, 2.06390887954e-2f);
	p = REAL_FMA(p, z, -5.37397155531e-2f);
	p = REAL_FMA(p, z, 1.33314422036e-1f);
	p = REAL_FMA(p, z, -3.33332819422e-1f);
	p = REAL_FMA(p * z, x, x);
	return a < 0.625f ? p : big;
}

/* erf x, 3 ulp. Near zero, x times a polynomial in x^2; elsewhere 1 - exp(polynomial). Both were fitted at Chebyshev points. */
static inline real real_erf(real x)
{
	float a = x < 0.0f ? -x : x, z = x * x, p, q, big;

	p = 8.534120594e-05f;
	p = REAL_FMA(p, z, -8.180780879e-04f);
	p = REAL_FMA(p, z, 5.204331583e-03f);
	p = REAL_FMA(p, z, -2.686070896e-02f);
	p = REAL_FMA(p, z, 1.128371889e-01f);
	p = REAL_FMA(p, z, -3.761263525e-01f);
	p = REAL_FMA(p, z, 1.128379167e+00f);
	p *= x;
	a = a > 3.95f ? 3.95f : a;
	q = -2.118492440e-08f;
	q = REAL_FMA(q, a, 2.086595823e-06f);
	q = REAL_FMA(q, a, -5.014898051e-05f);
	q = REAL_FMA(q, a, 6.176751670e-04f);
	q = REAL_FMA(q, a, -4.824964977e-03f);
	q = REAL_FMA(q, a, 2.655050230e-02f);
	q = REAL_FMA(q, a, -1.102400991e-01f);
	q = REAL_FMA(q, a, -6.317087425e-01f);
	q = REAL_FMA(q, a, -1.130278309e+00f);
	q = REAL_FMA(q, a, 3.265034594e-04f);
	big = 1.0f - real_exp(q);
	big = x < 0.0f ? -big : big;
	return a < 0.9f ? p : big;
}

/* sin x and cos x for |x| < 8192: absolute error 1e-7, and 2 ulp away from the zeros. A multiple of pi/2 is subtracted in three parts. */
static inline void real_sincos(real x, real *s, real *c)
{
	const float magic = 0x1.8p23f;
	float t = REAL_FMA(x, 0.636619772f, magic), n = t - magic, r, z, ps, pc, sn, cs;
	int32_t i = bits_of_float(t);

	r = REAL_FMA(n, -1.5703125f, x);
	r = REAL_FMA(n, -4.837512969970703125e-4f, r);
	r = REAL_FMA(n, -7.549789948768648e-8f, r);
	z = r * r;
	ps = -1.9515295891e-4f;
	ps = REAL_FMA(ps, z, 8.3321608736e-3f);
	ps = REAL_FMA(ps, z, -1.6666654611e-1f);
	ps = REAL_FMA(ps * z, r, r);
	pc = 2.443315711809948e-5f;
	pc = REAL_FMA(pc, z, -1.388731625493765e-3f);
	pc = REAL_FMA(pc, z, 4.166664568298827e-2f);
	pc = REAL_FMA(pc, z, -0.5f);
	pc = REAL_FMA(pc, z, 1.0f);
	sn = i & 1 ? pc : ps;
	cs = i & 1 ? ps : pc;
	*s = i & 2 ? -sn : sn;
	*c = (i + 1) & 2 ? -cs : cs;
}

#endif

/* s = sigmoid(x) and 1 - s without cancellation; x below -80 is taken as -80. */
static inline void real_sigmoid_pair(real x, real *s, real *rest)
{
	real e = real_exp_down(x < REAL_C(-80.0) ? REAL_C(80.0) : -x);

	*s = REAL_C(1.0) / (REAL_C(1.0) + e);
	*rest = e * *s;
}

/* sigmoid(x), 3 ulp; 0 below -87 in float. */
static inline real real_sigmoid(real x)
{
	return REAL_C(1.0) / (REAL_C(1.0) + real_exp(-x));
}

static inline real real_silu(real x)
{
	return x * real_sigmoid(x);
}

/* d silu / dx = s + x s (1 - s). */
static inline real real_silu_slope(real x)
{
	real s, rest;

	real_sigmoid_pair(x, &s, &rest);
	return REAL_FMA(x * s, rest, s);
}

/* The exponent t of GELU in its tanh form, x / (1 + 2^t): (1 + tanh u) / 2 = sigmoid(2 u) = 1 / (1 + 2^t), which avoids cancellation for
 * negative x. */
static inline real gelu_exponent(real x, real z)
{
	real t = x * REAL_FMA(z, REAL_C(-0.1029432395800235), REAL_C(-2.302208198144325));

	return t < REAL_C(-126.0) ? REAL_C(-126.0) : t;
}

/* GELU (tanh); 0 below -10, where the sigmoid is below 2^-125. */
static inline real real_gelu(real x)
{
	real y = x / (REAL_C(1.0) + real_exp2_near(gelu_exponent(x, x * x)));

	return x < REAL_C(-10.0) ? REAL_C(0.0) : y;
}

static inline real real_gelu_slope(real x)
{
	real z = x * x, e = real_exp2_near(gelu_exponent(x, z)), s = REAL_C(1.0) / (REAL_C(1.0) + e);
	real y = REAL_FMA(x * s * (e * s), REAL_FMA(z, REAL_C(0.21406444881780076), REAL_C(1.5957691216057308)), s);

	return x < REAL_C(-10.0) ? REAL_C(0.0) : y;
}

#endif
