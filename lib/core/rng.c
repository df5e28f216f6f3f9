/* Compiled with -ffp-contract=off: the bits of every draw are part of the product's results. */
#include "core/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/philox.h"

void philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
	philox_rounds(ctr, key, out);
}

static void counter_of(uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane, uint32_t ctr[4], uint32_t key[2])
{
	assert(index >> 44 == 0 && step >> 44 == 0);
	philox_counter(seed, (uint32_t)purpose, step, index, lane, ctr, key);
}

void rng_block(uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane, uint32_t out[4])
{
	uint32_t ctr[4], key[2];

	counter_of(seed, purpose, step, index, lane, ctr, key);
	philox4x32(ctr, key, out);
}

double rng_uniform(uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane)
{
	uint32_t w[4];

	rng_block(seed, purpose, step, index, lane, w);
	return (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
}

uint64_t rng_below(uint64_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane)
{
	uint32_t w[4];

	rng_block(seed, purpose, step, index, lane, w);
	return (uint64_t)(((unsigned __int128)((uint64_t)w[1] << 32 | w[0]) * n) >> 64);
}

float rng_logf(float x)
{
	return philox_logf(x);
}

void rng_sincos2pif(float u, float *s, float *c)
{
	philox_sincos2pif(u, s, c);
}

void rng_normal4(const uint32_t in[4], float out[4])
{
	philox_normal4(in, out);
}

/* WIDE blocks at a time, in loops that vectorise. The operations are those of rng_block and core/philox.h in the same order, with selects in
 * place of branches, so the bits are the same. */
enum { WIDE = 16 };

/* Inlined so that the compiler sees that the arrays do not overlap. The loop is not unrolled by hand, because it would not be vectorised then. */
static inline __attribute__((always_inline)) void blocks_wide(const uint32_t first[4], const uint32_t key[2], uint32_t c[4][WIDE])
{
	uint32_t k0 = key[0], k1 = key[1];

	for (int j = 0; j < WIDE; j++) {
		c[0][j] = first[0] + (uint32_t)j;
		c[1][j] = first[1];
		c[2][j] = first[2];
		c[3][j] = first[3];
	}
	for (int round = 0; round < 10; round++) {
#pragma GCC unroll 1
		for (int j = 0; j < WIDE; j++) {
			uint64_t p0 = (uint64_t)0xD2511F53u * c[0][j], p1 = (uint64_t)0xCD9E8D57u * c[2][j];

			c[0][j] = (uint32_t)(p1 >> 32) ^ c[1][j] ^ k0;
			c[2][j] = (uint32_t)(p0 >> 32) ^ c[3][j] ^ k1;
			c[1][j] = (uint32_t)p1;
			c[3][j] = (uint32_t)p0;
		}
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

void rng_words(uint32_t *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane)
{
	uint32_t ctr[4], key[2], w[4][WIDE], all[4 * WIDE];

	counter_of(seed, purpose, step, index, lane, ctr, key);
	for (size_t i = 0; i < n; i += 4 * WIDE, ctr[0] += WIDE) {
		blocks_wide(ctr, key, w);
		for (int j = 0; j < WIDE; j++)
			for (int k = 0; k < 4; k++)
				all[4 * j + k] = w[k][j];
		memcpy(out + i, all, (n - i < 4 * WIDE ? n - i : 4 * WIDE) * sizeof *out);
	}
}

static void pairs_wide(const uint32_t a[WIDE], const uint32_t b[WIDE], float even[WIDE], float odd[WIDE])
{
	for (int j = 0; j < WIDE; j++) {
		float u = ((float)(int32_t)(a[j] >> 8) + 1.f) * 0x1p-24f, v = (float)(int32_t)(b[j] >> 8) * 0x1p-24f;
		uint32_t bits;
		int e, high, q;
		float m, half, s, z, p, r, t, sn, cs, x, y;

		memcpy(&bits, &u, 4);
		e = (int)(bits >> 23) - 127;
		bits = (bits & 0x7fffffu) | 0x3f800000u;
		memcpy(&m, &bits, 4);
		half = m * .5f;
		high = m > 1.41421356f;
		m = high ? half : m;
		e += high;
		s = (m - 1.f) / (m + 1.f);
		z = s * s;
		p = 2.f + z * (.66666667f + z * (.4f + z * (.28571429f + z * .22222222f)));
		r = sqrtf(-2.f * ((float)e * .69314718f + s * p));

		q = (int)(v * 4.f + .5f);
		t = (v - (float)q * .25f) * 6.28318531f;
		z = t * t;
		sn = t * (1.f + z * (-.16666667f + z * (8.3333333e-3f + z * -1.9841270e-4f + z * z * 2.7557319e-6f)));
		cs = 1.f + z * (-.5f + z * (4.1666667e-2f + z * (-1.3888889e-3f + z * 2.4801587e-5f)));
		x = q & 1 ? cs : sn;
		y = q & 1 ? sn : cs;
		even[j] = r * ((q + 1) & 2 ? -y : y);
		odd[j] = r * (q & 2 ? -x : x);
	}
}

static void normal_wide(float out[4 * WIDE], uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane)
{
	uint32_t ctr[4], key[2], w[4][WIDE];
	float v[4][WIDE];

	counter_of(seed, purpose, step, index, lane, ctr, key);
	blocks_wide(ctr, key, w);
	pairs_wide(w[0], w[1], v[0], v[1]);
	pairs_wide(w[2], w[3], v[2], v[3]);
	for (int j = 0; j < WIDE; j++)
		for (int i = 0; i < 4; i++)
			out[4 * j + i] = v[i][j];
}

void rng_normal(float *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index)
{
	rng_normal_from(out, n, seed, purpose, step, index, 0);
}

void rng_normal_from(float *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane)
{
	uint32_t w[4];
	float tail[4];
	size_t i = 0;

	for (; i + 4 * WIDE <= n; i += 4 * WIDE)
		normal_wide(out + i, seed, purpose, step, index, lane + (uint32_t)(i / 4));
	for (; i + 4 <= n; i += 4) {
		rng_block(seed, purpose, step, index, lane + (uint32_t)(i / 4), w);
		rng_normal4(w, out + i);
	}
	if (i < n) {
		rng_block(seed, purpose, step, index, lane + (uint32_t)(i / 4), w);
		rng_normal4(w, tail);
		memcpy(out + i, tail, (n - i) * sizeof *out);
	}
}

uint64_t rng_permute(uint64_t i, uint64_t n, uint64_t seed, enum rng_purpose purpose, uint64_t epoch)
{
	int half = 1;
	uint64_t mask;

	assert(i < n && n >> 40 == 0);
	while ((uint64_t)1 << (2 * half) < n)
		half++;
	mask = ((uint64_t)1 << half) - 1;
	do {
		uint64_t l = i >> half, r = i & mask;

		for (uint32_t round = 0; round < 6; round++) {
			uint32_t w[4];
			uint64_t t;

			rng_block(seed, purpose, epoch, r, round, w);
			t = l ^ (w[0] & mask);
			l = r;
			r = t;
		}
		i = l << half | r;
	} while (i >= n);
	return i;
}
