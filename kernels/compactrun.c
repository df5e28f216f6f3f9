/* The product of float rows, rounded to bf16, with panels of bf16 or int8 (kernels/compactrun.h): choosing the instruction set, and the tasks. */
#include "kernels/compactrun.h"

#include <assert.h>
#include <string.h>

#include "kernels/cut.h"
#include "kernels/flavour.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

enum {
	NR = COMPACT_NR,
	KC = GEMM_KC,
	MC = 192,         /* rows of a task, at most: whole tiles of every kernel */
	MC_LEAST = 96,    /* rows of a task that takes all panels, at least */
	TASKS_EACH = 4,   /* with fewer tasks per worker, tasks are made smaller */
	SUMMED = 48,      /* rows of op(A) summed together */
	ROW = KC * 4,     /* bytes of a chunk of a rounded row, at most */
	CHUNKS = 4,       /* chunks of K of which a task holds rounded rows at a time; MC rows of them are 576 KB in bf16 */
	SOON = 8,         /* rows by which an operand that is being rounded is prefetched */
	SOON_STORED = 16, /* rows by which the memory of a panel that is being packed is prefetched */
	HELD = 1 << 23    /* bytes of chunks of op(A) that are rounded for all tasks, about */
};
_Static_assert(MC % COMPACT_MR == 0 && MC % COMPACT_MR_AMX == 0, "a task is whole tiles");

/* ---- panels ---- */

int64_t compact_chunk_len(const struct compact_panels *b, int64_t chunk)
{
	return min64(KC, b->k - chunk * KC);
}

int64_t compact_chunk_pairs(const struct compact_panels *b, int64_t chunk)
{
	return ceil_div(compact_chunk_len(b, chunk), 2);
}

/* At least one, so that a product with K = 0 is finished too. */
static int64_t chunk_count(const struct compact_panels *b)
{
	return b->k ? ceil_div(b->k, KC) : 1;
}

int64_t compact_panel_count(const struct compact_panels *b)
{
	return ceil_div(b->n, NR);
}

/* KC is even, so a chunk starts at pair chunk * KC / 2. */
void *compact_panel_at(const struct compact_panels *b, int64_t chunk, int64_t panel)
{
	int64_t pair = chunk * (KC / 2) * compact_panel_count(b) + panel * compact_chunk_pairs(b, chunk);

	return (char *)(uintptr_t)b->data + (size_t)(pair * 2 * NR) * (b->type == COMPACT_BF16 ? 2 : 1);
}

void compact_pack_rows(const struct compact_kernel *q, uint32_t *restrict dst, int64_t pitch, const float *b, int64_t ldb, int64_t n, int64_t k)
{
	for (int64_t at = 0; at < k; at += 2, dst += NR, b += 2 * ldb) {
		for (int64_t j = 0; j < n; j += 16) {
			__builtin_prefetch(b + SOON * ldb + j);
			__builtin_prefetch(b + (SOON + 1) * ldb + j);
			if (at + SOON_STORED < k)
				__builtin_prefetch(dst + SOON_STORED / 2 * NR + j / NR * pitch + j % NR, 1);
		}
		q->weave(dst, pitch, b, at + 1 < k ? b + ldb : NULL, n);
	}
}

/* ---- instruction sets ---- */

#if defined(__x86_64__)

static enum compact_isa isa_detect(void)
{
	if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
		return COMPACT_PORTABLE;
	return compact_amx_permitted() ? COMPACT_AMX : COMPACT_AVX512_BF16;
}

/* The first call decides. Two threads that call it at the same time find the same. */
enum compact_isa compact_isa(void)
{
	static _Atomic int known;

	if (!known)
		known = 1 + (int)isa_detect();
	return (enum compact_isa)(known - 1);
}

const struct compact_kernel *compact_kernel_of(enum compact_isa isa)
{
	return isa == COMPACT_AVX512_BF16 ? &compact_avx512 : isa == COMPACT_AMX ? &compact_amx : flavour_compact();
}

#else

enum compact_isa compact_isa(void)
{
	return COMPACT_PORTABLE;
}

const struct compact_kernel *compact_kernel_of(enum compact_isa isa)
{
	(void)isa;
	return flavour_compact();
}

#endif

enum compact_isa compact_isa_pairwise(void)
{
	return compact_isa() == COMPACT_AMX ? COMPACT_AVX512_BF16 : compact_isa();
}

/* ---- tasks ---- */

