/* The AVX-512 instructions of kernels/compact_avx512.c and avx512.h in plain C, so that a CPU without them can check these files: include this
 * header, then the file. Semantics: Intel's Software Developer's Manual. VDPBF16PS and VCVTNEPS2BF16 take subnormal numbers as zero and round to
 * nearest even, whatever MXCSR says. The functions are not inlined: the unrolled tiles would be slow to compile. */
#ifndef DDM_TESTS_EMULATE_AVX512_H
#define DDM_TESTS_EMULATE_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TARGET

struct emulated_512 {
	uint32_t lane[16];
};

struct emulated_256 {
	uint16_t lane[16];
};

static __attribute__((noinline)) float emulated_float(uint32_t u)
{
	float x;

	u = u & 0x7f800000 ? u : u & 0x80000000;
	memcpy(&x, &u, sizeof x);
	return x;
}

static __attribute__((noinline)) uint32_t emulated_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u & 0x7f800000 ? u : u & 0x80000000;
}

static __attribute__((noinline)) struct emulated_512 emulated_loadu(const void *p)
{
	struct emulated_512 v;

	memcpy(&v, p, sizeof v);
	return v;
}

static __attribute__((noinline)) struct emulated_512 emulated_maskz_loadu(unsigned mask, const void *p)
{
	struct emulated_512 v = {{0}};

	for (int i = 0; i < 16; i++)
		if (mask >> i & 1)
			memcpy(&v.lane[i], (const char *)p + 4 * i, 4);
	return v;
}

static __attribute__((noinline)) void emulated_mask_storeu(void *p, unsigned mask, struct emulated_512 v)
{
	for (int i = 0; i < 16; i++)
		if (mask >> i & 1)
			memcpy((char *)p + 4 * i, &v.lane[i], 4);
}

static __attribute__((noinline)) struct emulated_512 emulated_maskz_loadu16(uint32_t mask, const void *p)
{
	struct emulated_512 v = {{0}};

	for (int i = 0; i < 32; i++)
		if (mask >> i & 1)
			memcpy((char *)&v + 2 * i, (const char *)p + 2 * i, 2);
	return v;
}

static __attribute__((noinline)) void emulated_storeu(void *p, struct emulated_512 v)
{
	memcpy(p, &v, sizeof v);
}

static __attribute__((noinline)) struct emulated_512 emulated_set1(uint32_t u)
{
	struct emulated_512 v;

	for (int i = 0; i < 16; i++)
		v.lane[i] = u;
	return v;
}

static __attribute__((noinline)) struct emulated_512 emulated_shift(struct emulated_512 v, int left)
{
	for (int i = 0; i < 16; i++)
		v.lane[i] = left > 0 ? v.lane[i] << left : v.lane[i] >> -left;
	return v;
}

static __attribute__((noinline)) struct emulated_512 emulated_int8_to_int32(__m128i q)
{
	struct emulated_512 v;
	int8_t byte[16];

	memcpy(byte, &q, sizeof byte);
	for (int i = 0; i < 16; i++)
		v.lane[i] = (uint32_t)(int32_t)byte[i];
	return v;
}

static __attribute__((noinline)) struct emulated_512 emulated_int32_to_float(struct emulated_512 v)
{
	for (int i = 0; i < 16; i++)
		v.lane[i] = emulated_bits((float)(int32_t)v.lane[i]);
	return v;
}

static __attribute__((noinline)) struct emulated_512 emulated_blend16(uint32_t mask, struct emulated_512 a, struct emulated_512 b)
{
	for (int i = 0; i < 16; i++) {
		uint32_t take = (mask >> 2 * i & 1 ? 0xffffu : 0) | (mask >> (2 * i + 1) & 1 ? 0xffff0000u : 0);

		a.lane[i] = (a.lane[i] & ~take) | (b.lane[i] & take);
	}
	return a;
}

