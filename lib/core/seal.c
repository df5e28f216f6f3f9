/* Seals: the hash of a file's contents that the file carries itself. */
#include "core/seal.h"

#include <string.h>
#include <xxhash.h>

#include "core/hash.h"

static const char word_before[] = "ddm-seal:", word_after[] = ":ddm-seal", zeros[] = "0000000000000000", digits[] = "0123456789abcdef";

enum { WORD = 9, HEX = 16 };

void seal_put_hash(char *seal, uint64_t hash)
{
	for (int i = 0; i < HEX; i++)
		seal[WORD + i] = digits[hash >> (60 - 4 * i) & 15];
}

static uint64_t hash_around(const uint8_t *p, size_t len, size_t at)
{
	XXH3_state_t *h = hash64_state();
	uint64_t v;

	XXH3_64bits_update(h, p, at + WORD);
	XXH3_64bits_update(h, zeros, HEX);
	XXH3_64bits_update(h, p + at + WORD + HEX, len - at - WORD - HEX);
	v = XXH3_64bits_digest(h);
	XXH3_freeState(h);
	return v;
}

void seal_put(char *data, size_t len, size_t at)
{
	seal_put_hash(data + at, hash_around((const uint8_t *)data, len, at));
}

/* A seal's word too near an edge for the rest of the seal still counts as a seal: seal_holds then reports it as damaged. */
static int64_t begin_of(const uint8_t *p, const uint8_t *word, int after)
{
	int64_t at = word - p;

	return !after ? at : at < WORD + HEX ? 0 : at - WORD - HEX;
}

int64_t seal_find(const void *data, size_t len)
{
	const uint8_t *p = data, *a = memmem(p, len, word_before, WORD), *b = memmem(p, len, word_after, WORD);

	if (a && (!b || begin_of(p, a, 0) <= begin_of(p, b, 1)))
		return begin_of(p, a, 0);
	return b ? begin_of(p, b, 1) : -1;
}

int64_t seal_find_last(const void *data, size_t len, size_t tail)
{
	const uint8_t *p = data;
	size_t from = len > tail + SEAL_BYTES ? len - tail - SEAL_BYTES : 0;

	for (size_t end = len; end >= from + WORD; end--) {
		if (!memcmp(p + end - WORD, word_after, WORD))
			return begin_of(p, p + end - WORD, 1);
		if (end >= from + SEAL_BYTES && !memcmp(p + end - SEAL_BYTES, word_before, WORD))
			return (int64_t)(end - SEAL_BYTES);
	}
	return -1;
}

int seal_read(const char *seal, uint64_t *hash)
{
	*hash = 0;
	if (memcmp(seal, word_before, WORD) || memcmp(seal + WORD + HEX, word_after, WORD))
		return -1;
	for (int i = 0; i < HEX; i++) {
		const char *digit = memchr(digits, seal[WORD + i], HEX);

		if (!digit)
			return -1;
		*hash = *hash << 4 | (uint64_t)(digit - digits);
	}
	return 0;
}

int seal_holds(const void *data, size_t len, size_t at)
{
	uint64_t hash;

	return len >= SEAL_BYTES && at <= len - SEAL_BYTES && !seal_read((const char *)data + at, &hash) && hash == hash_around(data, len, at);
}

static const char comment[] = "<!-- " SEAL_BLANK " -->\n";

enum { COMMENT_END = 5 };

void seal_markup(struct str *text)
{
	str_puts(text, comment);
	seal_put(text->p, text->len, text->len - COMMENT_END - SEAL_BYTES);
}

int seal_check_markup(const void *data, size_t len, const char *name, struct err *e)
{
	int64_t at = seal_find_last(data, len, COMMENT_END);

	if (at < 0)
		return 1;
	return seal_holds(data, len, (size_t)at) ? 0 : seal_broken(name, e);
}

int seal_broken(const char *name, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: altered since it was written: its seal does not hold (ddm-formats, Seals)", name);
}
