/* A set of keys for finding duplicates. It stores 64-bit hashes, at most 16 bytes a key: among a million keys, the probability that two different
 * ones are taken for equal is 3e-8. */
#ifndef DDM_DATA_KEYSET_H
#define DDM_DATA_KEYSET_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. */
struct keyset {
	uint64_t *slot;
	size_t n, cap;
};

int keyset_add(struct keyset *s, const char *key); /* 1 if the set already has the key, else 0 */
int keyset_has(const struct keyset *s, const char *key);
void keyset_clear(struct keyset *s); /* empty, memory kept */
void keyset_release(struct keyset *s);

#endif
