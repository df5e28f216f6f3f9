/* Products of bf16 numbers for training (kernels/gemm_bf16.h): packs op(B) into panels, which kernels/compactrun.c multiplies. */
#include "kernels/gemm_bf16.h"

#include <assert.h>
#include <string.h>

#include "kernels/compactrun.h"
#include "kernels/cut.h"

enum {
	NR = COMPACT_NR,
	KC = GEMM_KC,
	GROUP = 4,      /* panels that a task packs of rows of B */
	DEEP = KC / 8,  /* rows that it packs, at least; with fewer, several threads would store to neighbouring cache lines */
	TASKS_EACH = 4, /* with fewer tasks per worker, tasks are made smaller */
	FEW = 48        /* rows of op(A), at most, with which a task packs a chunk of GROUP panels for itself and multiplies at once */
};
_Static_assert(DEEP % 2 == 0 && KC % DEEP == 0 && (KC / DEEP & (KC / DEEP - 1)) == 0, "halving KC ends at DEEP");

struct packing {
	const struct gemm *g;
	const struct compact_panels *panels;
	const struct compact_kernel *kernel;
	const void *b;
	unsigned stored;      /* as in gemm_bf16_run */
	int64_t deep, groups; /* with op(B) = B: rows of a task, and tasks that have the same rows; else chunks of a task, and tasks of a panel */
};

static struct compact_panels panels_of(const struct gemm *g, const void *data)
{
	return (struct compact_panels){.type = COMPACT_BF16, .n = g->n, .k = g->k, .data = data};
}

static size_t packed_bytes(const struct gemm *g)
{
	return (size_t)((g->n + NR - 1) / NR * NR * ((g->k + 1) / 2)) * sizeof(uint32_t);
}

static int b_is_bf16(const struct packing *s)
{
	return (s->stored & GEMM_BF16_B) != 0;
}

/* B from number i on. */
static const void *numbers_of_b(const struct packing *s, int64_t i)
{
	return compact_number(s->b, b_is_bf16(s), i);
}

/* op(B) = B: a task packs `deep` rows of GROUP panels. */
static void task_pack_rows(void *arg, int64_t task, int worker)
{
	const struct packing *s = arg;
	int64_t from = task / s->groups * s->deep, chunk = from / KC, at = from % KC, panel = task % s->groups * GROUP, j = panel * NR;
	int64_t pitch = compact_chunk_pairs(s->panels, chunk) * NR, ldb = s->g->ldb;
	uint32_t *dst = (uint32_t *)compact_panel_at(s->panels, chunk, panel) + at / 2 * NR;

	(void)worker;
	compact_pack_rows(s->kernel, dst, pitch, numbers_of_b(s, from * ldb + j), b_is_bf16(s), ldb, min64(GROUP * NR, s->g->n - j),
	                  min64(s->deep, compact_chunk_len(s->panels, chunk) - at));
}

static void pack_rows(struct packing *s, struct pool *p)
{
	s->groups = ceil_div(compact_panel_count(s->panels), GROUP);
	s->deep = KC;
	while (s->deep > DEEP && ceil_div(s->g->k, s->deep) * s->groups < TASKS_EACH * pool_threads(p))
		s->deep /= 2;
	pool_spread(p, ceil_div(s->g->k, s->deep) * s->groups, task_pack_rows, s);
}

/* op(B) is the transpose of B: a task packs `deep` chunks of a panel. */
static void task_pack_columns(void *arg, int64_t task, int worker)
{
	const struct packing *s = arg;
	int64_t panel = task / s->groups, j = panel * NR, ldb = s->g->ldb, first = task % s->groups * s->deep;
	int64_t end = min64(first + s->deep, ceil_div(s->g->k, KC));

	(void)worker;
	for (int64_t chunk = first; chunk < end; chunk++)
		s->kernel->columns(compact_panel_at(s->panels, chunk, panel), numbers_of_b(s, j * ldb + chunk * KC), b_is_bf16(s), ldb,
		                   min64(NR, s->g->n - j), compact_chunk_len(s->panels, chunk));
}

/* A thread reads whole rows of B if there are enough panels for all threads, since they follow each other in memory. */
static void pack_columns(struct packing *s, struct pool *p)
{
	int64_t chunks = ceil_div(s->g->k, KC), panels = compact_panel_count(s->panels);

	s->deep = chunks;
	while (s->deep > 1 && panels * ceil_div(chunks, s->deep) < TASKS_EACH * pool_threads(p))
		s->deep = ceil_div(s->deep, 2);
	s->groups = s->deep ? ceil_div(chunks, s->deep) : 0;
	pool_spread(p, panels * s->groups, task_pack_columns, s);
}

