/* The floating-point type of the CPU kernels. Each .c file of kernels is compiled twice, with -DREAL_IS_FLOAT and -DREAL_IS_DOUBLE: the
 * float build trains and samples, the double build lets tests check gradients by central differences. A file compiled once uses the names
 * with _f32.
 *
 * Kernels are built with -ffp-contract=off, so multiplications and additions are fused only by REAL_FMA and v_fma (kernels/simd.h). In float these
 * round once on every target, if need be without an instruction for it, and no sum's order depends on the target. So a float has the same bits
 * from every build, in the body of a vectorised loop and in its tail. kernels/flavour.h says which build has which instructions. */
#ifndef DDM_KERNELS_REAL_H
#define DDM_KERNELS_REAL_H

#include "kernels/flavour.h"

#ifdef REAL_IS_DOUBLE
#define real double
#define REAL_NAME(name) name##_f64
#define REAL_C(c) c       /* a constant: REAL_C(0.5) */
#define REAL_M(name) name /* a libm function: REAL_M(sqrt)(x) */
#else
#define real float
#define REAL_NAME(name) FLAVOUR_NAME(name)
#define REAL_C(c) c##f
#define REAL_M(name) name##f
#endif

/* a * b + c. In float rounded once; in double, which only tests use, rounded once if the target has a fused instruction, else twice. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define REAL_FMA(a, b, c) REAL_M(__builtin_fma)(a, b, c)
#elif defined(REAL_IS_DOUBLE)
#define REAL_FMA(a, b, c) ((a) * (b) + (c))
#else
#define REAL_FMA(a, b, c) fused_float(a, b, c)

#include <stdint.h>
#include <string.h>

/* The product is exact in double. The sum is rounded to odd: towards zero, and then its last bit is set if it is not exact. Rounding that to float
 * gives the float nearest to the exact sum (Boldo and Melquiond 2008). low: the exact sum less the rounded one, not a number for infinite sums. */
static inline float fused_float(float a, float b, float c)
{
	double p = (double)a * (double)b, z = (double)c, s = p + z, t = s - p, low = (p - (s - t)) + (z - t);
	uint64_t bits, below, inexact = low > 0 || low < 0;

	memcpy(&bits, &s, sizeof bits);
	memcpy(&below, &low, sizeof below);
	bits = (bits - ((bits ^ below) >> 63 & inexact)) | inexact;
	memcpy(&s, &bits, sizeof s);
	return (float)s;
}

#endif

#endif
