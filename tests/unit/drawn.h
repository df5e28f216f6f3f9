/* Pseudorandom weights, for networks whose files would be too large for the source tree: the same numbers as drawn() in tests/golden/convnets.py. */
#ifndef DDM_TESTS_DRAWN_H
#define DDM_TESTS_DRAWN_H

#include <stdint.h>

#include "core/shortfloat.h"
#include "file/safetensors.h"

static inline uint32_t drawn_seed(const char *name)
{
	uint32_t seed = 2166136261u;

	for (; *name; name++)
		seed = (seed ^ (unsigned char)*name) * 16777619u;
	return seed;
}

/* Element i of the tensor with this seed, drawn_seed(name): uniform in shift +- scale, as float16. */
static inline uint16_t drawn(uint32_t seed, int64_t i, float scale, float shift)
{
	uint32_t h = (uint32_t)i * 0x9E3779B9u + seed;

	h = (h ^ h >> 16) * 0x85EBCA6Bu;
	h = (h ^ h >> 13) * 0xC2B2AE35u;
	h ^= h >> 16;
	return f32_to_f16(((float)(h >> 8) * 0x1p-23f - 1) * scale + shift);
}

#endif
