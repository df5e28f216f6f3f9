/* Matrix products by oneDNN, in a build configured with --with-blas=onednn. */
#include "kernels/gemm_library.h"

#include "config.h"

#if defined(HAVE_ONEDNN) && !defined(REAL_IS_DOUBLE)

#include <assert.h>
#include <dnnl.h>
#include <omp.h>
#include <string.h>

enum { ROWS = 16 };

int REAL_NAME(gemm_library)(void)
{
	return 1;
}

int64_t REAL_NAME(gemm_library_scratch)(const struct gemm *g)
{
	return ROWS * (g->k + g->n);
}

static void product(const struct gemm *g, int64_t rows, float *c, int64_t ldc, const float *a, int64_t lda, const float *b)
{
	dnnl_status_t status;

	for (int64_t i = 0; !g->k && !g->accumulate && i < rows; i++)
		memset(c + i * ldc, 0, (size_t)g->n * sizeof *c);
	if (!g->k)
		return;
	omp_set_num_threads(1); /* the library must not start threads; only the pool does */
	status = dnnl_sgemm(g->ta == GEMM_T ? 'T' : 'N', g->tb == GEMM_T ? 'T' : 'N', rows, g->n, g->k, g->alpha ? (float)g->alpha : 1.0f, a, lda, b,
	                    g->ldb, g->accumulate ? 1.0f : 0.0f, c, ldc);
	assert(status == dnnl_success);
	(void)status;
}

/* Compute at most ROWS rows by copying them into a buffer of ROWS rows. */
static void padded(const struct gemm *g, int64_t rows, float *c, const float *a, const float *b, float *scratch)
{
	float *pa = scratch, *pc = scratch + ROWS * g->k;

	memset(scratch, 0, (size_t)(ROWS * (g->k + g->n)) * sizeof *scratch);
	for (int64_t i = 0; i < rows; i++) {
		memcpy(pa + i * g->k, a + i * g->lda, (size_t)g->k * sizeof *pa);
		if (g->accumulate)
			memcpy(pc + i * g->n, c + i * g->ldc, (size_t)g->n * sizeof *pc);
	}
	product(g, ROWS, pc, g->n, pa, g->k, b);
	for (int64_t i = 0; i < rows; i++)
		memcpy(c + i * g->ldc, pc + i * g->n, (size_t)g->n * sizeof *pc);
}

/* oneDNN refuses overlapping rows (a stride of 0), so such rows are copied. */
void REAL_NAME(gemm_library_panel)(const struct gemm *g, int64_t i0, int64_t i1, real *c, const real *a, const real *b, real *scratch)
{
	int64_t whole = i0 + (i1 - i0) / ROWS * ROWS;

	if (g->ta == GEMM_T) {
		product(g, i1 - i0, c + i0 * g->ldc, g->ldc, a + i0, g->lda, b);
		return;
	}
	if (g->lda < g->k)
		whole = i0;
	if (whole > i0)
		product(g, whole - i0, c + i0 * g->ldc, g->ldc, a + i0 * g->lda, g->lda, b);
	for (int64_t i = whole; i < i1; i += ROWS)
		padded(g, i1 - i < ROWS ? i1 - i : ROWS, c + i * g->ldc, a + i * g->lda, b, scratch);
}

#else

int REAL_NAME(gemm_library)(void)
{
	return 0;
}

int64_t REAL_NAME(gemm_library_scratch)(const struct gemm *g)
{
	(void)g;
	return 0;
}

void REAL_NAME(gemm_library_panel)(const struct gemm *g, int64_t i0, int64_t i1, real *c, const real *a, const real *b, real *scratch)
{
	(void)g;
	(void)i0;
	(void)i1;
	(void)c;
	(void)a;
	(void)b;
	(void)scratch;
}

#endif
