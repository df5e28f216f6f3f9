/* The register tile of the CPU's matrix product (gemm.c). */
#ifndef DDM_KERNELS_GEMMTILE_H
#define DDM_KERNELS_GEMMTILE_H

#include "kernels/gemm.h"
#include "kernels/real.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

enum {
	NR = 2 * VLEN,                 /* columns of a tile, and of a packed panel */
	MR = VREGS == 32 ? 12 : 6,     /* rows of a tile, at most */
	LINE = 64 / (int)sizeof(real), /* reals in a cache line */
	STEPS = VREGS == 32 ? 2 : 1,   /* k of a turn of the loop; with 16 registers one leaves none free */
	AHEAD = VBYTES == 64 ? 16 : 0  /* k by which a packed panel of B is prefetched into the first-level cache; 0: it is not */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The number of the n columns that are in vector v of a row of NR. */
static inline int lanes_in(int64_t n, int v)
{
	int64_t lanes = n - v * VLEN;

	return lanes < 0 ? 0 : lanes > VLEN ? VLEN : (int)lanes;
}

/* How a tile finds a(i, k) and b(k, j). */
enum tile_layout {
	TILE_ROWS,    /* a[i * lda + k], b[k * NR + j] */
	TILE_COLUMNS, /* a[k * lda + i], b[k * ldb + j] */
	TILE_PACKED,  /* a[k * MR + i], b[k * NR + j] */
	TILE_LAYOUTS
};

/* Arguments common to the tiles of a block, and a prefetch address that changes with each. Passed by reference, because loading recently
 * written fields for a copy would stall behind the stores of C. */
struct tile {
	enum tile_layout layout;
	int64_t lda;
	int64_t ldb; /* of TILE_COLUMNS only */
	int64_t kc;
	int64_t ldc;
	const real *ask; /* address to prefetch, one line per k, `step` apart; unused by TILE_ROWS where AHEAD is set */
	int64_t step;
	int plain; /* 1: c = a b with all NR columns, and the fields below are ignored */
	int64_t n; /* columns of c that exist */
	real alpha;
	const real *add; /* added to a b: the old c, or the sum's initial value; or NULL */
	int64_t ldadd;
	const real *bias; /* [NR] or NULL, added last, on the last chunk */
	real *aux;        /* receives the same values as c; or NULL */
	int64_t ldaux;
	int stream; /* aux is aligned and too large to stay in the cache: bypass it */
};

ALWAYS_INLINE vreal lanes_load(const real *p, int n)
{
	return n == VLEN ? v_load(p) : v_load_part(p, n);
}

ALWAYS_INLINE void lanes_store(real *p, vreal v, int n)
{
	if (n == VLEN)
		v_store(p, v);
	else
		v_store_part(p, v, n);
}

/* Finish and store a row of two vectors, of which the first n0 and n1 lanes exist. */
ALWAYS_INLINE void row_store(const struct tile *t, real *c, const real *add, real *aux, vreal lo, vreal hi, int n0, int n1)
{
	if (t->alpha != REAL_C(1.0)) {
		lo *= v_splat(t->alpha);
		hi *= v_splat(t->alpha);
	}
	if (add) {
		lo += lanes_load(add, n0);
		hi += lanes_load(add + VLEN, n1);
	}
	if (t->bias) {
		lo += lanes_load(t->bias, n0);
		hi += lanes_load(t->bias + VLEN, n1);
	}
	lanes_store(c, lo, n0);
	lanes_store(c + VLEN, hi, n1);
	if (t->stream) {
		v_stream(aux, lo);
		v_stream(aux + VLEN, hi);
	} else if (aux) {
		lanes_store(aux, lo, n0);
		lanes_store(aux + VLEN, hi, n1);
	}
}

/* Add the products of one k. Prefetch a later row of b and, with `ask`, the line at `hint`. */
ALWAYS_INLINE void tile_step(vreal lo[MR], vreal hi[MR], const real *a, int64_t rs, const real *b, int64_t ldb, const real *hint, int m, int ask)
{
	vreal b0 = v_load(b), b1 = v_load(b + VLEN);

#pragma GCC unroll 14
	for (int i = 0; i < m; i++) {
		vreal s = v_splat(a[i * rs]);

		lo[i] = v_fma(s, b0, lo[i]);
		hi[i] = v_fma(s, b1, hi[i]);
	}
	if (AHEAD)
		for (int j = 0; j < NR; j += LINE)
			__builtin_prefetch(b + AHEAD * ldb + j);
	if (ask)
		__builtin_prefetch(hint, 0, 2);
}

/* c [m][NR] = alpha a b [+ c], b [kc][NR]. */
ALWAYS_INLINE void tile_of(const struct tile *t, real *c, const real *a, const real *b, int m, enum tile_layout layout)
{
	const real *hint = t->ask;
	const int by_rows = layout == TILE_ROWS, ask = !(by_rows && AHEAD);
	const int64_t step = t->step, ldc = t->ldc, rs = by_rows ? t->lda : 1, ldb = layout == TILE_COLUMNS ? t->ldb : NR;
	const int64_t cs = by_rows ? 1 : layout == TILE_COLUMNS ? t->lda : MR;
	vreal lo[MR], hi[MR];
	int64_t k = t->kc;

#pragma GCC unroll 14
	for (int i = 0; i < m; i++)
		lo[i] = hi[i] = v_splat(0);
	/* Prefetch C, which is seldom in cache. A weight gradient's C was just used, so it needs no prefetch. */
	if (by_rows)
#pragma GCC unroll 14
		for (int i = 0; i < m; i++)
			for (int j = 0; j < NR; j += LINE)
				__builtin_prefetch(c + i * ldc + j, 1);
	for (; k >= STEPS; k -= STEPS)
#pragma GCC unroll 2
		for (int u = 0; u < STEPS; u++, a += cs, b += ldb, hint += step)
			tile_step(lo, hi, a, rs, b, ldb, hint, m, ask);
	for (; k > 0; k--, a += cs, b += ldb, hint += step)
		tile_step(lo, hi, a, rs, b, ldb, hint, m, ask);
	if (t->plain) {
#pragma GCC unroll 14
		for (int i = 0; i < m; i++) {
			v_store(c + i * ldc, lo[i]);
			v_store(c + i * ldc + VLEN, hi[i]);
		}
		return;
	}
	if (t->n == NR) {
#pragma GCC unroll 14
		for (int i = 0; i < m; i++)
			row_store(t, c + i * ldc, t->add ? t->add + i * t->ldadd : NULL, t->aux ? t->aux + i * t->ldaux : NULL, lo[i], hi[i], VLEN,
			          VLEN);
	} else {
		int n0 = lanes_in(t->n, 0), n1 = lanes_in(t->n, 1);

#pragma GCC unroll 14
		for (int i = 0; i < m; i++)
			row_store(t, c + i * ldc, t->add ? t->add + i * t->ldadd : NULL, t->aux ? t->aux + i * t->ldaux : NULL, lo[i], hi[i], n0, n1);
	}
}

#define TILE(name, m, layout) \
	static __attribute__((noinline)) void name(const struct tile *t, real *c, const real *a, const real *b) \
	{ \
		tile_of(t, c, a, b, m, layout); \
	}
#define TILES(m) TILE(tile_rows_##m, m, TILE_ROWS) TILE(tile_columns_##m, m, TILE_COLUMNS) TILE(tile_packed_##m, m, TILE_PACKED)
TILE_HEIGHTS(TILES)

static const struct {
	int m;
	void (*run[TILE_LAYOUTS])(const struct tile *t, real *c, const real *a, const real *b);
} tiles[] = {
#define TILE_ENTRY(m) {m, {tile_rows_##m, tile_columns_##m, tile_packed_##m}},
    TILE_HEIGHTS(TILE_ENTRY)};

static inline void tile_run(struct tile *t, real *c, const real *a, const real *b, int64_t m)
{
	for (size_t v = 0; m > 0; v++)
		for (; m >= tiles[v].m; m -= tiles[v].m) {
			tiles[v].run[t->layout](t, c, a, b);
			a += tiles[v].m * (t->layout == TILE_ROWS ? t->lda : 1);
			c += tiles[v].m * t->ldc;
			if (t->add)
				t->add += tiles[v].m * t->ldadd;
			if (t->aux)
				t->aux += tiles[v].m * t->ldaux;
		}
}

/* Apply an activation to n values in place. Inlined for a constant n in the common case. */
ALWAYS_INLINE void row_activate(real *c, int64_t n, enum gemm_act act)
{
	if (act == GEMM_SILU)
		for (int64_t j = 0; j < n; j++)
			c[j] = real_silu(c[j]);
	else if (act == GEMM_RELU)
		for (int64_t j = 0; j < n; j++)
			c[j] = c[j] < 0 ? 0 : c[j];
	else
		for (int64_t j = 0; j < n; j++)
			c[j] = real_gelu(c[j]);
}

static inline void tile_activate(real *c, int64_t ldc, int64_t m, int64_t n, enum gemm_act act)
{
	for (int64_t i = 0; i < m; i++)
		if (n == NR)
			row_activate(c + i * ldc, NR, act);
		else
			row_activate(c + i * ldc, n, act);
}

#endif
