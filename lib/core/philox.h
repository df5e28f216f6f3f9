/* The arithmetic of core/rng.h, for C and for CUDA, so that both draw the same bits: Philox 4x32-10, and normals by our own log and
 * sincos. Files that include it are compiled without contraction of products and sums (-ffp-contract=off, -fmad=false). */
#ifndef DDM_CORE_PHILOX_H
#define DDM_CORE_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SHARED_CODE static __host__ __device__ inline
#else
#define SHARED_CODE static inline
#endif

SHARED_CODE void philox_rounds(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		c0 = n0;
		c2 = n2;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* step and index below 2^44. */
SHARED_CODE void philox_counter(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t index, uint32_t lane, uint32_t ctr[4], uint32_t key[2])
{
	key[0] = (uint32_t)seed;
	key[1] = (uint32_t)(seed >> 32);
	ctr[0] = lane;
	ctr[1] = (uint32_t)index;
	ctr[2] = (uint32_t)step;
	ctr[3] = (purpose << 24) | ((uint32_t)(index >> 32) << 12 & 0xfff000u) | (uint32_t)(step >> 32 & 0xfff);
}

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m by the atanh series in s = (m-1)/(m+1), |s| < .1716: the first omitted
 * term is 2 s^11 / 11 < 7e-10. */
SHARED_CODE float philox_logf(float x)
{
	uint32_t u;
	int e;
	float m, s, z, p;

	memcpy(&u, &x, 4);
	e = (int)(u >> 23) - 127;
	u = (u & 0x7fffffu) | 0x3f800000u;
	memcpy(&m, &u, 4);
	if (m > 1.41421356f) {
		m *= .5f;
		e++;
	}
	s = (m - 1.f) / (m + 1.f);
	z = s * s;
	p = 2.f + z * (.66666667f + z * (.4f + z * (.28571429f + z * .22222222f)));
	return (float)e * .69314718f + s * p;
}

/* u is folded to an octant: sin and cos of 2 pi r for |r| <= 1/8 by Taylor series, the first omitted terms below 1e-8. */
SHARED_CODE void philox_sincos2pif(float u, float *s, float *c)
{
	int q = (int)(u * 4.f + .5f);
	float a = (u - (float)q * .25f) * 6.28318531f, z = a * a;
	float sn = a * (1.f + z * (-.16666667f + z * (8.3333333e-3f + z * -1.9841270e-4f + z * z * 2.7557319e-6f)));
	float cs = 1.f + z * (-.5f + z * (4.1666667e-2f + z * (-1.3888889e-3f + z * 2.4801587e-5f)));

	switch (q & 3) {
	case 0:
		*s = sn;
		*c = cs;
		break;
	case 1:
		*s = cs;
		*c = -sn;
		break;
	case 2:
		*s = -sn;
		*c = -cs;
		break;
	default:
		*s = -cs;
		*c = sn;
	}
}

SHARED_CODE void philox_normal4(const uint32_t in[4], float out[4])
{
	for (int i = 0; i < 4; i += 2) {
		float u = ((float)(in[i] >> 8) + 1.f) * 0x1p-24f; /* (0, 1] */
		float v = (float)(in[i + 1] >> 8) * 0x1p-24f;
		float r = sqrtf(-2.f * philox_logf(u)), s, c;

		philox_sincos2pif(v, &s, &c);
		out[i] = r * c;
		out[i + 1] = r * s;
	}
}

#endif
