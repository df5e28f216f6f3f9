/* The Mersenne Twister, for draws that must equal those of numpy and PyTorch. */
#include "core/mt19937.h"

/* Matsumoto and Nishimura 1998. */
enum { N = 624, M = 397 };

void mt19937_seed(struct mt19937 *r, uint32_t seed)
{
	r->s[0] = seed;
	for (uint32_t i = 1; i < N; i++)
		r->s[i] = 1812433253u * (r->s[i - 1] ^ r->s[i - 1] >> 30) + i;
	r->at = N;
}

static void refill(struct mt19937 *r)
{
	for (int i = 0; i < N; i++) {
		uint32_t y = (r->s[i] & 0x80000000u) | (r->s[(i + 1) % N] & 0x7fffffffu);

		r->s[i] = r->s[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
	}
	r->at = 0;
}

uint32_t mt19937_next(struct mt19937 *r)
{
	uint32_t y;

	if (r->at == N)
		refill(r);
	y = r->s[r->at++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

/* Uniform in 0 .. max, as numpy's random_interval: by rejection below the next power of two. */
static uint32_t interval(struct mt19937 *r, uint32_t max)
{
	uint32_t mask = max, v;

	if (!max)
		return 0;
	for (int k = 1; k < 32; k *= 2)
		mask |= mask >> k;
	while ((v = mt19937_next(r) & mask) > max)
		;
	return v;
}

void mt19937_permutation(struct mt19937 *r, int64_t *out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = i;
	for (int64_t i = n - 1; i > 0; i--) {
		int64_t j = interval(r, (uint32_t)i), t = out[i];

		out[i] = out[j];
		out[j] = t;
	}
}
