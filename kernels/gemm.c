/* The CPU's matrix product: packs panels, divides C into register tiles, and schedules the tasks. */
#include "kernels/gemm.h"

#include <assert.h>
#include <string.h>

#include "kernels/gemm_library.h"
#include "kernels/gemmpack.h"
#include "kernels/gemmtile.h"

/* C is computed in tiles of MR x NR that stay in registers. Each tile sums the products of a chunk of K from zero. A tile at an edge runs the
 * same instructions on fewer rows, or on columns padded with zeros, so its bits equal those of a full tile.
 *
 * Two plans:
 *   op(A) = A    M is large (tokens) and B is a weight. The pool packs all of B into panels of NR columns, [k][NR], unless the caller did; then
 *                tiles of C are tasks. A chunk of a task's panels stays in the second-level cache, and MR rows of A at a time, read in place,
 *                stay in the first.
 *   op(A) = A^T  K is large (tokens, in a weight gradient). With 32 vector registers chunks are read in place, and the next chunk of A and B is
 *                prefetched. With 16 the tiles are smaller, so a chunk is read more often and its many pages cost more: it is packed. Wide
 *                matrices are packed on Intel's processors too. A single worker packs GROUP rows of op(A) at a time and prefetches the next
 *                GROUP. Several workers pack a wave of chunks before the tasks that use it. If C is small or has too few tiles for the pool,
 *                there are no waves: chunks are tasks too, a task packs what it uses, and the sums of the chunks are added in order. */
enum {
	KC = GEMM_KC,
	MC = 16 * MR,      /* rows of a task's part of C, at most */
	NC = 12 * NR,      /* columns of a task's part of C, at most */
	MC_T = 64 * MR,    /* rows of a task's part of C in a weight gradient whose chunks are packed, at most */
	WIDE = 96,         /* reals of a row; Intel's processors read columns of wider rows slowly */
	GROUP = 96,        /* rows of op(A) packed together in a weight gradient */
	SUMMED = 4 * VLEN, /* rows of op(A) summed together */
	SMALL = 1 << 16,   /* elements of a C so small that adding the sums of chunks takes less time than sharing what is packed */
	WAVE = 32,         /* chunks whose sums or packed operands are held at once, at most */
	HELD = 1 << 21,    /* reals of them held at once, about */
	TASKS_EACH = 4,    /* with fewer tasks per worker, tasks are made smaller */
	MADE = KC + 16,    /* stride between made or copied rows of A */
	WAY = 1024         /* rows at a multiple of this stride share a cache set, so such a matrix is copied */
};

_Static_assert(GROUP % MR == 0, "a group is whole panels");

#define epilogue REAL_NAME(gemm_epilogue)

/* ---- tasks ---- */

struct job {
	const struct gemm *g;
	const real *a, *b;
	real *c;
	const struct epilogue *ep;
	int64_t mc, nc;     /* size of a task's part of C: multiples of MR and NR */
	int64_t mt, nt;     /* number of parts along M and N */
	int64_t workers;    /* of the pool */
	int64_t npad;       /* N rounded up to NR */
	int in_place;       /* a weight gradient reads its chunks in place */
	const real *panels; /* op(B) of this wave as [chunk][panel][k][NR], or NULL */
	real *packed;       /* memory to pack it into, or NULL */
	real *own;          /* scratch of worker 0 */
	int64_t each;       /* reals of scratch per worker */
	int64_t chunk0;     /* first chunk of this wave */
	int64_t wave;       /* chunks of a wave, whose sums or packed operands are held at once; all of K if nothing else is said */
	real *rows;         /* op(A) of this wave, packed as [chunk][panel of MR rows], GEMM_ASTEP reals each; or NULL */
	real *sums;         /* [wave][M][N] of C, then [wave][M] of row sums; or NULL */
};

static int sums_rows(const struct job *s)
{
	return s->ep && s->ep->row_sums;
}

#if defined(__x86_64__)
#define READS_WIDE_ROWS_SLOWLY __builtin_cpu_is("intel")
#else
#define READS_WIDE_ROWS_SLOWLY 0
#endif

/* Whether a weight gradient reads its chunks in place. A wide B of two panels at most is read once or twice, so that packing it would not pay. */
static int reads_in_place(const struct gemm *g)
{
	return VREGS == 32 && ((g->lda <= WIDE && (g->ldb <= WIDE || g->n <= 2 * NR)) || !READS_WIDE_ROWS_SLOWLY);
}

