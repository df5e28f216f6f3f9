/* SHA-256 of streams and files, and 64-bit hashes of keys. */
#include "core/hash.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/mem.h"
#include "core/openread.h"
#include "core/sha256.h"

void sha256_init(struct sha256 *s)
{
	static const uint32_t h0[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(s->h, h0, sizeof h0);
	s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t have = s->bytes % 64;

	s->bytes += n;
	if (have) {
		size_t take = n < 64 - have ? n : 64 - have;

		if (take)
			memcpy(s->block + have, p, take);
		p += take;
		n -= take;
		if (have + take < 64)
			return;
		sha256_blocks(s->h, s->block, 1);
	}
	sha256_blocks(s->h, p, n / 64);
	if (n % 64)
		memcpy(s->block, p + n / 64 * 64, n % 64);
}

void sha256_end(struct sha256 *s, char hex[65])
{
	uint64_t bits = s->bytes * 8;
	uint8_t pad[72] = {0x80};
	size_t n = (s->bytes % 64 < 56 ? 56 : 120) - s->bytes % 64;

	for (int i = 0; i < 8; i++)
		pad[n + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, pad, n + 8);
	for (int i = 0; i < 8; i++)
		snprintf(hex + 8 * i, 9, "%08x", s->h[i]);
}

void sha256_text(const char *text, char hex[65])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, text, strlen(text));
	sha256_end(&s, hex);
}

int sha256_file(const char *path, char hex[65], uint64_t *bytes, struct err *e)
{
	FILE *f = open_stream(path, e);
	struct sha256 s;
	char buf[65536];
	size_t n;
	int bad;

	if (!f)
		return -1;
	sha256_init(&s);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		sha256_add(&s, buf, n);
	bad = ferror(f);
	if (bad)
		err_errno(e, "%s: read", path);
	fclose(f);
	if (bad)
		return -1;
	if (bytes)
		*bytes = s.bytes;
	sha256_end(&s, hex);
	return 0;
}

uint64_t hash64(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

struct XXH3_state_s *hash64_state(void)
{
	XXH3_state_t *h = XXH3_createState();

	if (!h)
		mem_fail(576);
	XXH3_64bits_reset(h);
	return h;
}

int hash_holdout(const char *key, double fraction)
{
	const char *frame = strrchr(key, '@');
	size_t n = frame && frame > key ? (size_t)(frame - key) : strlen(key);

	return (double)(hash64(key, n) >> 11) * 0x1p-53 < fraction;
}
