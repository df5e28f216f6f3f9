/* Products of bf16 numbers for training (kernels/gemm_bf16.h): packs op(B) into panels, which kernels/compactrun.c multiplies. */
#include "kernels/gemm_bf16.h"

#include <assert.h>
#include <string.h>

#include "kernels/compactrun.h"

enum { NR = COMPACT_NR, KC = GEMM_KC, DEEP = 32 /* divides KC */ };

struct packing {
	const struct gemm *g;
	const struct compact_panels *panels;
	const struct compact_kernel *kernel;
	const float *b;
};

static struct compact_panels panels_of(const struct gemm *g, const void *data)
{
	return (struct compact_panels){.type = COMPACT_BF16, .n = g->n, .k = g->k, .data = data};
}

static size_t packed_bytes(const struct gemm *g)
{
	return (size_t)((g->n + NR - 1) / NR * NR * ((g->k + 1) / 2)) * sizeof(uint32_t);
}

/* op(B) = B: a task packs DEEP rows, all panels, because reading along the rows is what the hardware prefetches. */
static void task_pack_rows(void *arg, int64_t task, int worker)
{
	const struct packing *s = arg;
	int64_t from = task * DEEP, chunk = from / KC, end = compact_chunk_len(s->panels, chunk), ldb = s->g->ldb;

	(void)worker;
	for (int64_t k = from % KC; k < end && k < from % KC + DEEP; k += 2)
		for (int64_t panel = 0; panel < compact_panel_count(s->panels); panel++) {
			uint32_t *dst = (uint32_t *)compact_panel_at(s->panels, chunk, panel) + k / 2 * NR;
			int64_t j = panel * NR;

			compact_pack_rows(s->kernel, dst, s->b + (chunk * KC + k) * ldb + j, ldb, s->g->n - j < NR ? s->g->n - j : NR,
			                  end - k < 2 ? 1 : 2);
		}
}

/* op(B) is the transpose of B: a task packs a panel of a chunk. */
static void task_pack_columns(void *arg, int64_t task, int worker)
{
	const struct packing *s = arg;
	int64_t panels = compact_panel_count(s->panels), chunk = task / panels, j = task % panels * NR, ldb = s->g->ldb;

	(void)worker;
	s->kernel->columns(compact_panel_at(s->panels, chunk, task % panels), s->b + j * ldb + chunk * KC, ldb, s->g->n - j < NR ? s->g->n - j : NR,
	                   compact_chunk_len(s->panels, chunk));
}

/* The panels come first and keep the threads' memory aligned to 64, because a panel's row of pairs is 128 bytes. */
size_t gemm_bf16_scratch(const struct gemm *g, int workers)
{
	return packed_bytes(g) + (size_t)workers * compact_own_bytes() + compact_shared_bytes(g, workers);
}

void gemm_bf16_run(struct pool *p, enum compact_isa isa, const struct gemm *g, float *c, const float *a, const float *b,
                   const struct gemm_epilogue_f32 *ep, void *scratch)
{
	struct compact_panels panels = panels_of(g, scratch);
	struct packing s = {g, &panels, compact_kernel_of(isa), b};
	char *own = (char *)scratch + packed_bytes(g);

	assert(g->tb != GEMM_PACKED && !g->own);
	if (g->tb == GEMM_T)
		pool_run(p, compact_panel_count(&panels) * ((g->k + KC - 1) / KC), task_pack_columns, &s);
	else
		pool_run(p, (g->k + DEEP - 1) / DEEP, task_pack_rows, &s);
	compact_multiply(p, s.kernel, g, &panels, c, a, ep, own, own + (size_t)pool_threads(p) * compact_own_bytes());
}