/* In a weight gradient: rows and columns of a task. In place, two chunks of both A and B should fit the second-level cache. */
static int64_t mc_t(const struct job *s)
{
	return s->in_place ? GROUP : MC_T;
}

static int64_t nc_t(const struct job *s)
{
	return s->in_place ? 6 * NR : 12 * NR;
}

/* The number of reals of the packed rows of op(A) that a worker holds at a time. */
static int64_t own_rows(const struct gemm *g)
{
	return ceil_div(min64(GROUP, g->m), MR) * GEMM_ASTEP;
}

static int64_t chunk_len(const struct gemm *g, int64_t chunk)
{
	return min64(KC, g->k - chunk * KC);
}

static int64_t chunk_count(const struct gemm *g)
{
	return g->k ? ceil_div(g->k, KC) : 1;
}

/* Whether A is read in place: its rows are stored, and do not collide in the cache or are read for one panel of B only. */
static int a_in_place(const struct job *s)
{
	const struct gemm *g = s->g;

	return g->lda && (g->ta == GEMM_N || s->in_place) && (g->lda % WAY || (g->ta == GEMM_N && g->n <= NR)) && !(g->make && g->ta == GEMM_N);
}

/* Whether B is read in place: only in a weight gradient, where few rows of op(A) use it at a time. Its last columns are packed anyway. */
static int b_in_place(const struct job *s)
{
	const struct gemm *g = s->g;

	return g->ta == GEMM_T && !s->rows && (s->in_place || (VREGS == 32 && g->m <= GROUP)) && g->tb == GEMM_N && g->ldb % WAY && !g->make;
}

/* Prefetch part `turn` of `turns` of m rows of A. */
static void rows_prefetch(const real *a, int64_t lda, int64_t m, int64_t kc, int64_t turn, int64_t turns)
{
	int64_t lines = ceil_div(kc, LINE), l0 = lines * turn / turns, l1 = lines * (turn + 1) / turns;

	for (int64_t i = 0; i < m; i++)
		for (int64_t l = l0; l < l1; l++)
			__builtin_prefetch(a + i * lda + l * LINE);
}

/* Copy m rows of A from row i on, elements [k0, k0 + kc), into dst, MADE apart. rows: where they are stored; NULL: g->make computes them. */
static void rows_bring(const struct gemm *g, const real *rows, int64_t i, int64_t m, int64_t k0, int64_t kc, real *restrict dst)
{
	for (int64_t v = 0; v < m; v++)
		if (rows)
			memcpy(dst + v * MADE, rows + v * g->lda, (size_t)kc * sizeof *dst);
		else
			g->make(g->from, i + v, k0, kc, dst + v * MADE);
}

/* Rows [i0, i1) x columns [j0, j1) of C. */
struct block {
	int64_t i0, i1, j0, j1;
};

/* Set what a weight gradient that reads in place prefetches during tile `turn` of a block: one cache line of each row of the next chunk, first of
 * A. */
static void ask_chunk(struct tile *t, const struct job *s, const struct block *r, int64_t k1, int64_t turn)
{
	const struct gemm *g = s->g;
	int64_t lines_a = ceil_div(r->i1 - r->i0, LINE), lines_b = g->tb == GEMM_N && !g->make ? ceil_div(r->j1 - r->j0, LINE) : 0;

	if (turn < lines_a) {
		t->ask = s->a + k1 * g->lda + r->i0 + turn * LINE;
		t->step = g->lda;
	} else if (turn < lines_a + lines_b) {
		t->ask = s->b + k1 * g->ldb + r->j0 + (turn - lines_a) * LINE;
		t->step = g->ldb;
	} else {
		t->ask = t->step ? t->ask : s->b;
		t->step = 0;
	}
}

/* Set what a weight gradient that packs prefetches during tile `turn` of the group of rows from i0 on: one cache line of each row of the next
 * group. */
static void ask_group(struct tile *t, const struct job *s, const struct block *r, int64_t i0, int64_t k0, int64_t turn)
{
	const struct gemm *g = s->g;
	int64_t next = i0 + GROUP;

	if (next >= r->i1) {
		next = r->i0;
		k0 = k0 + KC < g->k ? k0 + KC : k0;
	}
	t->ask = s->a;
	t->step = 0;
	if (turn < ceil_div(min64(GROUP, r->i1 - next), LINE)) {
		t->ask = s->a + k0 * g->lda + next + turn * LINE;
		t->step = g->lda;
	}
}

