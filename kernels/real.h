/* The floating-point type of the CPU kernels. Each .c file of kernels is compiled twice, with -DREAL_IS_FLOAT and -DREAL_IS_DOUBLE: the
 * float build trains and samples, the double build lets tests check gradients by central differences. A file compiled once uses the names
 * with _f32.
 *
 * Kernels are built with -ffp-contract=off, so multiplications and additions are fused only by REAL_FMA. A value has the same bits in the
 * body of a vectorised loop and in its tail. */
#ifndef DDM_KERNELS_REAL_H
#define DDM_KERNELS_REAL_H

#ifdef REAL_IS_DOUBLE
#define real double
#define REAL_NAME(name) name##_f64
#define REAL_C(c) c       /* a constant: REAL_C(0.5) */
#define REAL_M(name) name /* a libm function: REAL_M(sqrt)(x) */
#else
#define real float
#define REAL_NAME(name) name##_f32
#define REAL_C(c) c##f
#define REAL_M(name) name##f
#endif

/* a * b + c, rounded once if the target has a fused instruction, else twice. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define REAL_FMA(a, b, c) REAL_M(__builtin_fma)(a, b, c)
#else
#define REAL_FMA(a, b, c) ((a) * (b) + (c))
#endif

#endif
