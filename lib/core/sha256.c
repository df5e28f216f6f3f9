/* The compression function of SHA-256 (FIPS 180-4, section 6.2.2): in plain C, with AVX2, and with the processor's SHA instructions. */
#include "core/sha256.h"

#include <string.h>

static const uint32_t K[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
                               0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
                               0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
                               0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
                               0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
                               0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
                               0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotr(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* Round i. The eight state words a .. h rotate by name instead of being moved: a is s[(64 - i) % 8]. kw: the round's constant plus its word. */
static inline __attribute__((always_inline)) void round_run(uint32_t s[8], int i, uint32_t kw)
{
	uint32_t a = s[(64 - i) % 8], b = s[(65 - i) % 8], c = s[(66 - i) % 8], e = s[(68 - i) % 8], f = s[(69 - i) % 8];
	uint32_t g = s[(70 - i) % 8], *d = &s[(67 - i) % 8], *next = &s[(71 - i) % 8];
	uint32_t t = *next + kw + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g));

	*d += t;
	*next = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

/* Each word of the message schedule is computed just before the round that uses it, so that the processor can work on both at once. */
static void blocks_plain(uint32_t h[8], const uint8_t *p, size_t n)
{
	for (; n; n--, p += 64) {
		uint32_t w[16], s[8];

		for (int i = 0; i < 16; i++)
			w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
		memcpy(s, h, sizeof s);
		for (int first = 0; first < 64; first += 16)
#pragma GCC unroll 16
			for (int i = 0; i < 16; i++) {
				uint32_t two = w[(i + 14) % 16], fifteen = w[(i + 1) % 16];

				if (first)
					w[i] += w[(i + 9) % 16] + (rotr(fifteen, 7) ^ rotr(fifteen, 18) ^ fifteen >> 3) +
					        (rotr(two, 17) ^ rotr(two, 19) ^ two >> 10);
				round_run(s, i, K[first + i] + w[i]);
			}
		for (int i = 0; i < 8; i++)
			h[i] += s[i];
	}
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define SHA __attribute__((target("sha,sse4.1")))
#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

typedef uint32_t words __attribute__((vector_size(16)));

AVX2 static inline words rotr4(words x, int n)
{
	return x >> n | x << (32 - n);
}

/* sigma1 of the standard: what w[t - 2] adds to w[t]. */
AVX2 static inline words from_two(words x)
{
	return rotr4(x, 17) ^ rotr4(x, 19) ^ x >> 10;
}

/* Words t .. t + 3 of the schedule, from t - 16 (w0) .. t - 1 (w3). The last two need the first two. */
AVX2 static inline words next_words(words w0, words w1, words w2, words w3)
{
	words x = (words)_mm_alignr_epi8((__m128i)w1, (__m128i)w0, 4);
	words w = w0 + (words)_mm_alignr_epi8((__m128i)w3, (__m128i)w2, 4) + (rotr4(x, 7) ^ rotr4(x, 18) ^ x >> 3);

	w += from_two((words)_mm_srli_si128((__m128i)w3, 8));
	return w + from_two((words)_mm_slli_si128((__m128i)w, 8));
}

/* As blocks_plain, but four words of the schedule are computed at once, in a vector, 16 rounds before they are used. */
AVX2 static void blocks_avx2(uint32_t h[8], const uint8_t *p, size_t n)
{
	const __m128i bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);

	for (; n; n--, p += 64) {
		uint32_t s[8], kw[64] __attribute__((aligned(16)));
		words w[4], k;

		for (int i = 0; i < 4; i++) {
			w[i] = (words)_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), bytes);
			memcpy(&k, K + 4 * i, sizeof k);
			k += w[i];
			memcpy(kw + 4 * i, &k, sizeof k);
		}
		memcpy(s, h, sizeof s);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			if (i < 12) {
				w[i % 4] = next_words(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
				memcpy(&k, K + 4 * i + 16, sizeof k);
				k += w[i % 4];
				memcpy(kw + 4 * i + 16, &k, sizeof k);
			}
#pragma GCC unroll 4
			for (int j = 4 * i; j < 4 * i + 4; j++)
				round_run(s, j, kw[j]);
		}
		for (int i = 0; i < 8; i++)
			h[i] += s[i];
	}
}

/* The SHA instructions hold the state as (a b e f) and (c d g h). */
SHA static void blocks_sha(uint32_t h[8], const uint8_t *p, size_t n)
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

int sha256_has(enum sha256_isa isa)
{
	unsigned a, b, c, d;

	if (isa == SHA256_SHA)
		return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __get_cpuid(1, &a, &b, &c, &d) && c >> 19 & 1;
	return isa == SHA256_PLAIN || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
}

void sha256_blocks_by(enum sha256_isa isa, uint32_t h[8], const uint8_t *p, size_t n)
{
	(isa == SHA256_SHA ? blocks_sha : isa == SHA256_AVX2 ? blocks_avx2 : blocks_plain)(h, p, n);
}

void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n)
{
	static _Atomic int known; /* 0: not asked yet, else 1 + the fastest */
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (!k) {
		k = 1 + (sha256_has(SHA256_SHA) ? SHA256_SHA : sha256_has(SHA256_AVX2) ? SHA256_AVX2 : SHA256_PLAIN);
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	sha256_blocks_by((enum sha256_isa)(k - 1), h, p, n);
}
#else
int sha256_has(enum sha256_isa isa)
{
	return isa == SHA256_PLAIN;
}

void sha256_blocks_by(enum sha256_isa isa, uint32_t h[8], const uint8_t *p, size_t n)
{
	(void)isa;
	blocks_plain(h, p, n);
}

void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n)
{
	blocks_plain(h, p, n);
}
#endif