/* Compute one chunk of a block of C. b: the packed panels of its columns. abuf: room for rows of op(A), or the chunk's part of s->rows. Each tile
 * prefetches a part of the data needed next: the next rows of A, or a part of the next chunk of a weight gradient. */
static void block_run(const struct job *s, const struct block *r, int64_t chunk, const real *b, real *abuf, int add, int last, real *c, int64_t ldc)
{
	const struct gemm *g = s->g;
	int64_t k0 = chunk * KC, across = ceil_div(r->j1 - r->j0, NR), turn = 0;
	int by_rows = g->ta == GEMM_N, a_here = a_in_place(s), b_here = b_in_place(s), made = g->make && by_rows;
	struct epilogue ep = last && s->ep ? *s->ep : (struct epilogue){0};
	const real *from = add ? c : chunk == 0 && s->ep ? s->ep->start : NULL;
	int64_t ldfrom = add ? ldc : s->ep ? s->ep->ldstart : 0;
	int plain = !from && !g->alpha && !ep.bias && !ep.aux;
	int stream = v_streams(ep.aux, g->m, g->n, ep.ldaux);
	struct tile t = {.layout = by_rows                 ? TILE_ROWS
	                           : s->in_place || b_here ? TILE_COLUMNS
	                                                   : TILE_PACKED,
	                 .lda = a_here    ? g->lda
	                        : by_rows ? MADE
	                                  : MR,
	                 .kc = chunk_len(g, chunk),
	                 .ask = s->b,
	                 .alpha = (real)(g->alpha ? g->alpha : 1),
	                 .ldadd = ldfrom,
	                 .ldc = ldc,
	                 .ldaux = ep.ldaux};

	for (int64_t i = r->i0; i < r->i1; i += MR) {
		int64_t m = min64(MR, r->i1 - i);
		const real *rows = made ? NULL : by_rows ? s->a + i * g->lda + k0 : s->a + k0 * g->lda + i; /* stored rows, or NULL */
		int64_t in_buf = s->rows ? i : (i - r->i0) % GROUP;
		const real *a = a_here ? rows : by_rows ? abuf : abuf + in_buf / MR * GEMM_ASTEP;

		if (!by_rows && !a_here && !s->rows && in_buf == 0)
			pack_a(g, s->a, i, min64(i + GROUP, r->i1), k0, t.kc, abuf);
		if (by_rows && !a_here)
			rows_bring(g, rows, i, m, k0, t.kc, abuf);
		for (int64_t j = r->j0; j < r->j1; j += NR, turn++) {
			int64_t n = min64(NR, r->j1 - j);
			const real *panel = b + (j - r->j0) * t.kc;
			real *to = c + i * ldc + j;

			t.ldb = NR;
			if (b_here && n == NR) {
				panel = s->b + k0 * g->ldb + j;
				t.ldb = g->ldb;
			}
			if (made)
				t.ask = s->b;
			else if (by_rows && !AHEAD && g->lda == t.kc) {
				t.ask = turn % across ? s->b : rows + m * g->lda;
				t.step = turn % across ? 0 : LINE;
			} else if (by_rows)
				rows_prefetch(rows + m * g->lda, g->lda, min64(MR, r->i1 - i - m), t.kc, turn % across, across);
			else if (s->in_place)
				ask_chunk(&t, s, r, k0 + t.kc < g->k ? k0 + t.kc : k0, turn);
			else if (!s->rows)
				ask_group(&t, s, r, i - in_buf, k0, in_buf / MR * across + (j - r->j0) / NR);
			t.n = n;
			t.plain = plain && n == NR;
			t.bias = ep.bias ? ep.bias + j : NULL;
			t.add = from ? from + i * ldfrom + j : NULL;
			t.aux = ep.aux ? ep.aux + i * ep.ldaux + j : NULL;
			t.stream = stream && n == NR;
			tile_run(&t, to, a, panel, m);
			if (ep.act)
				tile_activate(to, ldc, m, n, ep.act);
		}
	}
	if (stream)
		v_stream_end();
}

/* The packed op(A) of chunk q of the wave. */
static real *wave_rows(const struct job *s, int64_t q)
{
	return s->rows + q * ceil_div(s->g->m, MR) * GEMM_ASTEP;
}

/* What must be packed of each chunk before its tasks begin, in parts: groups of rows of op(A), then panels of op(B). */
static int64_t row_groups(const struct job *s)
{
	return s->rows ? ceil_div(s->g->m, GROUP) : 0;
}

