/* Numbers by a formula of integers, which Python computes to the same bits: weights of networks that both make, too large to be kept. */
#ifndef DDM_TESTS_UNIT_FORMULA_H
#define DDM_TESTS_UNIT_FORMULA_H

#include <stdint.h>

/* Number k of a stream, in [-1, 1): uniform() of tests/golden/i3d.py. */
static inline double formula_uniform(uint32_t k, uint32_t stream)
{
	uint32_t x = k + stream * 0x9E3779B1u;

	x = (x ^ x >> 16) * 0x45D9F3Bu;
	x = (x ^ x >> 16) * 0x45D9F3Bu;
	x = x ^ x >> 16;
	return (double)x / 2147483648. - 1;
}

#endif
