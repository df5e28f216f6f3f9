/* Content hashes: SHA-256 (FIPS 180-4) for what leaves the machine, XXH3 (libxxhash) for keys and quick checks. */
#ifndef DDM_CORE_HASH_H
#define DDM_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, char hex[65]);  /* lower-case hex and a NUL */
void sha256_text(const char *text, char hex[65]); /* hashes the characters without the NUL */

/* SHA-256 of a whole file; *bytes (may be NULL) receives its size. */
int sha256_file(const char *path, char hex[65], uint64_t *bytes, struct err *e);

uint64_t hash64(const void *p, size_t n); /* XXH3_64bits */
struct XXH3_state_s *hash64_state(void);  /* the same for XXH3_64bits_update; never NULL; caller frees with XXH3_freeState */

/* Whether a key belongs to the held-out part: a pure function of the key, so that every program agrees without a list.
 * Only what precedes the last '@' counts: the frames VIDEO@000012 of one source stay together. fraction in [0, 1]; 0 never. */
int hash_holdout(const char *key, double fraction);

#endif