static int64_t pack_parts(const struct job *s)
{
	return row_groups(s) + s->npad / NR;
}

static void task_pack(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	const struct gemm *g = s->g;
	int64_t chunks = min64(s->wave, chunk_count(g) - s->chunk0), part = task / chunks, q = task % chunks;
	int64_t k0 = (s->chunk0 + q) * KC, kc = chunk_len(g, s->chunk0 + q);
	int64_t i = part * GROUP, j = (part - row_groups(s)) * NR;

	(void)worker;
	if (j < 0)
		pack_a(g, s->a, i, min64(i + GROUP, g->m), k0, kc, wave_rows(s, q) + i / MR * GEMM_ASTEP);
	else
		pack_b(g, s->b, j, k0, kc, s->packed + q * KC * s->npad + j * kc);
}

static void pack_part(const struct job *s, const struct block *r, int64_t chunk, real *dst)
{
	int64_t kc = chunk_len(s->g, chunk);
	int here = b_in_place(s);

	for (int64_t j = r->j0; j < r->j1; j += NR)
		if (!here || j + NR > r->j1)
			pack_b(s->g, s->b, j, chunk * KC, kc, dst + (j - r->j0) * kc);
}

/* The block of task `tile`, which cut_part chooses. */
static struct block job_block(const struct job *s, int64_t tile)
{
	struct cut part = cut_part(tile, s->mt, s->nt, s->workers);
	int64_t i0 = part.row * s->mc, j0 = part.column * s->nc;

	return (struct block){i0, min64(i0 + s->mc, s->g->m), j0, min64(j0 + s->nc, s->g->n)};
}

/* sums[i] = the sum of row i of op(A) over one chunk [+ sums[i]], for the block's rows; A is transposed. */
static void row_sums(const struct job *s, const struct block *r, int64_t chunk, int add, real *restrict sums)
{
	const struct gemm *g = s->g;
	int64_t kc = chunk_len(g, chunk);

	for (int64_t i = r->i0; i < r->i1; i += SUMMED) {
		const real *a = s->a + chunk * KC * g->lda + i;
		real sum[SUMMED] = {0};

		if (r->i1 - i >= SUMMED)
			for (int64_t k = 0; k < kc; k++)
				for (int v = 0; v < SUMMED; v++)
					sum[v] += a[k * g->lda + v];
		else
			for (int64_t k = 0; k < kc; k++)
				for (int64_t v = 0; v < r->i1 - i; v++)
					sum[v] += a[k * g->lda + v];
		for (int64_t v = 0; v < min64(SUMMED, r->i1 - i); v++)
			sums[i + v] = add ? sums[i + v] + sum[v] : sum[v];
	}
}

/* Apply the epilogue to a row of C whose sum is complete. */
static void row_finish(const struct epilogue *ep, int64_t row, int64_t n, real *restrict c)
{
	for (int64_t j = 0; ep->bias && j < n; j++)
		c[j] += ep->bias[j];
	if (ep->aux)
		memcpy(ep->aux + row * ep->ldaux, c, (size_t)n * sizeof *c);
	if (ep->act)
		row_activate(c, n, ep->act);
}

/* Compute a panel of C by the library, all of K. */
static void task_panel(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	const struct gemm *g = s->g;
	struct block r = job_block(s, task);

	REAL_NAME(gemm_library_panel)(g, r.i0, r.i1, s->c, s->a, s->b, s->own + worker * s->each);
	for (int64_t i = r.i0; s->ep && i < r.i1; i++)
		row_finish(s->ep, i, g->n, s->c + i * g->ldc);
	for (int64_t q = 0; sums_rows(s) && q < chunk_count(g); q++)
		row_sums(s, &r, q, q > 0, s->ep->row_sums);
}

/* Add the chunks of the wave to one task's part of C. */
static void task_tile(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	const struct gemm *g = s->g;
	struct block r = job_block(s, task);
	int64_t chunks = chunk_count(g), end = min64(s->chunk0 + s->wave, chunks);
	real *own = s->own + worker * s->each, *bbuf = own + own_rows(g);

	for (int64_t q = s->chunk0; q < end; q++) {
		real *abuf = s->rows ? wave_rows(s, q - s->chunk0) : own;
		const real *b = bbuf;

		if (s->panels)
			b = s->panels + (q - s->chunk0) * KC * s->npad + r.j0 * chunk_len(g, q);
		else
			pack_part(s, &r, q, bbuf);
		block_run(s, &r, q, b, abuf, q > 0 || g->accumulate, q == chunks - 1, s->c, g->ldc);
		if (sums_rows(s) && !r.j0)
			row_sums(s, &r, q, q > 0, s->ep->row_sums);
	}
}

