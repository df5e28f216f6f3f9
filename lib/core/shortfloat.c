/* Conversions between float and the formats of 8 and 16 bits. */
#include "core/shortfloat.h"

#include <math.h>
#include <string.h>

float bf16_to_f32(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff, u;
	float f;

	if (exp == 31)
		u = sign | 0x7f800000 | man << 13;
	else if (exp)
		u = sign | (exp + 112) << 23 | man << 13;
	else {
		f = (float)man * 0x1p-24f;
		return sign ? -f : f;
	}
	memcpy(&f, &u, 4);
	return f;
}

float f8_e5m2_to_f32(uint8_t b)
{
	return f16_to_f32((uint16_t)(b << 8));
}

float f8_e4m3_to_f32(uint8_t b)
{
	int exp = b >> 3 & 15, man = b & 7;
	float f = exp == 15 && man == 7 ? NAN : exp ? ldexpf((float)(8 + man), exp - 10) : (float)man * 0x1p-9f;

	return b & 0x80 ? -f : f;
}

uint16_t f32_to_bf16(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t f32_to_f16(float f)
{
	uint32_t u, sign, man;
	int exp, shift;

	memcpy(&u, &f, 4);
	sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	if (u > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
	if (u >= 0x477ff000) /* rounds to 65536 or more */
		return (uint16_t)(sign | 0x7c00);
	if (u >= 0x38800000) {
		u += 0xfff + (u >> 13 & 1);
		return (uint16_t)(sign | (u - 0x38000000) >> 13);
	}
	exp = (int)(u >> 23);
	if (exp < 102)
		return (uint16_t)sign;
	man = (u & 0x7fffff) | 0x800000;
	shift = 126 - exp; /* 14 .. 24: the result is man * 2^-shift units of 2^-24 */
	man += (1u << (shift - 1)) - 1 + (man >> shift & 1);
	return (uint16_t)(sign | man >> shift);
}
