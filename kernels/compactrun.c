/* The product of float rows, rounded to bf16, with panels of bf16 or int8 (kernels/compactrun.h): panels, and the tasks. */
#include "kernels/compactrun.h"

#include <assert.h>
#include <string.h>

#include "kernels/bf16.h"
#include "kernels/cut.h"
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
	SOON_PANELS = 2,  /* panels by which C is prefetched where storing takes longer than multiplying */
	HELD = 1 << 23,   /* bytes of chunks of op(A) that are rounded for all tasks, about */
	PANELS = 48       /* most panels of a task of a kernel that adds to sums in memory chunk by chunk */
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

void compact_pack_rows(const struct compact_kernel *q, uint32_t *restrict dst, int64_t pitch, const void *b, int bf16, int64_t ldb, int64_t n,
                       int64_t k)
{
	for (int64_t at = 0; at < k; at += 2, dst += NR) {
		const void *even = compact_number(b, bf16, at * ldb), *odd = compact_number(even, bf16, ldb);

		for (int64_t j = 0; j < n; j += 16) {
			__builtin_prefetch(compact_number(even, bf16, SOON * ldb + j));
			__builtin_prefetch(compact_number(odd, bf16, SOON * ldb + j));
			if (at + SOON_STORED < k)
				__builtin_prefetch(dst + SOON_STORED / 2 * NR + j / NR * pitch + j % NR, 1);
		}
		q->weave(dst, pitch, even, at + 1 < k ? odd : NULL, bf16, n);
	}
}

/* ---- tasks ---- */

struct job {
	const struct gemm *g;
	const struct compact_panels *b;
	const struct compact_kernel *kernel;
	void *c;
	const void *a;
	int c_bf16, a_bf16; /* whether they are stored in bf16 */
	const struct gemm_epilogue_f32 *ep;
	int64_t mc, np;   /* a task's rows and panels */
	int64_t mt, nt;   /* number of tasks along M and along N */
	int64_t workers;  /* of the pool */
	char *own;        /* scratch of worker 0 */
	size_t own_bytes; /* of each worker */
	char *rounded;    /* a wave of chunks of op(A), rounded for all tasks, [chunk][row]; NULL: each task rounds its own */
	int64_t chunk0;   /* first chunk of the wave */
	int64_t wave;     /* chunks of a wave; without `rounded`, all */
	int stream;       /* ep->aux is stored around the cache */
};

/* Bytes of a worker's scratch: a panel widened to bf16, rounded rows of op(A), then sums of earlier chunks if C cannot hold them. */
enum { WIDE = COMPACT_PAIRS * NR * 4, ROWS = CHUNKS * MC * ROW };

