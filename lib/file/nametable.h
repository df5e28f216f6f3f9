/* A hash table from names to numbers. */
#ifndef DDM_FILE_NAMETABLE_H
#define DDM_FILE_NAMETABLE_H

#include <stddef.h>

/* Zero-initialised is empty. */
struct nametable {
	struct nametable_slot {
		const char *name;
		size_t len;
		int value;
	} * slot;
	size_t n, cap;
};

/* The value of a name, or -1. */
int nametable_find(const struct nametable *t, const char *name, size_t len);
/* Add a name with a value >= 0. The name is borrowed until the release. Returns -1 if it is new, else its old value, which is kept. */
int nametable_add(struct nametable *t, const char *name, size_t len, int value);
void nametable_release(struct nametable *t);

#endif