/* Compute one chunk's sum for one part of C. */
static void task_chunk(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	const struct gemm *g = s->g;
	int64_t wave = task / (s->mt * s->nt);
	struct block r = job_block(s, task % (s->mt * s->nt));
	real *abuf = s->own + worker * s->each, *bbuf = abuf + own_rows(g);

	pack_part(s, &r, s->chunk0 + wave, bbuf);
	block_run(s, &r, s->chunk0 + wave, bbuf, abuf, 0, 0, s->sums + wave * g->m * g->n, g->n);
	if (sums_rows(s) && !r.j0)
		row_sums(s, &r, s->chunk0 + wave, 0, s->sums + s->wave * g->m * g->n + wave * g->m);
}

/* Add the wave's sums to one row of C, in order. */
static void task_combine(void *arg, int64_t row, int worker)
{
	const struct job *s = arg;
	const struct gemm *g = s->g;
	int64_t waves = min64(s->wave, chunk_count(g) - s->chunk0), w = 0;
	real *restrict c = s->c + row * g->ldc;

	(void)worker;
	if (!s->chunk0 && !g->accumulate) {
		memcpy(c, s->sums + row * g->n, (size_t)g->n * sizeof *c);
		w = 1;
	}
	for (; w < waves; w++) {
		const real *sum = s->sums + (w * g->m + row) * g->n;

		for (int64_t j = 0; j < g->n; j++)
			c[j] += sum[j];
	}
	if (sums_rows(s))
		for (int64_t v = 0; v < waves; v++) {
			real part = s->sums[(s->wave * g->n + v) * g->m + row], *sum = &s->ep->row_sums[row];

			*sum = s->chunk0 || v ? *sum + part : part;
		}
	if (s->chunk0 + waves == chunk_count(g) && s->ep)
		row_finish(s->ep, row, g->n, c);
}

/* ---- plans ---- */

/* Whether a library computes the product: it needs matrices that are stored and not packed. */
static int by_library(const struct gemm *g)
{
	return REAL_NAME(gemm_library)() && !g->make && !g->own && g->tb != GEMM_PACKED;
}

/* Whether chunks are tasks that pack their own operands, because C is small. */
static int small_packed(const struct job *s)
{
	return s->g->ta == GEMM_T && !s->in_place && s->g->m * s->g->n <= SMALL;
}

/* Divide C into parts of at most MC x NC, halved until there is work for every worker: first along the rows, but if these are few, along the columns,
 * so that a worker multiplies the panels of B that it packed. Where chunks are tasks there is enough of it. */
static void job_cut(struct job *s)
{
	const struct gemm *g = s->g;
	int64_t want = s->workers > 1 && !small_packed(s) ? s->workers * TASKS_EACH : 1;
	int few = g->ta == GEMM_N && g->m <= MC;

	s->mc = min64(g->ta == GEMM_T ? mc_t(s) : MC, round_up(g->m | !g->m, MR));
	s->nc = min64(g->ta == GEMM_T ? nc_t(s) : NC, round_up(g->n | !g->n, NR));
	for (;;) {
		s->mt = ceil_div(g->m, s->mc);
		s->nt = ceil_div(g->n, s->nc);
		if (s->mt * s->nt >= want)
			break;
		if (s->mc > 4 * MR && !(few && s->nc > 2 * NR))
			s->mc = round_up(s->mc / 2, MR);
		else if (s->nc > 4 * NR || (s->nc > NR && s->mc >= g->m))
			s->nc = round_up(s->nc / 2, NR);
		else
			break;
	}
	if (s->workers > 1 && g->ta == GEMM_N) {
		s->mc = cut_rows(g->m, s->mc, MR, s->nt, s->workers);
		s->mt = ceil_div(g->m, s->mc);
	}
}

/* Whether chunks must be tasks. It depends on M, N and the number of workers, not on K. */
static int job_splits(const struct job *s)
{
	return s->workers > 1 && s->g->ta == GEMM_T && (small_packed(s) || s->mt * s->nt < s->workers * TASKS_EACH);
}