size_t compact_own_bytes(const struct gemm *g, unsigned stored)
{
	int64_t panels = g ? ceil_div(g->n, NR) : 0;

	if (!(stored & GEMM_BF16_C) || g->k <= KC)
		return WIDE + ROWS;
	if (g->k <= CHUNKS * KC)
		panels = min64(panels, PANELS);
	return WIDE + ROWS + (size_t)(panels * MC * NR) * sizeof(float);
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
 * slope, in c. Inlined for a constant n in the common case. */
static inline __attribute__((always_inline)) void row_activate(const struct job *s, const struct gemm_epilogue_f32 *ep, int64_t i, int64_t j,
                                                               const float *z, float *c, int64_t n)
{
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

/* The same, storing the row of C. */
static inline __attribute__((always_inline)) void row_store(const struct job *s, const struct gemm_epilogue_f32 *ep, int64_t i, int64_t j,
                                                            const float *z, int64_t n)
{
	int64_t at = i * s->g->ldc + j;
	float c[NR];

	if (s->c_bf16) {
		row_activate(s, ep, i, j, z, c, n);
		bf16_store((uint16_t *)s->c + at, c, n);
	} else {
		row_activate(s, ep, i, j, z, (float *)s->c + at, n);
	}
}

/* Sums of the chunks so far: in C, or, if C is bf16, in memory of the thread. */
struct sums {
	float *at;
	int64_t ld;
};

/* Those of panel p in rows from i0 on, of a task whose panels begin with p0. Panels that are finished one by one share the thread's memory. */
static struct sums sums_of(const struct job *s, char *own, int64_t i0, int64_t p0, int64_t p)
{
	int one_by_one = !s->kernel->tile_add && chunk_count(s->b) <= CHUNKS;

	if (s->c_bf16)
		return (struct sums){(float *)(void *)(own + WIDE + ROWS) + (one_by_one ? 0 : p - p0) * s->mc * NR, NR};
	return (struct sums){(float *)s->c + i0 * s->g->ldc + p * NR, s->g->ldc};
}

/* Add the sums so far, of earlier chunks or the old C, and store the result there; with `last` apply scale, bias and activation and store C. */
static inline __attribute__((always_inline)) void row_finish(const struct job *s, int64_t i, int64_t j, const float *sum, int64_t n, float *so_far,
                                                             int add, int last)
{
	const struct gemm_epilogue_f32 *ep = last ? s->ep : NULL;
	const float *scale = last && s->b->scale ? s->b->scale + j : NULL, *bias = ep && ep->bias ? ep->bias + j : NULL;
	float z[NR];

	for (int64_t v = 0; v < n; v++)
		z[v] = sum[v];
	for (int64_t v = 0; add && v < n; v++)
		z[v] += so_far[v];
	if (!last) {
		memcpy(so_far, z, (size_t)n * sizeof *z);
		return;
	}
	for (int64_t v = 0; scale && v < n; v++)
		z[v] *= scale[v];
	for (int64_t v = 0; bias && v < n; v++)
		z[v] += bias[v];
	row_store(s, ep, i, j, z, n);
}

/* Prefetch what is read and written of m rows: the sums so far if that is not NULL, and with `last` a C in bf16 and the matrices of the epilogue.
 * Always inlined, because GCC leaves out calls of a function that does nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_rows(const struct job *s, int64_t i, int64_t j, int64_t m, int64_t n, int last,
                                                                const struct sums *so_far)
{
	const struct gemm_epilogue_f32 *ep = last ? s->ep : NULL;
	float *aux = ep && ep->aux ? ep->aux + i * ep->ldaux + j : NULL;
	const float *pre = ep && ep->pre ? ep->pre + i * ep->ldpre + j : NULL;

	for (int64_t r = 0; so_far && r < m; r++)
		for (int64_t v = 0; v < n; v += 16)
			__builtin_prefetch(so_far->at + r * so_far->ld + v, 1);
	for (int64_t r = 0; s->c_bf16 && last && r < m; r++)
		__builtin_prefetch((uint16_t *)s->c + (i + r) * s->g->ldc + j, 1);
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

/* Compute one panel's columns of rows [i0, i1), one chunk of K. so_far: the sums of the chunks before, in row i0. It is passed by reference, because
 * GCC reads a copy on the stack with one wide load, which waits until all earlier stores are done. A tile that adds to the sums in place needs no
 * prefetch of them, because the processor does not wait for stores. */
static void panel_run(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, int64_t panel, const struct sums *so_far, const char *rows,
                      void *wide)
{
	int64_t pairs = compact_chunk_pairs(s->b, chunk), j = panel * NR, n = min64(NR, s->b->n - j), step = s->kernel->row(pairs);
	int last = (chunk + 1) * KC >= s->b->k, add = chunk || s->g->accumulate, across = s->g->ta == GEMM_T;
	int into = s->kernel->tile_into && n == NR && !(last && s->b->scale), active = last && (activates(s) || s->c_bf16);
	int direct = into && (add || !active);
	const void *b = compact_panel_at(s->b, chunk, panel);
	const float *bias = last && s->ep && s->ep->bias ? s->ep->bias + j : NULL;
	float sum[COMPACT_MR * NR] __attribute__((aligned(64))), z[NR] __attribute__((aligned(64)));

	if (s->b->type == COMPACT_INT8) {
		s->kernel->widen(wide, b, pairs);
		b = wide;
	}
	for (int64_t i = i0; i < i1; i += COMPACT_MR) {
		int64_t m = min64(COMPACT_MR, i1 - i);
		struct sums here = {so_far->at + (i - i0) * so_far->ld, so_far->ld};

		prefetch_rows(s, i, j, m, n, last, direct ? NULL : &here);
		if (into) {
			float *to = direct ? here.at : sum;
			int64_t ld = direct ? here.ld : NR;

			s->kernel->tile_into(to, ld, rows + (i - i0) * step, b, pairs, m, across, add, bias);
			for (int64_t r = 0; active && r < m; r++) {
				memcpy(z, to + r * ld, sizeof z);
				row_store(s, s->ep, i + r, j, z, NR);
			}
			continue;
		}
		(across ? s->kernel->tile_across : s->kernel->tile)(sum, NR, rows + (i - i0) * step, b, pairs, m);
		for (int64_t r = 0; r < m; r++)
			if (n == NR)
				row_finish(s, i + r, j, sum + r * NR, NR, here.at + r * here.ld, add, last);
			else
				row_finish(s, i + r, j, sum + r * NR, n, here.at + r * here.ld, add, last);
	}
}

/* Whether all panels of a row of tiles are computed before the next row. Few ks take less time than storing the sums, which is faster along the rows
 * of C. Not for panels of int8, which are widened one after the other. */
static int goes_by_rows(const struct job *s, int64_t chunk)
{
	return compact_chunk_pairs(s->b, chunk) <= COMPACT_DEEP && s->b->type == COMPACT_BF16 && chunk_count(s->b) == 1;
}

/* Panels [p0, p1) of rows [i0, i1) in that order. */
static void rows_run(const struct job *s, int64_t i0, int64_t i1, int64_t p0, int64_t p1, const char *rows, char *own)
{
	int64_t step = s->kernel->row(compact_chunk_pairs(s->b, 0));

	for (int64_t i = i0; i < i1; i += COMPACT_MR)
		for (int64_t p = p0; p < p1; p++) {
			struct sums here = sums_of(s, own, i, p0, p), soon = sums_of(s, own, i, p0, p + SOON_PANELS);

			if (p + SOON_PANELS < p1)
				prefetch_rows(s, i, 0, min64(COMPACT_MR, i1 - i), NR, 0, &soon);
			panel_run(s, i, min64(i + COMPACT_MR, i1), 0, p, &here, rows + (i - i0) * step, own);
		}
}

/* ---- tasks by tile_add ---- */

/* What is done between the steps of a tile's product: the tile before is finished and stored, and the memory of the tile after it fetched. */
struct beside {
	const struct job *s;
	struct span {
		int64_t i, j, m, n, done; /* rows [i, i + m), columns [j, j + n), and the rows done */
		struct sums so_far;       /* of those rows */
	} * before, *after;
	int64_t each; /* rows done between two steps */
	float *sum;
	int last;
};

static void finish_rows(struct beside *u, int64_t rows)
{
	struct span *t = u->before;

	for (int64_t end = min64(t->done + rows, t->m); t->done < end; t->done++) {
		float *so_far = t->so_far.at + t->done * t->so_far.ld;

		if (t->n == NR)
			row_finish(u->s, t->i + t->done, t->j, u->sum + t->done * NR, NR, so_far, 0, u->last);
		else
			row_finish(u->s, t->i + t->done, t->j, u->sum + t->done * NR, t->n, so_far, 0, u->last);
	}
}

static void beside_product(void *arg)
{
	struct beside *u = arg;
	struct span *t = u->after;
	int64_t rows = min64(u->each, t->m - t->done);
	struct sums so_far = {t->so_far.at + t->done * t->so_far.ld, t->so_far.ld};

	finish_rows(u, u->each);
	prefetch_rows(u->s, t->i + t->done, t->j, rows, t->n, u->last, &so_far);
	t->done += rows;
}

static int has_epilogue(const struct job *s)
{
	return s->b->scale || activates(s) || s->c_bf16 || (s->ep && s->ep->bias);
}

/* The tiles of panels [p0, p1) and rows [i0, i1), one chunk of K, in the order in which they are computed; i and p: the next one's. */
struct tiles {
	int64_t i0, i1, p0, p1, i, p;
	int by_rows;
};

/* Set the rows and columns of the next tile; no rows after the last. */
static void tiles_next(const struct job *s, struct tiles *t, char *own, struct span *next)
{
	int64_t i = t->i, p = t->p;

	next->m = next->done = 0;
	if (i >= t->i1 || p >= t->p1)
		return;
	next->i = i;
	next->j = p * NR;
	next->m = min64(s->kernel->mr, t->i1 - i);
	next->n = min64(NR, s->b->n - p * NR);
	next->so_far = sums_of(s, own, t->i0, t->p0, p);
	next->so_far.at += (i - t->i0) * next->so_far.ld;
	if (t->by_rows && ++t->p == t->p1) {
		t->p = t->p0;
		t->i += s->kernel->mr;
	} else if (!t->by_rows && (t->i += s->kernel->mr) >= t->i1) {
		t->i = t->i0;
		t->p++;
	}
}

/* Compute them. Whole tiles without an epilogue are computed in place; others in one of two memories, so that the tile before is finished beside the
 * product. The three tiles in hand are not copied: a copy would wait for its source to be stored. */
static void panels_add(const struct job *s, int64_t i0, int64_t i1, int64_t chunk, int64_t p0, int64_t p1, const char *rows, char *own)
{
	int64_t pairs = compact_chunk_pairs(s->b, chunk), step = s->kernel->row(pairs), mr = s->kernel->mr;
	int last = (chunk + 1) * KC >= s->b->k, add = chunk || s->g->accumulate, turn = 0;
	float sums[2][COMPACT_MR_AMX * NR] __attribute__((aligned(64)));
	struct span spans[3] = {0}, *t = &spans[0], *spare = &spans[2];
	struct beside u = {.s = s, .each = ceil_div(mr, pairs > COMPACT_DEEP ? ceil_div(pairs, COMPACT_DEEP) : 1), .last = last};
	struct tiles tiles = {i0, i1, p0, p1, i0, p0, goes_by_rows(s, chunk)};

	u.before = spare;
	u.after = &spans[1];
	for (tiles_next(s, &tiles, own, t); t->m; t = u.after, u.after = spare) {
		int in_place = t->m == mr && t->n == NR && !(last && has_epilogue(s));
		const void *b = compact_panel_at(s->b, chunk, t->j / NR);
		float *sum = in_place ? t->so_far.at : sums[turn];
		int64_t ld = in_place ? t->so_far.ld : NR;

		if (s->b->type == COMPACT_INT8) {
			if (t->i == i0)
				s->kernel->widen((uint32_t *)(void *)own, b, pairs);
			b = own;
		}
		tiles_next(s, &tiles, own, u.after);
		for (int64_t r = 0; add && !in_place && r < t->m; r++)
			memcpy(sum + r * NR, t->so_far.at + r * t->so_far.ld, (size_t)t->n * sizeof *sum);
		s->kernel->tile_add(sum, ld, rows + (t->i - i0) * step, b, pairs, t->m, add, beside_product, &u);
		finish_rows(&u, mr);
		spare = in_place ? t : u.before;
		if (!in_place) {
			u.before = t;
			u.before->done = 0;
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
		q->across(rows, compact_number(s->a, s->a_bf16, chunk * KC * lda + i0), s->a_bf16, lda, i1 - i0, kc);
	else
		for (int64_t i = i0; i < i1; i++) {
			const void *x = compact_number(s->a, s->a_bf16, i * lda + chunk * KC);

			for (int64_t k = 0; k < kc; k += s->a_bf16 ? 32 : 16)
				__builtin_prefetch(compact_number(x, s->a_bf16, SOON * lda + k));
			q->round(rows + (i - i0) * step, x, s->a_bf16, kc);
		}
}

/* sums[i] = the sum of row i of op(A), rounded, over one chunk [+ sums[i]], for rows [i0, i1); A is transposed. bf16: s->a_bf16, as a constant. */
static inline __attribute__((always_inline)) void row_sums(const struct job *s, int bf16, int64_t i0, int64_t i1, int64_t chunk, float *restrict sums)
{
	int64_t kc = compact_chunk_len(s->b, chunk), lda = s->g->lda;

	for (int64_t i = i0; i < i1; i += SUMMED) {
		const void *a = compact_number(s->a, bf16, chunk * KC * lda + i);
		float sum[SUMMED] = {0};

		if (i1 - i >= SUMMED)
			for (int64_t k = 0; k < kc; k++)
				for (int v = 0; v < SUMMED; v++)
					sum[v] += bf16_value(a, bf16, k * lda + v);
		else
			for (int64_t k = 0; k < kc; k++)
				for (int64_t v = 0; v < i1 - i; v++)
					sum[v] += bf16_value(a, bf16, k * lda + v);
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
	char *own = s->own + (size_t)worker * s->own_bytes, *rows[CHUNKS];

	if (s->kernel->begin)
		s->kernel->begin();
	for (int64_t next; chunk < end; chunk = next) {
		next = min64(chunk + together, end);
		for (int64_t u = chunk; u < next; u++) {
			rows[u - chunk] = s->rounded ? rounded_rows(s, u, i0) : own + WIDE + (u - chunk) * MC * ROW;
			if (!s->rounded)
				rows_round(s, i0, i1, u, rows[u - chunk]);
			if (!p0 && s->ep && s->ep->row_sums && s->a_bf16)
				row_sums(s, 1, i0, i1, u, s->ep->row_sums);
			else if (!p0 && s->ep && s->ep->row_sums)
				row_sums(s, 0, i0, i1, u, s->ep->row_sums);
		}
		if (s->kernel->tile_add)
			panels_add(s, i0, i1, chunk, p0, p1, rows[0], own);
		else if (goes_by_rows(s, chunk))
			rows_run(s, i0, i1, p0, p1, rows[0], own);
		else
			for (int64_t p = p0; p < p1; p++) {
				struct sums here = sums_of(s, own, i0, p0, p);

				for (int64_t u = chunk; u < next; u++)
					panel_run(s, i0, i1, u, p, &here, rows[u - chunk], own);
			}
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

void compact_multiply(struct pool *p, const struct compact_kernel *kernel, const struct gemm *g, unsigned stored, const struct compact_panels *b,
                      void *c, const void *a, const struct gemm_epilogue_f32 *ep, void *own, void *shared)
{
	struct job s = {.g = g, .b = b, .kernel = kernel, .c = c, .a = a, .ep = ep, .own = own, .workers = pool_threads(p), .wave = chunk_count(b)};

	assert(!g->make && !g->alpha && (!ep || (!ep->start && (!ep->row_sums || g->ta == GEMM_T))) && kernel->panels <= PANELS);
	assert(!(stored & GEMM_BF16_C) || (g->ta == GEMM_N && !g->accumulate));
	s.a_bf16 = (stored & GEMM_BF16_A) != 0;
	s.c_bf16 = (stored & GEMM_BF16_C) != 0;
	s.own_bytes = compact_own_bytes(g, stored);
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
