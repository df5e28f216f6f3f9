/* A hash table from names to numbers. */
#include "file/nametable.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"

/* The slot of a name, or the empty slot to insert it at. cap is a power of two; the table is never full. */
static struct nametable_slot *seek(const struct nametable *t, const char *name, size_t len)
{
	size_t at = hash64(name, len) & (t->cap - 1);

	while (t->slot[at].name && (t->slot[at].len != len || memcmp(t->slot[at].name, name, len)))
		at = (at + 1) & (t->cap - 1);
	return t->slot + at;
}

static void grow(struct nametable *t)
{
	struct nametable old = *t;

	t->cap = old.cap ? 2 * old.cap : 64;
	t->slot = mem_zalloc(t->cap, sizeof *t->slot);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slot[i].name)
			*seek(t, old.slot[i].name, old.slot[i].len) = old.slot[i];
	mem_free(old.slot);
}

int nametable_find(const struct nametable *t, const char *name, size_t len)
{
	const struct nametable_slot *s = t->n ? seek(t, name, len) : NULL;

	return s && s->name ? s->value : -1;
}

int nametable_add(struct nametable *t, const char *name, size_t len, int value)
{
	struct nametable_slot *s;

	if (2 * (t->n + 1) > t->cap)
		grow(t);
	s = seek(t, name, len);
	if (s->name)
		return s->value;
	*s = (struct nametable_slot){name, len, value};
	t->n++;
	return -1;
}

void nametable_release(struct nametable *t)
{
	mem_free(t->slot);
	*t = (struct nametable){0};
}
