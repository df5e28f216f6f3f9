/* Products of bf16 numbers for training (kernels/gemm_bf16.h): packs op(B) into panels, which kernels/compactrun.c multiplies. */
#include "kernels/gemm_bf16.h"

#include <assert.h>
#include <string.h>

#include "kernels/compactrun.h"

enum { NR = COMPACT_NR, KC = GEMM_KC };

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

static void task_pack(void *arg, int64_t task, int worker)
{
	const struct packing *s = arg;
	int64_t panels = compact_panel_count(s->panels), chunk = task / panels, j = task % panels * NR, ldb = s->g->ldb;
	int64_t n = s->g->n - j < NR ? s->g->n - j : NR, kc = compact_chunk_len(s->panels, chunk);
	uint32_t *dst = compact_panel_at(s->panels, chunk, task % panels);

	(void)worker;
	if (s->g->tb == GEMM_T)
		s->kernel->columns(dst, s->b + j * ldb + chunk * KC, ldb, n, kc);
	else
		compact_pack_rows(s->kernel, dst, s->b + chunk * KC * ldb + j, ldb, n, kc);
}

/* The panels come first and keep the threads' memory aligned to 64, because a panel's row of pairs is 128 bytes. */
size_t gemm_bf16_scratch(const struct gemm *g, int workers)
{
	return packed_bytes(g) + (size_t)workers * compact_own_bytes();
}

void gemm_bf16_run(struct pool *p, enum compact_isa isa, const struct gemm *g, float *c, const float *a, const float *b,
                   const struct gemm_epilogue_f32 *ep, void *scratch)
{
	struct compact_panels panels = panels_of(g, scratch);
	struct packing s = {g, &panels, compact_kernel_of(isa), b};

	assert(g->tb != GEMM_PACKED && !g->own);
	pool_run(p, compact_panel_count(&panels) * ((g->k + KC - 1) / KC), task_pack, &s);
	compact_multiply(p, s.kernel, g, &panels, c, a, ep, (char *)scratch + packed_bytes(g));
}