struct job {
	const struct gemm *g;
	const struct compact_panels *b;
	const struct compact_kernel *kernel;
	float *c;
	const float *a;
	const struct gemm_epilogue_f32 *ep;
	int64_t mc, np;  /* a task's rows and panels */
	int64_t mt, nt;  /* number of tasks along M and along N */
	int64_t workers; /* of the pool */
	char *own;       /* scratch of worker 0 */
	char *rounded;   /* a wave of chunks of op(A), rounded for all tasks, [chunk][row]; NULL: each task rounds its own */
	int64_t chunk0;  /* first chunk of the wave */
	int64_t wave;    /* chunks of a wave; without `rounded`, all */
	int stream;      /* ep->aux is stored around the cache */
};

/* Bytes of a worker's scratch: a panel widened to bf16, then rounded rows of op(A). */
enum { WIDE = COMPACT_PAIRS * NR * 4, OWN = WIDE + CHUNKS * MC * ROW };

size_t compact_own_bytes(void)
{
	return OWN;
}

static int64_t wave_bytes(const struct gemm *g)
{
	return round_up(g->m, MC) * ROW;
}

static int64_t wave_chunks(const struct gemm *g)
{
	return HELD / (wave_bytes(g) + 1) + 1;
}

size_t compact_shared_bytes(const struct gemm *g, int workers)
{
	return workers > 1 && g->ta == GEMM_T ? (size_t)(wave_chunks(g) * wave_bytes(g)) : 0;
}

/* What follows the bias, for n numbers z of row i from column j on: store them in the epilogue's aux and, after its activation or times GELU's
 * slope, in C. Inlined for a constant n in the common case. */
static inline __attribute__((always_inline)) void row_activate(const struct job *s, const struct gemm_epilogue_f32 *ep, int64_t i, int64_t j,
                                                               const float *z, int64_t n)
{
	float *c = s->c + i * s->g->ldc + j;
	enum gemm_act act = ep ? ep->act : GEMM_LINEAR;

	if (ep && ep->aux && s->stream && n == NR)
		for (int64_t v = 0; v < n; v += VLEN)
			v_stream(ep->aux + i * ep->ldaux + j + v, v_load(z + v));
	else if (ep && ep->aux)
		memcpy(ep->aux + i * ep->ldaux + j, z, (size_t)n * sizeof *z);
	if (ep && ep->pre)
		for (int64_t v = 0; v < n; v++)
			c[v] = z[v] * real_gelu_slope(ep->pre[i * ep->ldpre + j + v]);
	else if (act == GEMM_SILU)
		for (int64_t v = 0; v < n; v++)
			c[v] = real_silu(z[v]);
	else if (act == GEMM_GELU)
		for (int64_t v = 0; v < n; v++)
			c[v] = real_gelu(z[v]);
	else if (act == GEMM_RELU)
		for (int64_t v = 0; v < n; v++)
			c[v] = z[v] < 0 ? 0 : z[v];
	else
		for (int64_t v = 0; v < n; v++)
			c[v] = z[v];
}

/* Add the earlier chunks or the old C, and with `last` apply scale, bias and activation. `sum` may be the row of C. */
static inline __attribute__((always_inline)) void row_finish(const struct job *s, int64_t i, int64_t j, const float *sum, int64_t n, int add,
                                                             int last)
{
	const struct gemm_epilogue_f32 *ep = last ? s->ep : NULL;
	const float *scale = last && s->b->scale ? s->b->scale + j : NULL, *bias = ep && ep->bias ? ep->bias + j : NULL;
	const float *c = s->c + i * s->g->ldc + j;
	float z[NR];

	for (int64_t v = 0; v < n; v++)
		z[v] = sum[v];
	for (int64_t v = 0; add && v < n; v++)
		z[v] += c[v];
	for (int64_t v = 0; scale && v < n; v++)
		z[v] *= scale[v];
	for (int64_t v = 0; bias && v < n; v++)
		z[v] += bias[v];
	row_activate(s, ep, i, j, z, n);
}