/* VCVTNEPS2BF16 */
static __attribute__((noinline)) struct emulated_256 emulated_round(struct emulated_512 v)
{
	struct emulated_256 h;

	for (int i = 0; i < 16; i++) {
		uint32_t u = v.lane[i], size = u & 0x7fffffff;

		if (size > 0x7f800000)
			h.lane[i] = (uint16_t)(u >> 16 | 0x40);
		else if (size < 0x00800000)
			h.lane[i] = (uint16_t)(u >> 16 & 0x8000);
		else
			h.lane[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
	}
	return h;
}

/* VCVTNE2PS2BF16: the numbers of b come first */
static __attribute__((noinline)) struct emulated_512 emulated_round2(struct emulated_512 a, struct emulated_512 b)
{
	struct emulated_256 half[2] = {emulated_round(b), emulated_round(a)};
	struct emulated_512 v;

	memcpy(&v, half, sizeof v);
	return v;
}

/* VPERMW */
static __attribute__((noinline)) struct emulated_512 emulated_permute16(struct emulated_512 order, struct emulated_512 v)
{
	uint16_t from[32], index[32], to[32];

	memcpy(from, &v, sizeof from);
	memcpy(index, &order, sizeof index);
	for (int i = 0; i < 32; i++)
		to[i] = from[index[i] & 31];
	memcpy(&v, to, sizeof v);
	return v;
}

/* VPERMT2W: numbers 32 to 63 are those of b */
static __attribute__((noinline)) struct emulated_512 emulated_permute16_of_two(struct emulated_512 a, struct emulated_512 order,
                                                                               struct emulated_512 b)
{
	uint16_t from[64], index[32], to[32];

	memcpy(from, &a, sizeof a);
	memcpy(from + 32, &b, sizeof b);
	memcpy(index, &order, sizeof index);
	for (int i = 0; i < 32; i++)
		to[i] = from[index[i] & 63];
	memcpy(&a, to, sizeof a);
	return a;
}

/* VALIGND: 16 numbers from number `from` on of those of b, which those of a follow */
static __attribute__((noinline)) struct emulated_512 emulated_align(struct emulated_512 a, struct emulated_512 b, int from)
{
	struct emulated_512 v;

	for (int i = 0; i < 16; i++)
		v.lane[i] = i + from < 16 ? b.lane[i + from] : a.lane[i + from - 16];
	return v;
}

/* VADDPS, in the mode that the caller has set */
static __attribute__((noinline)) struct emulated_512 emulated_add(struct emulated_512 a, struct emulated_512 b)
{
	float x[16], y[16];

	memcpy(x, &a, sizeof x);
	memcpy(y, &b, sizeof y);
	for (int i = 0; i < 16; i++)
		x[i] += y[i];
	memcpy(&a, x, sizeof x);
	return a;
}

/* VPUNPCK: within each 128 bits, numbers of `size` lanes of the low or the high half of a and of b by turns */
static __attribute__((noinline)) struct emulated_512 emulated_unpack(struct emulated_512 a, struct emulated_512 b, int size, int high)
{
	struct emulated_512 v;

	for (int i = 0; i < 16; i++) {
		int pair = i % 4 / (2 * size), from = i / 4 * 4 + (high ? 2 : 0) + pair * size + i % size;

		v.lane[i] = i / size % 2 ? b.lane[from] : a.lane[from];
	}
	return v;
}

/* VSHUFI32X4: two parts of 128 bits of a, then two of b */
static __attribute__((noinline)) struct emulated_512 emulated_shuffle128(struct emulated_512 a, struct emulated_512 b, int which)
{
	struct emulated_512 v;

	for (int i = 0; i < 16; i++)
		v.lane[i] = (i < 8 ? a : b).lane[(which >> i / 4 * 2 & 3) * 4 + i % 4];
	return v;
}

/* VDPBF16PS: the product of the odd numbers is added first, then that of the even ones, each with one rounding. */
static __attribute__((noinline)) struct emulated_512 emulated_dot(struct emulated_512 sum, struct emulated_512 a, struct emulated_512 b)
{
	for (int i = 0; i < 16; i++) {
		float s = emulated_float(sum.lane[i]);

		s = emulated_float(emulated_bits(fmaf(emulated_float(a.lane[i] & 0xffff0000), emulated_float(b.lane[i] & 0xffff0000), s)));
		sum.lane[i] = emulated_bits(fmaf(emulated_float(a.lane[i] << 16), emulated_float(b.lane[i] << 16), s));
	}
	return sum;
}

#define __m512 struct emulated_512
#define __m512i struct emulated_512
#define __m512bh struct emulated_512
#define _mm512_loadu_ps emulated_loadu
#define _mm512_loadu_si512 emulated_loadu
#define _mm512_maskz_loadu_ps(mask, p) emulated_maskz_loadu(mask, p)
#define _mm512_mask_storeu_epi32(p, mask, v) emulated_mask_storeu(p, mask, v)
#define _mm512_maskz_loadu_epi16(mask, p) emulated_maskz_loadu16(mask, p)
#define _mm512_storeu_ps emulated_storeu
#define _mm512_storeu_si512 emulated_storeu
#define _mm512_setzero_ps() emulated_set1(0)
#define _mm512_set1_epi32(x) emulated_set1((uint32_t)(x))
#define _mm512_srli_epi32(v, n) emulated_shift(v, -(n))
#define _mm512_cvtepi8_epi32 emulated_int8_to_int32
#define _mm512_cvtepi32_ps emulated_int32_to_float
#define _mm512_mask_blend_epi16 emulated_blend16
#define _mm512_dpbf16_ps emulated_dot
#define _mm512_cvtne2ps_pbh emulated_round2
#define _mm512_permutexvar_epi16 emulated_permute16
#define _mm512_permutex2var_epi16 emulated_permute16_of_two
#define _mm512_alignr_epi32 emulated_align
#define _mm512_add_ps emulated_add
#define _mm512_unpacklo_epi32(a, b) emulated_unpack(a, b, 1, 0)
#define _mm512_unpackhi_epi32(a, b) emulated_unpack(a, b, 1, 1)
#define _mm512_unpacklo_epi64(a, b) emulated_unpack(a, b, 2, 0)
#define _mm512_unpackhi_epi64(a, b) emulated_unpack(a, b, 2, 1)
#define _mm512_shuffle_i32x4(a, b, which) emulated_shuffle128(a, b, which)
#define _mm512_setzero_si512() emulated_set1(0)

#endif
