/* Floats of 8 and 16 bits: IEEE's half (f16), bfloat16 (bf16), and the two of OCP's 8-bit formats (f8_e4m3, f8_e5m2). */
#ifndef DDM_CORE_SHORTFLOAT_H
#define DDM_CORE_SHORTFLOAT_H

#include <stdint.h>

/* Exact. */
float f8_e4m3_to_f32(uint8_t b);
float f8_e5m2_to_f32(uint8_t b);
float f16_to_f32(uint16_t h);
float bf16_to_f32(uint16_t h);

/* Rounds to nearest, ties to even; a value too large becomes infinity, NaN stays NaN. */
uint16_t f32_to_f16(float f);
uint16_t f32_to_bf16(float f);

#endif