/* Prefetch what is read and written of m rows: C if `with_c`, and with `last` the matrices of the epilogue. Always inlined, because GCC leaves out
 * calls of a function that does nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_rows(const struct job *s, int64_t i, int64_t j, int64_t m, int64_t n, int last, int with_c)
{
	const struct gemm_epilogue_f32 *ep = last ? s->ep : NULL;
	float *aux = ep && ep->aux ? ep->aux + i * ep->ldaux + j : NULL;
	const float *pre = ep && ep->pre ? ep->pre + i * ep->ldpre + j : NULL;

	for (int64_t r = 0; with_c && r < m; r++)
		for (int64_t v = 0; v < n; v += 16)
			__builtin_prefetch(s->c + (i + r) * s->g->ldc + j + v, 1);
	for (int64_t r = 0; aux && !s->stream && r < m; r++)
		for (int64_t v = 0; v < n; v += 16)
			__builtin_prefetch(aux + r * ep->ldaux + v, 1);
	for (int64_t r = 0; pre && r < m; r++)
		for (int64_t v = 0; v < n; v += 16)
			__builtin_prefetch(pre + r * ep->ldpre + v);
}

/* Whether something follows the bias. */
static int activates(const struct job *s)
{
	return s->ep && (s->ep->aux || s->ep->pre || s->ep->act != GEMM_LINEAR);
}

/* Compute one panel's columns of rows [i0, i1), one chunk of K. A tile that stores its sums in C needs no prefetch of C, because the processor does
 * not wait for stores. */
static void panel_run(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, int64_t panel, const char *rows, void *wide)
{
	int64_t pairs = compact_chunk_pairs(s->b, chunk), j = panel * NR, n = min64(NR, s->b->n - j), step = s->kernel->row(pairs);
	int last = (chunk + 1) * KC >= s->b->k, add = chunk || s->g->accumulate, across = s->g->ta == GEMM_T;
	int into = s->kernel->tile_into && n == NR && !(last && s->b->scale), active = last && activates(s), direct = into && (add || !active);
	const void *b = compact_panel_at(s->b, chunk, panel);
	const float *bias = last && s->ep && s->ep->bias ? s->ep->bias + j : NULL;
	float sum[COMPACT_MR * NR] __attribute__((aligned(64))), z[NR] __attribute__((aligned(64)));

	if (s->b->type == COMPACT_INT8) {
		s->kernel->widen(wide, b, pairs);
		b = wide;
	}
	for (int64_t i = i0; i < i1; i += COMPACT_MR) {
		int64_t m = min64(COMPACT_MR, i1 - i);

		prefetch_rows(s, i, j, m, n, last, !direct);
		if (into) {
			float *to = direct ? s->c + i * s->g->ldc + j : sum;
			int64_t ld = direct ? s->g->ldc : NR;

			s->kernel->tile_into(to, ld, rows + (i - i0) * step, b, pairs, m, across, add, bias);
			for (int64_t r = 0; active && r < m; r++) {
				memcpy(z, to + r * ld, sizeof z);
				row_activate(s, s->ep, i + r, j, z, NR);
			}
			continue;
		}
		(across ? s->kernel->tile_across : s->kernel->tile)(sum, NR, rows + (i - i0) * step, b, pairs, m);
		for (int64_t r = 0; r < m; r++)
			if (n == NR)
				row_finish(s, i + r, j, sum + r * NR, NR, add, last);
			else
				row_finish(s, i + r, j, sum + r * NR, n, add, last);
	}
}

/* ---- tasks by tile_add ---- */

/* What is done between the steps of a tile's product: the tile before is finished and stored, and the memory of the tile after it fetched. */
struct beside {
	const struct job *s;
	struct span {
		int64_t i, j, m, n, done; /* rows [i, i + m), columns [j, j + n), and the rows done */
	} before, after;
	int64_t each; /* rows done between two steps */
	float *sum;
	int last;
};

static void finish_rows(struct beside *u, int64_t rows)
{
	struct span *t = &u->before;

	for (int64_t end = min64(t->done + rows, t->m); t->done < end; t->done++)
		if (t->n == NR)
			row_finish(u->s, t->i + t->done, t->j, u->sum + t->done * NR, NR, 0, u->last);
		else
			row_finish(u->s, t->i + t->done, t->j, u->sum + t->done * NR, t->n, 0, u->last);
}

static void beside_product(void *arg)
{
	struct beside *u = arg;
	struct span *t = &u->after;
	int64_t rows = min64(u->each, t->m - t->done);

	finish_rows(u, u->each);
	prefetch_rows(u->s, t->i + t->done, t->j, rows, t->n, u->last, 1);
	t->done += rows;
}

static int has_epilogue(const struct job *s)
{
	return s->b->scale || activates(s) || (s->ep && s->ep->bias);
}

/* Panels [p0, p1) of rows [i0, i1), one chunk of K. Whole tiles without an epilogue are computed in place; others in one of two memories, so that the
 * tile before is finished beside the product. */
