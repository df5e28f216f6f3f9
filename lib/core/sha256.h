/* SHA-256 on whole blocks; core/hash.h is the interface for callers. */
#ifndef DDM_CORE_SHA256_H
#define DDM_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum sha256_isa {
	SHA256_PLAIN, /* C */
	SHA256_AVX2,  /* AVX2 and BMI2 */
	SHA256_SHA,   /* the processor's SHA instructions */
	SHA256_ISAS
};

/* n blocks of 64 bytes into the state, by the fastest instructions that this processor has. */
void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t n);

int sha256_has(enum sha256_isa isa); /* whether this processor has these instructions */

/* As sha256_blocks, by instructions that this processor must have: for tests. */
void sha256_blocks_by(enum sha256_isa isa, uint32_t h[8], const uint8_t *p, size_t n);

#endif
