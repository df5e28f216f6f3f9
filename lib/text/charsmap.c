/* Looks up byte sequences in SentencePiece's precompiled character map. */
#include "text/charsmap.h"

#include <string.h>

#include "core/mem.h"

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int charsmap_new(struct charsmap *m, const void *data, size_t len, const char *where, struct err *e)
{
	const uint8_t *p = data;
	size_t trie;

	memset(m, 0, sizeof *m);
	if (!len)
		return 0;
	trie = len < 4 ? 0 : read32(p);
	if (len < 4 || trie % 4 || trie > len - 4)
		return err_set(e, ERR_DATA, "%s: the character map is truncated", where);
	m->units = trie / 4;
	m->len = len - 4 - trie;
	m->trie = mem_alloc((m->units + 1) * sizeof *m->trie);
	for (size_t i = 0; i < m->units; i++)
		m->trie[i] = read32(p + 4 + 4 * i);
	m->texts = mem_strndup((const char *)p + 4 + trie, m->len);
	return 0;
}

void charsmap_release(struct charsmap *m)
{
	mem_free(m->trie);
	mem_free(m->texts);
	memset(m, 0, sizeof *m);
}

/* A unit: bit 31 marks a value, bit 8 that a value follows, bits 10.. the offset of the children (bit 9: times 256), bits 0..7 and 31 the
 * label it must have been reached by. */
static size_t offset_of(uint32_t unit)
{
	return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

size_t charsmap_find(const struct charsmap *m, const char *p, size_t n, const char **text)
{
	size_t at, found = 0;

	if (!m->units)
		return 0;
	at = offset_of(m->trie[0]);
	for (size_t i = 0; i < n && p[i]; i++) {
		uint8_t c = (uint8_t)p[i];
		uint32_t unit;

		at ^= c;
		if (at >= m->units || ((unit = m->trie[at]) & (1u << 31 | 0xff)) != c)
			break;
		at ^= offset_of(unit);
		if (unit >> 8 & 1) {
			uint32_t value = at < m->units ? m->trie[at] & ~(1u << 31) : UINT32_MAX;

			if (value >= m->len)
				break;
			*text = m->texts + value;
			found = i + 1;
		}
	}
	return found;
}
