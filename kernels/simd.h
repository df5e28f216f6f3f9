/* A vector type of `real` as wide as the target supports, by the compilers' vector extensions, which provide + - *. Other operations are
 * functions v_*, some with intrinsics. VLEN lanes, VREGS registers. */
#ifndef DDM_KERNELS_SIMD_H
#define DDM_KERNELS_SIMD_H

#include <stdint.h>
#include <string.h>

#include "kernels/real.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define VBYTES 64
#define VREGS 32
#define VNAME_F32(op) _mm512_##op##_ps
#define VNAME_F64(op) _mm512_##op##_pd
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define VBYTES 32
#define VREGS 16
#define VNAME_F32(op) _mm256_##op##_ps
#define VNAME_F64(op) _mm256_##op##_pd
#elif defined(__aarch64__)
#include <arm_neon.h>
#define VBYTES 16
#define VREGS 32
#else
#define VBYTES 16
#define VREGS 16
#ifdef __SSE2__
#include <immintrin.h>
#define VNAME_F32(op) _mm_##op##_ps
#define VNAME_F64(op) _mm_##op##_pd
#endif
#endif

#ifdef REAL_IS_DOUBLE
#define VNAME VNAME_F64
#else
#define VNAME VNAME_F32
#endif

enum { VLEN = VBYTES / sizeof(real) };

/* Heights of matrix product tiles with two vectors per row in registers; any number of rows is divided into these. */
#if VREGS == 32
#define TILE_HEIGHTS(X) X(12) X(6) X(4) X(2) X(1)
#else
#define TILE_HEIGHTS(X) X(6) X(4) X(2) X(1)
#endif

typedef real vreal __attribute__((vector_size(VBYTES), may_alias));

static inline vreal v_load(const real *p)
{
	vreal v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline void v_store(real *p, vreal v)
{
	memcpy(p, &v, sizeof v);
}

/* Store around the cache, p aligned to VBYTES; call v_stream_end before another thread reads. */
#ifdef VNAME_F32

static inline void v_stream(real *p, vreal v)
{
	VNAME(stream)(p, v);
}

static inline void v_stream_end(void)
{
	_mm_sfence();
}

#else

static inline void v_stream(real *p, vreal v)
{
	v_store(p, v);
}

static inline void v_stream_end(void)
{
}

#endif

/* Whether to store an array (m, n) with row stride ld around the cache. That pays for a large array that is not read again soon, such as one that
 * only the backward pass reads. Its rows must be aligned. */
static inline int v_streams(const real *p, int64_t m, int64_t n, int64_t ld)
{
	return p && (uintptr_t)p % VBYTES == 0 && ld % VLEN == 0 && m * n >= 1 << 20;
}

#if VBYTES == 64

/* Load or store the first n <= VLEN lanes. The other lanes load as 0, and their memory is not accessed. */
static inline vreal v_load_part(const real *p, int n)
{
	return (vreal)VNAME(maskz_loadu)((1u << n) - 1, p);
}

static inline void v_store_part(real *p, vreal v, int n)
{
	VNAME(mask_storeu)(p, (1u << n) - 1, v);
}

#else

static inline vreal v_load_part(const real *p, int n)
{
	real lane[VLEN] = {0};

	for (int i = 0; i < n; i++)
		lane[i] = p[i];
	return v_load(lane);
}

static inline void v_store_part(real *p, vreal v, int n)
{
	real lane[VLEN];

	v_store(lane, v);
	for (int i = 0; i < n; i++)
		p[i] = lane[i];
}

#endif

#ifdef VNAME_F32

static inline vreal v_splat(real x)
{
	return (vreal)VNAME(set1)(x);
}

#else

static inline vreal v_splat(real x)
{
	vreal v;

	for (int i = 0; i < VLEN; i++)
		v[i] = x;
	return v;
}

#endif

/* a * b + c, as REAL_FMA */
#if VBYTES >= 32

static inline vreal v_fma(vreal a, vreal b, vreal c)
{
	return (vreal)VNAME(fmadd)(a, b, c);
}

#elif defined(__aarch64__)

static inline vreal v_fma(vreal a, vreal b, vreal c)
{
#ifdef REAL_IS_DOUBLE
	return (vreal)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
	return (vreal)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}

#elif defined(REAL_IS_DOUBLE)

static inline vreal v_fma(vreal a, vreal b, vreal c)
{
	return a * b + c;
}

#elif defined(__SSE2__)

/* fused_float (kernels/real.h) of two lanes. */
static inline __m128 two_fma(__m128 a, __m128 b, __m128 c)
{
	__m128d p = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), z = _mm_cvtps_pd(c), s = _mm_add_pd(p, z), t = _mm_sub_pd(s, p);
	__m128d low = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, t)), _mm_sub_pd(z, t));
	__m128i inexact = _mm_castpd_si128(_mm_cmpgt_pd(_mm_andnot_pd(_mm_set1_pd(-0.), low), _mm_setzero_pd()));
	__m128i inward = _mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(s, low)), 63), bits = _mm_castpd_si128(s);

	bits = _mm_or_si128(_mm_sub_epi64(bits, _mm_and_si128(inward, inexact)), _mm_srli_epi64(inexact, 63));
	return _mm_cvtpd_ps(_mm_castsi128_pd(bits));
}

static inline vreal v_fma(vreal a, vreal b, vreal c)
{
	__m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;

	return (vreal)_mm_movelh_ps(two_fma(x, y, z), two_fma(_mm_movehl_ps(x, x), _mm_movehl_ps(y, y), _mm_movehl_ps(z, z)));
}

#else

static inline vreal v_fma(vreal a, vreal b, vreal c)
{
	for (int i = 0; i < VLEN; i++)
		c[i] = REAL_FMA(a[i], b[i], c[i]);
	return c;
}

#endif

/* Per lane: a if the mask (the result of a comparison) is set, else b. */
typedef __typeof__((vreal){0} < (vreal){0}) vmask;

static inline vreal v_pick(vmask m, vreal a, vreal b)
{
	return (vreal)(((vmask)a & m) | ((vmask)b & ~m));
}

/* a0 b0 a1 b1 ..: the lower and the upper halves of a and b, lane by lane. */
#define V_ZIP(a, b, LIST) __builtin_shufflevector(a, b, LIST)
#if VBYTES == 64 && !defined(REAL_IS_DOUBLE)
#define V_LO 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define V_HI 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VBYTES == 64 || (VBYTES == 32 && !defined(REAL_IS_DOUBLE))
#define V_LO 0, 8, 1, 9, 2, 10, 3, 11
#define V_HI 4, 12, 5, 13, 6, 14, 7, 15
#elif VBYTES == 32 || !defined(REAL_IS_DOUBLE)
#define V_LO 0, 4, 1, 5
#define V_HI 2, 6, 3, 7
#else
#define V_LO 0, 2
#define V_HI 1, 3
#endif

/* Transpose VLEN vectors in place. Each round of zipping the first half with the second moves one bit of the lane index into the vector
 * index. */
static inline __attribute__((always_inline)) void v_transpose(vreal v[VLEN])
{
	vreal w[VLEN];

	for (int width = 1; width < VLEN; width *= 2) {
#pragma GCC unroll 8
		for (int i = 0; i < VLEN / 2; i++) {
			w[2 * i] = V_ZIP(v[i], v[i + VLEN / 2], V_LO);
			w[2 * i + 1] = V_ZIP(v[i], v[i + VLEN / 2], V_HI);
		}
#pragma GCC unroll 16
		for (int i = 0; i < VLEN; i++)
			v[i] = w[i];
	}
}

#endif
