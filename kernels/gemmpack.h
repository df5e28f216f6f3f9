/* Packing of the CPU's matrix product: columns of B into panels of NR, rows of A^T into panels of MR. Private to gemm.c and gemmpack.c, which are
 * compiled once for each type of numbers and each instruction set. */
#ifndef DDM_KERNELS_GEMMPACK_H
#define DDM_KERNELS_GEMMPACK_H

#include <string.h>

#include "kernels/cut.h"
#include "kernels/gemm.h"
#include "kernels/gemmtile.h"

enum {
	GEMM_ASTEP = MR * GEMM_KC + 16, /* stride between packed panels of A; the 16 avoid conflicts in the cache and are room for copy_rows */
	SOON = 16                       /* rows by which a matrix that is being packed is prefetched */
};

/* Pack n columns of length kc, stored ld apart, into dst [kc][NR]. The last block of k overlaps the one before. */
static inline void pack_columns(real *dst, const real *b, int64_t ld, int64_t n, int64_t kc)
{
	for (int64_t j = 0; j < n; j += VLEN) {
		int64_t lanes = min64(VLEN, n - j);

		for (int64_t step = 0; step < kc && kc >= VLEN; step += VLEN) {
			int64_t k = min64(step, kc - VLEN);
			vreal v[VLEN];

			for (int64_t i = 0; i < VLEN; i++)
				v[i] = i < lanes ? v_load(b + (j + i) * ld + k) : v_splat(0);
			v_transpose(v);
			for (int64_t i = 0; i < VLEN; i++)
				v_store(dst + (k + i) * NR + j, v[i]);
		}
		for (int64_t k = 0; k < kc && kc < VLEN; k++)
			for (int64_t i = 0; i < lanes; i++)
				dst[k * NR + j + i] = b[(j + i) * ld + k];
	}
}

/* Pack columns [j0, j0 + NR) of op(B), rows [k0, k0 + kc), into dst [kc][NR]; columns from N on are zero. */
static inline void pack_b(const struct gemm *g, const real *b, int64_t j0, int64_t k0, int64_t kc, real *restrict dst)
{
	int64_t n = min64(NR, g->n - j0);

	if (g->make && g->ta == GEMM_T) {
		for (int64_t k = 0; k < kc; k++) {
			g->make(g->from, k0 + k, j0, n, dst + k * NR);
			memset(dst + k * NR + n, 0, (size_t)(NR - n) * sizeof *dst);
		}
		return;
	}
	if (g->tb == GEMM_N && n == NR) {
		for (int64_t k = 0; k < kc; k++) {
			const real *src = b + (k0 + k) * g->ldb + j0;

			for (int l = 0; l < NR; l += LINE)
				__builtin_prefetch(src + SOON * g->ldb + l);
			memcpy(dst + k * NR, src, NR * sizeof *dst);
		}
		return;
	}
	if (g->tb == GEMM_T) {
		if (n < NR)
			memset(dst, 0, (size_t)(kc * NR) * sizeof *dst);
		pack_columns(dst, b + j0 * g->ldb + k0, g->ldb, n, kc);
		return;
	}
	for (int64_t k = 0; k < kc; k++) {
		const real *src = b + (k0 + k) * g->ldb + j0;

		v_store(dst + k * NR, v_load_part(src, lanes_in(n, 0)));
		v_store(dst + k * NR + VLEN, v_load_part(src + VLEN, lanes_in(n, 1)));
	}
}

/* Copy MR elements. With 64-byte vectors of floats a whole vector is stored, its rest zero: memory that the next row of the panel overwrites. */
static inline void copy_rows(real *restrict dst, const real *src)
{
	if (VBYTES == 64 && sizeof(real) == 4)
		v_store(dst, v_load_part(src, MR));
	else
		memcpy(dst, src, MR * sizeof *dst);
}

/* Pack rows [i0, i1) of op(A) = A^T, columns [k0, k0 + kc), into panels of MR rows, each [k][MR], GEMM_ASTEP apart. */
static inline void pack_a(const struct gemm *g, const real *a, int64_t i0, int64_t i1, int64_t k0, int64_t kc, real *restrict dst)
{
	int64_t whole = (i1 - i0) / MR, rest = (i1 - i0) % MR;

	for (int64_t k = 0; k < kc; k++) {
		const real *src = a + (k0 + k) * g->lda + i0;
		real *to = dst + k * MR;

		for (int64_t p = 0; p < whole; p++)
			copy_rows(to + p * GEMM_ASTEP, src + p * MR);
		if (rest)
			memcpy(to + whole * GEMM_ASTEP, src + whole * MR, (size_t)rest * sizeof *to);
	}
}

#endif
