/* Names to numbers, hashed. */
#ifndef DDM_FILE_NAMETABLE_H
#define DDM_FILE_NAMETABLE_H

#include <stddef.h>

/* Zero-initialised is empty. */
struct nametable {
	struct nametable_slot {
		const char *name;
		size_t len;
		int value;
	} *slot;
	size_t n, cap;
};

/* The value of a name, -1 where it is not there. */
int nametable_find(const struct nametable *t, const char *name, size_t len);
/* The name's bytes stay the caller's, in place until the release. -1; or, where the name is there, its value, which stays. value >= 0. */
int nametable_add(struct nametable *t, const char *name, size_t len, int value);
void nametable_release(struct nametable *t);

#endif
