/* A set of 64-bit hashes of keys. */
#include "data/keyset.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"

/* 0 marks a free slot, so no key has this hash. */
static uint64_t hash_of(const char *key)
{
	uint64_t h = hash64(key, strlen(key));

	return h ? h : 1;
}

/* The slot that holds h, or the free slot for it. */
static uint64_t *find(uint64_t *slot, size_t cap, uint64_t h)
{
	size_t i = h & (cap - 1);

	while (slot[i] && slot[i] != h)
		i = (i + 1) & (cap - 1);
	return &slot[i];
}

static void grow(struct keyset *s)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	uint64_t *slot = mem_zalloc(cap, sizeof *slot);

	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			*find(slot, cap, s->slot[i]) = s->slot[i];
	mem_free(s->slot);
	s->slot = slot;
	s->cap = cap;
}

int keyset_add(struct keyset *s, const char *key)
{
	uint64_t h = hash_of(key), *slot;

	if (2 * (s->n + 1) > s->cap)
		grow(s);
	slot = find(s->slot, s->cap, h);
	if (*slot)
		return 1;
	*slot = h;
	s->n++;
	return 0;
}

int keyset_has(const struct keyset *s, const char *key)
{
	return s->cap && *find(s->slot, s->cap, hash_of(key));
}

void keyset_clear(struct keyset *s)
{
	if (s->slot)
		memset(s->slot, 0, s->cap * sizeof *s->slot);
	s->n = 0;
}

void keyset_release(struct keyset *s)
{
	mem_free(s->slot);
	*s = (struct keyset){0};
}
