/* A set of 64-bit hashes of keys. */
#include "data/keyset.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"

/* 0 marks a free slot. */
static int put(uint64_t *slot, size_t cap, uint64_t h)
{
	size_t i = h & (cap - 1);

	while (slot[i] && slot[i] != h)
		i = (i + 1) & (cap - 1);
	if (slot[i])
		return 1;
	slot[i] = h;
	return 0;
}

static void grow(struct keyset *s)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	uint64_t *slot = mem_zalloc(cap, sizeof *slot);

	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			put(slot, cap, s->slot[i]);
	mem_free(s->slot);
	s->slot = slot;
	s->cap = cap;
}

int keyset_add(struct keyset *s, const char *key)
{
	uint64_t h = hash64(key, strlen(key));

	if (2 * (s->n + 1) > s->cap)
		grow(s);
	if (put(s->slot, s->cap, h ? h : 1))
		return 1;
	s->n++;
	return 0;
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
