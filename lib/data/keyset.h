/* A set of keys that notices repetition. It holds 64-bit hashes, 16 bytes a key at most: among a million keys two
 * different ones pass for equal with probability 3e-8. */
#ifndef DDM_DATA_KEYSET_H
#define DDM_DATA_KEYSET_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. */
struct keyset {
	uint64_t *slot;
	size_t n, cap;
};

int keyset_add(struct keyset *s, const char *key); /* 1 when it was there already */
void keyset_clear(struct keyset *s);               /* empty, memory kept */
void keyset_release(struct keyset *s);

#endif