static void panels_add(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, int64_t p0, int64_t p1, const char *rows, void *wide)
{
	int64_t pairs = compact_chunk_pairs(s->b, chunk), step = s->kernel->row(pairs), mr = s->kernel->mr, ldc = s->g->ldc;
	int last = (chunk + 1) * KC >= s->b->k, add = chunk || s->g->accumulate, turn = 0;
	float sums[2][COMPACT_MR_AMX * NR] __attribute__((aligned(64)));
	struct beside u = {.s = s, .each = ceil_div(mr, pairs > COMPACT_DEEP ? ceil_div(pairs, COMPACT_DEEP) : 1), .last = last};

	for (int64_t p = p0; p < p1; p++) {
		const void *b = compact_panel_at(s->b, chunk, p);
		int64_t j = p * NR, n = min64(NR, s->b->n - j);

		if (s->b->type == COMPACT_INT8) {
			s->kernel->widen(wide, b, pairs);
			b = wide;
		}
		for (int64_t i = i0; i < i1; i += mr) {
			int64_t m = min64(mr, i1 - i);
			int in_place = m == mr && n == NR && !(last && has_epilogue(s));
			float *c = s->c + i * ldc + j, *sum = sums[turn];

			u.after = i + mr < i1  ? (struct span){.i = i + mr, .j = j, .m = min64(mr, i1 - i - mr), .n = n}
			          : p + 1 < p1 ? (struct span){.i = i0, .j = j + NR, .m = min64(mr, i1 - i0), .n = min64(NR, s->b->n - j - NR)}
			                       : (struct span){0};
			for (int64_t r = 0; add && !in_place && r < m; r++)
				memcpy(sum + r * NR, c + r * ldc, (size_t)n * sizeof *sum);
			s->kernel->tile_add(in_place ? c : sum, in_place ? ldc : NR, rows + (i - i0) * step, b, pairs, m, add, beside_product, &u);
			finish_rows(&u, mr);
			if (in_place)
				continue;
			u.before = (struct span){.i = i, .j = j, .m = m, .n = n};
			u.sum = sum;
			turn = !turn;
		}
	}
	finish_rows(&u, mr);
}

/* Round one chunk of rows [i0, i1) of op(A). */
static void rows_round(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, char *rows)
{
	const struct compact_kernel *q = s->kernel;
	int64_t kc = compact_chunk_len(s->b, chunk), step = q->row(compact_chunk_pairs(s->b, chunk)), lda = s->g->lda;

	if (s->g->ta == GEMM_T)
		q->across(rows, s->a + chunk * KC * lda + i0, lda, i1 - i0, kc);
	else
		for (int64_t i = i0; i < i1; i++) {
			const float *x = s->a + i * lda + chunk * KC;

			for (int64_t k = 0; k < kc; k += 16)
				__builtin_prefetch(x + SOON * lda + k);
			q->round(rows + (i - i0) * step, x, kc);
		}
}

/* sums[i] = the sum of row i of op(A) over one chunk [+ sums[i]], for rows [i0, i1); A is transposed. */
static void row_sums(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, float *restrict sums)
{
	int64_t kc = compact_chunk_len(s->b, chunk), lda = s->g->lda;

	for (int64_t i = i0; i < i1; i += SUMMED) {
		const float *a = s->a + chunk * KC * lda + i;
		float sum[SUMMED] = {0};

		if (i1 - i >= SUMMED)
			for (int64_t k = 0; k < kc; k++)
				for (int v = 0; v < SUMMED; v++)
					sum[v] += a[k * lda + v];
		else
			for (int64_t k = 0; k < kc; k++)
				for (int64_t v = 0; v < i1 - i; v++)
					sum[v] += a[k * lda + v];
		for (int64_t v = 0; v < min64(SUMMED, i1 - i); v++)
			sums[i + v] = chunk ? sums[i + v] + sum[v] : sum[v];
	}
}

/* Rows of a chunk of the wave, from i on, a multiple of the kernel's mr. */
static char *rounded_rows(const struct job *s, int64_t chunk, int64_t i)
{
	return s->rounded + (chunk - s->chunk0) * wave_bytes(s->g) + i * s->kernel->row(compact_chunk_pairs(s->b, chunk));
}

static void task_round(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	int64_t parts = ceil_div(s->g->m, MC), chunk = s->chunk0 + task / parts, i0 = task % parts * MC;

	(void)worker;
	rows_round(s, i0, min64(i0 + MC, s->g->m), chunk, rounded_rows(s, chunk, i0));
}

