/* The instructions for AMX tiles that kernels/compact_amx.c uses, in plain C: include this header, then the file. Semantics: Intel's Software
 * Developer's Manual. Include it after tests/op/emulate_avx512.h. A tile that was not configured holds rows of 0 bytes. Each
 * thread has its own tiles. */
#ifndef DDM_TESTS_EMULATE_AMX_H
#define DDM_TESTS_EMULATE_AMX_H

#include "tests/op/emulate_avx512.h"

static _Thread_local struct emulated_tile {
	int rows, bytes;
	uint32_t at[16][16];
} emulated_tiles[8];

static void emulated_tile_config(const void *p)
{
	const unsigned char *c = p;

	for (int t = 0; t < 8; t++) {
		memset(&emulated_tiles[t], 0, sizeof emulated_tiles[t]);
		emulated_tiles[t].rows = c[48 + t];
		emulated_tiles[t].bytes = c[16 + 2 * t] | c[17 + 2 * t] << 8;
	}
}

static void emulated_tile_release(void)
{
	memset(emulated_tiles, 0, sizeof emulated_tiles);
}

static void emulated_tile_zero(int t)
{
	memset(emulated_tiles[t].at, 0, sizeof emulated_tiles[t].at);
}

static void emulated_tile_load(int t, const void *p, int64_t pitch)
{
	emulated_tile_zero(t);
	for (int i = 0; i < emulated_tiles[t].rows; i++)
		memcpy(emulated_tiles[t].at[i], (const char *)p + i * pitch, (size_t)emulated_tiles[t].bytes);
}

static void emulated_tile_store(int t, void *p, int64_t pitch)
{
	for (int i = 0; i < emulated_tiles[t].rows; i++)
		memcpy((char *)p + i * pitch, emulated_tiles[t].at[i], (size_t)emulated_tiles[t].bytes);
}

/* One rounding, subnormal numbers taken and left as zero. */
static float emulated_fma(uint32_t a, uint32_t b, float c)
{
	return emulated_float(emulated_bits(fmaf(emulated_float(a), emulated_float(b), c)));
}

/* TDPBF16PS: the products of even and of odd numbers are summed apart from zero, then added to each other, then to the sum. */
static void emulated_tile_dot(int sum, int ta, int tb)
{
	const struct emulated_tile *a = &emulated_tiles[ta], *b = &emulated_tiles[tb];

	for (int m = 0; m < emulated_tiles[sum].rows; m++)
		for (int n = 0; n < emulated_tiles[sum].bytes / 4; n++) {
			float even = 0, odd = 0;

			for (int k = 0; k < a->bytes / 4; k++) {
				even = emulated_fma(a->at[m][k] << 16, b->at[k][n] << 16, even);
				odd = emulated_fma(a->at[m][k] & 0xffff0000, b->at[k][n] & 0xffff0000, odd);
			}
			even = emulated_float(emulated_bits(even + odd));
			emulated_tiles[sum].at[m][n] = emulated_bits(emulated_float(emulated_tiles[sum].at[m][n]) + even);
		}
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_tile_config
#define _tile_release emulated_tile_release
#define _tile_zero emulated_tile_zero
#define _tile_loadd(t, p, pitch) emulated_tile_load(t, p, pitch)
#define _tile_stored(t, p, pitch) emulated_tile_store(t, p, pitch)
#define _tile_dpbf16ps emulated_tile_dot

#endif
