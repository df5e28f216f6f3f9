/* A hash table of the pixel hashes seen so far, with the key of the first sample of each. */
#include <string.h>

#include "cmd/ingest.h"
#include "core/mem.h"

/* The slot of a hash, or the free slot for it. A slot is free if its hash is 0. */
static size_t seen_slot(const struct seen *s, uint64_t hash)
{
	size_t i = hash & (s->cap - 1);

	while (s->slot[i].hash && s->slot[i].hash != hash)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static void seen_grow(struct seen *s)
{
	struct seen old = *s;

	s->cap = old.cap ? 2 * old.cap : 4096;
	s->slot = mem_zalloc(s->cap, sizeof *s->slot);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slot[i].hash)
			s->slot[seen_slot(s, old.slot[i].hash)] = old.slot[i];
	mem_free(old.slot);
}

const char *seen_add(struct seen *s, uint64_t hash, const char *key)
{
	struct seen_slot *at;

	hash += !hash; /* 0 marks a free slot */
	if (2 * (s->n + 1) > s->cap)
		seen_grow(s);
	at = &s->slot[seen_slot(s, hash)];
	if (at->hash)
		return str_text(&s->keys) + at->key;
	*at = (struct seen_slot){hash, s->keys.len};
	str_add(&s->keys, key, strlen(key) + 1);
	s->n++;
	return NULL;
}

void seen_release(struct seen *s)
{
	mem_free(s->slot);
	str_release(&s->keys);
	*s = (struct seen){0};
}
