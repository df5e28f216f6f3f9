/* Vectorised sums along a row in a fixed order. A row is summed in 2 LANES partial sums, which are added in a fixed tree, so the result is the
 * same on every machine. Element i belongs to partial sum i mod 2 LANES; if at most LANES elements remain, they belong to the first LANES. */
#ifndef DDM_KERNELS_LANES_H
#define DDM_KERNELS_LANES_H

#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "kernels/device.h"

#include "kernels/real.h"

enum { LANES = 64 / sizeof(real) };

typedef real __attribute__((vector_size(64), may_alias)) lanes;
typedef real __attribute__((vector_size(32), may_alias)) lanes_half;
typedef real __attribute__((vector_size(16), may_alias)) lanes_quarter;

/* The first n < LANES values at p, zeros beyond. */
static inline lanes lanes_part(const real *p, int64_t n)
{
#if defined(__AVX512F__) && defined(REAL_IS_DOUBLE)
	return (lanes)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif defined(__AVX512F__)
	return (lanes)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
	lanes v = {0};

	memcpy(&v, p, (size_t)n * sizeof *p);
	return v;
#endif
}

/* The first min(n, LANES) values at p, zeros beyond. */
static inline lanes lanes_load(const real *p, int64_t n)
{
	lanes v;

	if (n < LANES)
		return lanes_part(p, n);
	memcpy(&v, p, sizeof v);
	return v;
}

static inline lanes lanes_keep(lanes v, int64_t n)
{
	return n >= LANES ? v : lanes_part((const real *)&v, n);
}

static inline real lanes_fold(lanes v)
{
	lanes_half h[2];
	lanes_quarter q[2];

	memcpy(h, &v, sizeof v);
	h[0] += h[1];
	memcpy(q, h, sizeof h[0]);
	q[0] += q[1];
#ifdef REAL_IS_DOUBLE
	return q[0][0] + q[0][1];
#else
	return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
#endif
}

/* Define NAME ARGS, the sum over i in [0, n) of EXPR, written with L(x) for x[i]. */
#define L(x) lanes_load((x) + i, left)
#define LANES_SUM(name, args, expr) \
	static inline real name args \
	{ \
		lanes even = {0}, odd = {0}; \
		int64_t i = 0; \
		for (; i + 2 * LANES <= n; i += LANES) { \
			const int64_t left = LANES; \
			even += expr; \
			i += LANES; \
			odd += expr; \
		} \
		if (i + LANES <= n) { \
			const int64_t left = LANES; \
			even += expr; \
			i += LANES; \
		} \
		if (i < n) { \
			const int64_t left = n - i; \
			even += lanes_keep(expr, left); \
		} \
		return lanes_fold(even + odd); \
	}

/* Define NAME ARGS, which stores the sum of A in *m1 and that of A B in *m2. */
#define LANES_SUM2(name, args, a, b) \
	static inline void name args \
	{ \
		lanes first = {0}, second = {0}; \
		int64_t i = 0; \
		for (; i + LANES <= n; i += LANES) { \
			const int64_t left = LANES; \
			lanes u = a; \
			first += u; \
			second += u * (b); \
		} \
		if (i < n) { \
			const int64_t left = n - i; \
			lanes u = a; \
			first += lanes_keep(u, left); \
			second += lanes_keep(u * (b), left); \
		} \
		*m1 = lanes_fold(first); \
		*m2 = lanes_fold(second); \
	}

LANES_SUM(lanes_sum, (const real *x, int64_t n), L(x))
LANES_SUM(lanes_dot, (const real *x, const real *y, int64_t n), L(x) * L(y))

/* The larger of each pair, as bits; b if the comparison is unordered (NaN). */
#define LANES_LARGER(a, b, ints) ((ints)(a) & ((a) > (b))) | ((ints)(b) & ~((a) > (b)))

#ifdef REAL_IS_DOUBLE
typedef int64_t lanes_int;
#else
typedef int32_t lanes_int;
#endif
typedef lanes_int __attribute__((vector_size(64), may_alias)) lanes_bits;
typedef lanes_int __attribute__((vector_size(32), may_alias)) lanes_half_bits;
typedef lanes_int __attribute__((vector_size(16), may_alias)) lanes_quarter_bits;

static inline lanes lanes_larger(lanes a, lanes b)
{
	return (lanes)(LANES_LARGER(a, b, lanes_bits));
}

static inline real larger(real a, real b)
{
	return a > b ? a : b;
}

static inline real lanes_largest(lanes v)
{
	lanes_half h[2];
	lanes_quarter q[2];

	memcpy(h, &v, sizeof v);
	h[0] = (lanes_half)(LANES_LARGER(h[0], h[1], lanes_half_bits));
	memcpy(q, h, sizeof h[0]);
	q[0] = (lanes_quarter)(LANES_LARGER(q[0], q[1], lanes_quarter_bits));
#ifdef REAL_IS_DOUBLE
	return larger(q[0][0], q[0][1]);
#else
	return larger(larger(q[0][0], q[0][2]), larger(q[0][1], q[0][3]));
#endif
}

/* The largest of n >= 1 values. */
static inline real lanes_max(const real *x, int64_t n)
{
	lanes top = (lanes){0} + x[0];
	real rest = x[0];
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		top = lanes_larger(top, lanes_load(x + i, LANES));
	for (; i < n; i++)
		rest = larger(rest, x[i]);
	return larger(lanes_largest(top), rest);
}

#endif
