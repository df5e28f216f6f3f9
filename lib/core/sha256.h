/* SHA-256 on whole blocks; core/hash.h is the interface for callers. */
#ifndef DDM_CORE_SHA256_H
#define DDM_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* n blocks of 64 bytes into the state; uses the processor's SHA instructions if it has them. */
void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n);
void sha256_blocks_plain(uint32_t h[8], const uint8_t *p, size_t n); /* the same without them */

#endif
