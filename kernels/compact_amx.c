/* The product with compact weights by AMX tiles. Builds for older CPUs include it too; compact_isa() asks compact_amx_permitted() first.
 *
 * TDPBF16PS adds to a sum the products of 16 pairs of ks: those of the even ks and those of the odd ks are added up apart, by fused
 * multiply-adds from zero in ascending order, then both are added to each other, and the result to the sum, which goes on from one chunk of ks
 * to the next. Subnormal numbers count as zero. (Intel, "Software Developer's Manual", volume 2.) */
#include "kernels/compacttile.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TARGET /* tests/op/test_compact_kernels.c emulates the instructions */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#endif

#include "kernels/avx512.h"

enum { TILE_ROWS = 16, DEEP = COMPACT_DEEP };

#ifdef __linux__

int compact_amx_permitted(void)
{
	enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILES = 18 /* XFEATURE_XTILEDATA */, BF16 = 1 << 22, TILE = 1 << 24 };
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) && !syscall(SYS_arch_prctl, REQUEST, TILES);
}

#else

int compact_amx_permitted(void)
{
	return 0;
}

#endif

/* All eight tiles have 16 rows of 64 bytes: four sums of 16 x 16, two of A and two of B. */
TARGET static void amx_begin(void)
{
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} layout = {.palette = 1};

	for (int i = 0; i < 8; i++) {
		layout.bytes[i] = 64;
		layout.rows[i] = TILE_ROWS;
	}
	_tile_loadconfig(&layout);
}

TARGET static void amx_end(void)
{
	_tile_release();
}

/* Rows are as long as whole tiles. */
static int64_t amx_row(int64_t pairs)
{
	return (pairs + DEEP - 1) / DEEP * DEEP * 4;
}

TARGET static void amx_round(void *dst, const void *x, int bf16, int64_t k)
{
	for (int64_t i = 0; bf16 && i < k; i += 2 * DEEP)
		_mm512_storeu_si512((char *)dst + 2 * i, avx512_rounded((const uint16_t *)x + i, 1, k - i));
	for (int64_t i = 0; !bf16 && i < k; i += 2 * DEEP)
		_mm512_storeu_si512((char *)dst + 2 * i, avx512_rounded((const float *)x + i, 0, k - i));
}

/* Rows of op(A) lie as amx_round leaves them, so one `tile` serves both. */
TARGET __attribute__((always_inline)) static inline void turn(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k)
{
	int64_t step = amx_row((k + 1) / 2);

	for (int64_t at = 0; at < k; at += 2 * DEEP)
		for (int64_t i = 0; i < n; i += TILE_ROWS) {
			const void *x = compact_number(a, bf16, at * lda + i);
			__m512i r[16];

			for (int p = 0; p < DEEP; p++)
				r[p] = avx512_paired(compact_number(x, bf16, 2 * p * lda), compact_number(x, bf16, (2 * p + 1) * lda), bf16, n - i,
				                     k - at - 2 * p);
			avx512_transpose(r);
			for (int v = 0; v < TILE_ROWS && v < n - i; v++)
				_mm512_storeu_si512((char *)dst + (i + v) * step + 2 * at, r[v]);
		}
}

TARGET static void amx_across(void *dst, const void *a, int bf16, int64_t lda, int64_t n, int64_t k)
{
	if (bf16)
		turn(dst, a, 1, lda, n, k);
	else
		turn(dst, a, 0, lda, n, k);
}

/* Adds the products of 16 more pairs to the sums of 16 rows, or of 32 with `both`. Rows of b are `pitch` bytes apart. */
#define DEEPER(a, step, b, pitch, both) \
	do { \
		_tile_loadd(4, a, step); \
		_tile_loadd(6, b, pitch); \
		_tile_loadd(7, (b) + 16, pitch); \
		_tile_dpbf16ps(0, 4, 6); \
		_tile_dpbf16ps(1, 4, 7); \
		if (both) { \
			_tile_loadd(5, (a) + TILE_ROWS * (step), step); \
			_tile_dpbf16ps(2, 5, 6); \
			_tile_dpbf16ps(3, 5, 7); \
		} \
	} while (0)

/* The compiler does not know which memory the instructions for tiles read and write. */
static inline void tiles_see_memory(void)
{
	__asm__ volatile("" ::: "memory");
}

TARGET __attribute__((always_inline)) static inline void sums_of(float *sum, int64_t ld, const char *a, const uint32_t *b, int64_t pairs, int both,
                                                                 int add, void (*beside)(void *), void *arg)
{
	uint32_t rest[DEEP * COMPACT_NR] __attribute__((aligned(64)));
	int64_t step = amx_row(pairs), p = 0;

	tiles_see_memory();
	if (add) {
		_tile_loadd(0, sum, ld * 4);
		_tile_loadd(1, sum + 16, ld * 4);
		if (both) {
			_tile_loadd(2, sum + TILE_ROWS * ld, ld * 4);
			_tile_loadd(3, sum + TILE_ROWS * ld + 16, ld * 4);
		}
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (; p + DEEP <= pairs; p += DEEP) {
		DEEPER(a + p * 4, step, b + p * COMPACT_NR, COMPACT_NR * 4, both);
		if (beside)
			beside(arg);
	}
	if (p < pairs) { /* the rows at `a` end with zeros, but after the panel anything may follow */
		memset(rest, 0, sizeof rest);
		memcpy(rest, b + p * COMPACT_NR, (size_t)((pairs - p) * COMPACT_NR) * sizeof *rest);
		tiles_see_memory();
		DEEPER(a + p * 4, step, rest, COMPACT_NR * 4, both);
		if (beside)
			beside(arg);
	}
	_tile_stored(0, sum, ld * 4);
	_tile_stored(1, sum + 16, ld * 4);
	if (both) {
		_tile_stored(2, sum + TILE_ROWS * ld, ld * 4);
		_tile_stored(3, sum + TILE_ROWS * ld + 16, ld * 4);
	}
	tiles_see_memory();
}

TARGET static void amx_tile_add(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m, int add, void (*beside)(void *),
                                void *arg)
{
	if (m > TILE_ROWS)
		sums_of(sum, ld, a, b, pairs, 1, add, beside, arg);
	else
		sums_of(sum, ld, a, b, pairs, 0, add, beside, arg);
}

TARGET static void amx_tile(float *sum, int64_t ld, const void *a, const uint32_t *b, int64_t pairs, int64_t m)
{
	if (m > TILE_ROWS)
		sums_of(sum, ld, a, b, pairs, 1, 0, NULL, NULL);
	else
		sums_of(sum, ld, a, b, pairs, 0, 0, NULL, NULL);
}

const struct compact_kernel compact_amx = {.mr = COMPACT_MR_AMX,
                                           .panels = 48, /* rounding is slow beside these products */
                                           .begin = amx_begin,
                                           .end = amx_end,
                                           .round = amx_round,
                                           .row = amx_row,
                                           .widen = compact_avx512_widen,
                                           .tile = amx_tile,
                                           .tile_add = amx_tile_add,
                                           .across = amx_across,
                                           .tile_across = amx_tile,
                                           .weave = compact_avx512_weave,
                                           .columns = compact_avx512_columns};

#endif