/* Without tile_add, a panel's columns are computed for several chunks of K before those of the next panel, so that they stay in cache. */
static void task_tile(void *arg, int64_t task, int worker)
{
	const struct job *s = arg;
	struct cut part = cut_part(task, s->mt, s->nt, s->workers);
	int64_t i0 = part.row * s->mc, i1 = min64(i0 + s->mc, s->g->m), p0 = part.column * s->np;
	int64_t p1 = min64(p0 + s->np, compact_panel_count(s->b)), chunk = s->chunk0, end = min64(chunk + s->wave, chunk_count(s->b));
	int64_t together = s->kernel->tile_add ? 1 : CHUNKS;
	char *wide = s->own + (size_t)worker * OWN, *own = wide + WIDE, *rows[CHUNKS];

	if (s->kernel->begin)
		s->kernel->begin();
	for (int64_t next; chunk < end; chunk = next) {
		next = min64(chunk + together, end);
		for (int64_t u = chunk; u < next; u++) {
			rows[u - chunk] = s->rounded ? rounded_rows(s, u, i0) : own + (u - chunk) * MC * ROW;
			if (!s->rounded)
				rows_round(s, i0, i1, u, rows[u - chunk]);
			if (!p0 && s->ep && s->ep->row_sums)
				row_sums(s, i0, i1, u, s->ep->row_sums);
		}
		if (s->kernel->tile_add)
			panels_add(s, i0, i1, chunk, p0, p1, rows[0], wide);
		else
			for (int64_t p = p0; p < p1; p++)
				for (int64_t u = chunk; u < next; u++)
					panel_run(s, i0, i1, u, p, rows[u - chunk], wide);
	}
	if (s->kernel->end)
		s->kernel->end();
	if (s->stream)
		v_stream_end();
}

/* Halve tasks until there is work for every worker: first along panels while there are enough, then along rows, then along panels again. If a task
 * may take all panels, or A is transposed and B has few, it is cut along rows first, into half as many tasks: each task then takes all panels and
 * rounds its rows of op(A) for itself, which is faster than sharing rounded rows through memory. */
static void job_cut(struct job *s)
{
	int64_t want = s->workers > 1 ? s->workers * TASKS_EACH : 1, all = compact_panel_count(s->b), mr = s->kernel->mr;
	int64_t most = s->kernel->panels ? s->kernel->panels : all;
	int whole = !s->kernel->panels || (s->g->ta == GEMM_T && all <= most / 2);

	s->mc = min64(MC, round_up(s->g->m, mr));
	s->np = min64(most, all);
	want = whole ? ceil_div(want, 2) : want;
	while (whole && s->mc > MC_LEAST && ceil_div(s->g->m, s->mc) < want)
		s->mc = round_up(s->mc / 2, mr);
	while (ceil_div(s->g->m, s->mc) * ceil_div(all, s->np) < want) {
		if (s->np > 4)
			s->np = ceil_div(s->np, 2);
		else if (s->mc > 48)
			s->mc = round_up(s->mc / 2, mr);
		else if (s->np > 1)
			s->np = ceil_div(s->np, 2);
		else
			break;
	}
	if (s->workers > 1)
		s->mc = cut_rows(s->g->m, s->mc, mr, ceil_div(all, s->np), s->workers);
	s->mt = ceil_div(s->g->m, s->mc);
	s->nt = ceil_div(all, s->np);
}

void compact_multiply(struct pool *p, const struct compact_kernel *kernel, const struct gemm *g, const struct compact_panels *b, float *c,
                      const float *a, const struct gemm_epilogue_f32 *ep, void *own, void *shared)
{
	struct job s = {.g = g, .b = b, .kernel = kernel, .c = c, .a = a, .ep = ep, .own = own, .workers = pool_threads(p), .wave = chunk_count(b)};

	assert(!g->make && !g->alpha && (!ep || (!ep->start && (!ep->row_sums || g->ta == GEMM_T))));
	if (!g->m || !b->n)
		return;
	s.stream = ep && v_streams(ep->aux, g->m, g->n, ep->ldaux);
	job_cut(&s);
	if (compact_shared_bytes(g, pool_threads(p)) && s.nt > 1) {
		s.rounded = shared;
		s.wave = wave_chunks(g);
	}
	for (; s.chunk0 < chunk_count(b); s.chunk0 += s.wave) {
		if (s.rounded)
			pool_spread(p, ceil_div(g->m, MC) * min64(s.wave, chunk_count(b) - s.chunk0), task_round, &s);
		pool_spread(p, s.mt * s.nt, task_tile, &s);
	}
}
