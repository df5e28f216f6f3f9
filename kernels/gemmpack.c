/* Operands of the CPU's matrix product that are packed before the product is called. */
#include "kernels/gemmpack.h"

#include "kernels/gemm.h"

int64_t REAL_NAME(gemm_packed)(const struct gemm *g)
{
	return g->k * round_up(g->n, NR);
}

void REAL_NAME(gemm_pack)(const struct gemm *g, real *packed, const real *b)
{
	for (int64_t k = 0; k < g->k; k += GEMM_KC)
		for (int64_t j = 0; j < g->n; j += NR) {
			int64_t kc = min64(GEMM_KC, g->k - k);

			pack_b(g, b, j, k, kc, packed + k * round_up(g->n, NR) + j * kc);
		}
}

void REAL_NAME(gemm_unpack)(const struct gemm *g, real *b, const real *packed)
{
	for (int64_t k = 0; k < g->k; k++) {
		int64_t k0 = k / GEMM_KC * GEMM_KC, kc = min64(GEMM_KC, g->k - k0);
		const real *chunk = packed + k0 * round_up(g->n, NR);

		for (int64_t j = 0; j < g->n; j++)
			b[g->tb == GEMM_T ? j * g->ldb + k : k * g->ldb + j] = chunk[j / NR * NR * kc + (k - k0) * NR + j % NR];
	}
}

int REAL_NAME(gemm_width)(void)
{
	return NR;
}

void REAL_NAME(gemm_panel)(real *panel, const real *b, int64_t ld, int64_t n, int64_t k)
{
	if (n < NR)
		memset(panel, 0, (size_t)(k * NR) * sizeof *panel);
	pack_columns(panel, b, ld, n, k);
}
