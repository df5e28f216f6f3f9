/* The seal of a tar archive: a pax comment before its last member. */
#include "file/tarseal.h"

#include <jansson.h>
#include <string.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/seal.h"

enum { BLOCK = 512, PAX_MOST = 1 << 26 };

/* The next part of the archive. LOST: not a tar of this toolkit, so without seals. */
enum { HEADER, CONTENT, PAX, SEALED_HEADER, SEALED_CONTENT, LOST };

static int octal(const uint8_t *p, size_t n, uint64_t *out)
{
	size_t i;

	*out = 0;
	for (i = 0; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		*out = *out * 8 + (uint64_t)(p[i] - '0');
	return i && (i == n || !p[i] || p[i] == ' ');
}

/* Content of a header's member with its padding, or -1 where this is no header that is understood. */
static int64_t content_of(const uint8_t *h, uint64_t *size)
{
	uint64_t sum = 0, want;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	if (!octal(h + 148, 8, &want) || want != sum || !octal(h + 124, 12, size))
		return -1;
	return (int64_t)((*size + BLOCK - 1) / BLOCK * BLOCK);
}

static void begin(struct tarseal *s)
{
	if (s->all)
		XXH3_64bits_reset(s->all);
	else
		s->all = hash64_state();
}

static void compare(struct tarseal *s)
{
	s->broken |= XXH3_64bits_digest(s->all) != s->hash;
	s->state = HEADER;
}

static void take_header(struct tarseal *s)
{
	static const uint8_t zeros[BLOCK];
	int sealed = s->state == SEALED_HEADER;
	uint64_t size;
	int64_t left;

	if (!memcmp(s->block, zeros, BLOCK)) { /* the end of an archive; another may follow */
		s->broken |= sealed;
		s->state = HEADER;
		begin(s);
		return;
	}
	left = content_of(s->block, &size);
	XXH3_64bits_update(s->all, s->block, BLOCK);
	s->left = (uint64_t)left;
	s->state = left < 0 ? LOST : sealed ? SEALED_CONTENT : left ? CONTENT : HEADER;
	if (left >= 0 && !sealed && (s->block[156] == 'x' || s->block[156] == 'g') && !strcmp((char *)s->block, TARSEAL_NAME)) {
		s->state = PAX;
		s->pax_len = size;
		str_reset(&s->pax);
		s->broken |= !left || left > PAX_MOST;
	}
	if (s->state == SEALED_CONTENT && !left)
		compare(s);
}

/* The whole content of the header that bears the seal, with zeros in the place of its digits. */
static void take_pax(struct tarseal *s)
{
	int64_t at = seal_find(s->pax.p, s->pax.len);

	if (at < 0 || (size_t)at + SEAL_BYTES > s->pax.len || seal_read(s->pax.p + at, &s->hash)) {
		s->broken = 1;
		s->state = LOST;
		return;
	}
	memcpy(s->pax.p + at, SEAL_BLANK, SEAL_BYTES);
	XXH3_64bits_update(s->all, s->pax.p, s->pax.len);
	if (s->block[156] == 'g')
		compare(s);
	else
		s->state = SEALED_HEADER;
}

void tarseal_add(struct tarseal *s, const void *data, size_t n)
{
	const uint8_t *p = data;

	if (!s->all)
		begin(s);
	while (n && s->state != LOST && !s->broken) {
		int header = s->state == HEADER || s->state == SEALED_HEADER;
		uint64_t room = header ? BLOCK - s->have : s->left;
		size_t take = n < room ? n : (size_t)room;

		if (header) {
			memcpy(s->block + s->have, p, take);
			s->have = (s->have + take) % BLOCK;
			if (!s->have)
				take_header(s);
		} else {
			if (s->state == PAX)
				str_add(&s->pax, p, take);
			else
				XXH3_64bits_update(s->all, p, take);
			s->left -= take;
			if (!s->left && s->state == PAX)
				take_pax(s);
			else if (!s->left && s->state == SEALED_CONTENT)
				compare(s);
			else if (!s->left)
				s->state = HEADER;
		}
		p += take;
		n -= take;
	}
}

int tarseal_broken(const struct tarseal *s)
{
	return s->broken;
}

void tarseal_release(struct tarseal *s)
{
	str_release(&s->pax);
	XXH3_freeState(s->all);
	*s = (struct tarseal){0};
}

void tarend_add(struct tarend *t, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t room = sizeof t->tail, take = n < room ? n : room;

	if (!t->bytes)
		t->zstd = n >= 4 && !memcmp(p, "\x28\xb5\x2f\xfd", 4);
	t->bytes += n;
	memmove(t->tail, t->tail + take, room - take);
	if (take)
		memcpy(t->tail + room - take, p + n - take, take);
}

int tarend_check(const struct tarend *t, const char *where, const char *stamp, struct err *e)
{
	json_t *o = t->zstd && *stamp ? json_loads(stamp, 0, NULL) : NULL;
	const char *program = json_string_value(json_object_get(o, "program"));
	int ends = shard_get32(t->tail + 5) == SHARD_SEEK_MAGIC && t->tail[4] == 0x80;
	int rc = program && !strcmp(program, "ddm-shard") && !ends
	             ? err_set(e, ERR_DATA, "%s: a shard whose end record is missing or damaged: its stamp names ddm-shard", where)
	             : 0;

	json_decref(o);
	return rc;
}
