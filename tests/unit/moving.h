/* The noise of synthetic pictures, for tests of scenes and of scores of clips: those of tests/golden/scene_values.py. */
#ifndef DDM_TESTS_UNIT_MOVING_H
#define DDM_TESTS_UNIT_MOVING_H

#include <stdint.h>

static uint32_t moving_mix(uint32_t x, uint32_t y, uint32_t c, uint32_t n)
{
	uint32_t v = x * 0x9E3779B1u + y * 0x85EBCA77u + c * 0xC2B2AE3Du + n * 0x27D4EB2Fu;

	v ^= v >> 15;
	v *= 0x2C1B3C6Du;
	v ^= v >> 12;
	v *= 0x297A2D39u;
	return v ^ v >> 15;
}

#endif