/* Returns the reals of scratch: each worker's own, then packed operands or the chunks' sums. Sets the pointers if scratch is not NULL. */
static int64_t job_layout(struct job *s, const struct gemm *g, int workers, real *scratch)
{
	int64_t shared = 0;
	real *common;

	*s = (struct job){
	    .g = g, .npad = round_up(g->n, NR), .in_place = reads_in_place(g), .workers = workers, .own = scratch, .wave = chunk_count(g)};
	if (by_library(g)) {
		s->mc = GEMM_PANEL;
		s->nc = s->npad + NR;
		s->mt = ceil_div(g->m, s->mc);
		s->nt = 1;
		s->each = round_up(REAL_NAME(gemm_library_scratch)(g), LINE);
		return workers * s->each;
	}
	assert(g->tb != GEMM_PACKED || g->ta == GEMM_N);
	job_cut(s);
	s->each = g->ta == GEMM_T ? own_rows(g) + s->nc * KC : MR * MADE;
	common = scratch ? scratch + workers * s->each : NULL; /* NULL when only the size is asked for */
	if (g->ta == GEMM_N && g->tb != GEMM_PACKED) {
		shared = g->k * s->npad;
		s->packed = common;
	} else if (job_splits(s)) {
		s->wave = min64(WAVE, HELD / (g->m * (g->n + 1) + 1) + 1);
		shared = s->wave * g->m * (g->n + 1);
		s->sums = common;
	} else if (workers > 1 && g->ta == GEMM_T && !s->in_place) {
		int64_t rows = ceil_div(g->m, MR) * GEMM_ASTEP, each = rows + KC * s->npad;

		s->wave = min64(WAVE, HELD / each + 1);
		shared = s->wave * each;
		s->each = 0; /* no task packs */
		s->rows = scratch;
		s->packed = scratch ? scratch + s->wave * rows : NULL;
	}
	return workers * s->each + shared;
}

size_t REAL_NAME(gemm_scratch)(const struct gemm *g, int workers)
{
	struct job s;

	return (size_t)job_layout(&s, g, workers, NULL) * sizeof(real);
}

void REAL_NAME(gemm_run)(struct pool *p, const struct gemm *g, real *c, const real *a, const real *b, const struct epilogue *ep, void *scratch)
{
	struct job s;

	if (!g->m || !g->n)
		return;
	job_layout(&s, g, pool_threads(p), scratch);
	s.a = a;
	s.b = b;
	s.c = c;
	s.ep = ep;
	s.panels = g->tb == GEMM_PACKED ? b : s.packed;
	assert(!ep || !ep->pre);
	assert(!ep || !ep->start || (g->make && !g->accumulate && g->ta == GEMM_N));
	if (by_library(g)) {
		pool_spread(p, s.mt, task_panel, &s);
		return;
	}
	for (; s.chunk0 < chunk_count(g); s.chunk0 += s.wave) {
		int64_t chunks = min64(s.wave, chunk_count(g) - s.chunk0);

		if (s.packed && g->k)
			pool_spread(p, chunks * pack_parts(&s), task_pack, &s);
		if (s.sums) {
			pool_spread(p, s.mt * s.nt * chunks, task_chunk, &s);
			pool_spread(p, g->m, task_combine, &s);
		} else {
			pool_spread(p, s.mt * s.nt, task_tile, &s);
		}
	}
}

void REAL_NAME(gemm_serial)(const struct gemm *g, real *c, const real *a, const real *b, const struct epilogue *ep, void *scratch)
{
	REAL_NAME(gemm_run)(NULL, g, c, a, b, ep, scratch);
}

/* ---- panels stored by other kernels ---- */

void REAL_NAME(gemm_panels)(real *c, int64_t ldc, const real *a, int64_t lda, const real *panels, int64_t m, int64_t n, int64_t k, int64_t chunk)
{
	for (int64_t j = 0; j < n; j += NR)
		for (int64_t k0 = 0; k0 < k; k0 += chunk) {
			struct tile t = {.layout = TILE_ROWS,
			                 .lda = lda,
			                 .ldb = NR,
			                 .kc = min64(chunk, k - k0),
			                 .ldc = ldc,
			                 .ask = a,
			                 .alpha = 1,
			                 .n = min64(NR, n - j),
			                 .add = k0 ? c + j : NULL,
			                 .ldadd = ldc};

			t.plain = t.n == NR && !k0;
			tile_run(&t, c + j, a + k0, panels + (j * k + k0 * NR), m);
		}
}