/* ---- few rows ---- */

/* A product whose panels each task packs for itself, so that they need not go through memory. */
struct few {
	const struct packing *s;
	float *c;
	const void *a;
	const struct gemm_epilogue_f32 *ep;
	char *own; /* own_bytes() of each worker */
};

static size_t own_bytes(const struct gemm *g, unsigned stored)
{
	return compact_own_bytes(g, stored) + GROUP * NR * (KC / 2) * sizeof(uint32_t);
}

/* The epilogue for columns from j on. */
static struct gemm_epilogue_f32 shifted(const struct gemm_epilogue_f32 *ep, int64_t j)
{
	struct gemm_epilogue_f32 to = *ep;

	to.bias = ep->bias ? ep->bias + j : NULL;
	to.aux = ep->aux ? ep->aux + j : NULL;
	to.pre = ep->pre ? ep->pre + j : NULL;
	return to;
}

static void task_few(void *arg, int64_t task, int worker)
{
	const struct few *f = arg;
	const struct packing *s = f->s;
	char *own = f->own + (size_t)worker * own_bytes(s->g, s->stored);
	int64_t j = task * GROUP * NR, n = min64(GROUP * NR, s->g->n - j), ldb = s->g->ldb, chunks = s->g->k ? ceil_div(s->g->k, KC) : 1;
	struct gemm_epilogue_f32 ep = f->ep ? shifted(f->ep, j) : (struct gemm_epilogue_f32){0};
	struct compact_panels panels = {.type = COMPACT_BF16, .n = n, .data = own + compact_own_bytes(s->g, s->stored)};
	struct gemm g = *s->g;

	g.n = n;
	for (int64_t chunk = 0; chunk < chunks; chunk++) {
		int64_t k0 = chunk * KC, kc = compact_chunk_len(s->panels, chunk);

		g.k = panels.k = kc;
		g.accumulate = s->g->accumulate || chunk;
		if (g.tb == GEMM_N)
			compact_pack_rows(s->kernel, compact_panel_at(&panels, 0, 0), (kc + 1) / 2 * NR, numbers_of_b(s, k0 * ldb + j), b_is_bf16(s),
			                  ldb, n, kc);
		for (int64_t p = 0; g.tb == GEMM_T && p < ceil_div(n, NR); p++)
			s->kernel->columns(compact_panel_at(&panels, 0, p), numbers_of_b(s, (j + p * NR) * ldb + k0), b_is_bf16(s), ldb,
			                   min64(NR, n - p * NR), kc);
		compact_multiply(NULL, s->kernel, &g, s->stored, &panels, f->c + j, compact_number(f->a, (s->stored & GEMM_BF16_A) != 0, k0),
		                 chunk == chunks - 1 ? &ep : NULL, own, NULL);
	}
}

/* The panels come first and keep the threads' memory aligned to 64, because a panel's row of pairs is 128 bytes. */
size_t gemm_bf16_scratch(const struct gemm *g, unsigned stored, int workers)
{
	return packed_bytes(g) + (size_t)workers * own_bytes(g, stored) + compact_shared_bytes(g, workers);
}

/* A task of few rows adds the chunks' sums up in C, which must be float. */
void gemm_bf16_run(struct pool *p, enum compact_isa isa, const struct gemm *g, unsigned stored, void *c, const void *a, const void *b,
                   const struct gemm_epilogue_f32 *ep, void *scratch)
{
	struct compact_panels panels = panels_of(g, scratch);
	struct packing s = {.g = g, .panels = &panels, .kernel = compact_kernel_of(isa), .b = b, .stored = stored};
	char *own = (char *)scratch + packed_bytes(g);

	assert(g->tb != GEMM_PACKED && !g->own);
	if (g->ta == GEMM_N && g->m <= FEW && !(stored & GEMM_BF16_C)) {
		struct few f = {&s, c, a, ep, own};

		pool_spread(p, ceil_div(g->n, GROUP * NR), task_few, &f);
		return;
	}
	if (g->tb == GEMM_T)
		pack_columns(&s, p);
	else
		pack_rows(&s, p);
	compact_multiply(p, s.kernel, g, stored, &panels, c, a, ep, own, own + (size_t)pool_threads(p) * own_bytes(g, stored));
}
