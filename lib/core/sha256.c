/* The compression function of SHA-256: in plain C, and with the processor's SHA instructions if it has them. */
#include "core/sha256.h"

#include <string.h>

static const uint32_t K[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
                               0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
                               0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
                               0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
                               0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
                               0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
                               0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* The eight state words a .. h rotate by name instead of being moved: in round i, a is s[(64 - i) % 8]. */
static void block_plain(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof s);
#pragma GCC unroll 8
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[(64 - i) % 8], b = s[(65 - i) % 8], c = s[(66 - i) % 8], e = s[(68 - i) % 8], f = s[(69 - i) % 8];
		uint32_t g = s[(70 - i) % 8], *d = &s[(67 - i) % 8], *next = &s[(71 - i) % 8];
		uint32_t t = *next + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];

		*d += t;
		*next = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

void sha256_blocks_plain(uint32_t h[8], const uint8_t *p, size_t n)
{
	for (; n; n--, p += 64)
		block_plain(h, p);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

/* The SHA instructions hold the state as (a b e f) and (c d g h). */
__attribute__((target("sha,sse4.1"))) static void blocks_sha(uint32_t h[8], const uint8_t *p, size_t n)
{
	const __m128i bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
	__m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

	for (; n; n--, p += 64) {
		__m128i was[2] = {abef, cdgh}, w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), bytes);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i t = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)K + i));

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, t);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(t, 0x0e));
			if (i < 12) {
				t = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
				w[i % 4] = _mm_sha256msg2_epu32(t, w[(i + 3) % 4]);
			}
		}
		abef = _mm_add_epi32(abef, was[0]);
		cdgh = _mm_add_epi32(cdgh, was[1]);
	}
	low = _mm_shuffle_epi32(abef, 0x1b);
	high = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)h, _mm_blend_epi16(low, high, 0xf0));
	_mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(high, low, 8));
}

static int has_sha(void)
{
	static _Atomic int known; /* 0: not asked yet, 1: no, 2: yes */
	unsigned a, b, c, d;
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (!k) {
		k = 1 + (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __get_cpuid(1, &a, &b, &c, &d) && c >> 19 & 1);
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	return k == 2;
}

void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n)
{
	if (has_sha())
		blocks_sha(h, p, n);
	else
		sha256_blocks_plain(h, p, n);
}
#else
void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n)
{
	sha256_blocks_plain(h, p, n);
}
#endif
