/* The matrix product of a library in place of the tiles of gemm.c, where configure was told --with-blas=onednn. Float only. What
 * the library is asked depends on the shape alone, in panels of GEMM_PANEL rows whose last is filled up to a multiple of 16, so
 * results do not depend on the number of threads; that a row's bits do not depend on M holds for oneDNN on AVX-512, not
 * everywhere (gemm.h promises it of our own tiles). */
#ifndef DDM_KERNELS_GEMM_LIBRARY_H
#define DDM_KERNELS_GEMM_LIBRARY_H

#include "kernels/gemm.h"
#include "kernels/real.h"

enum { GEMM_PANEL = 192 };

/* Whether there is one for this build and type. */
int REAL_NAME(gemm_library)(void);

/* Reals of scratch a panel needs. */
int64_t REAL_NAME(gemm_library_scratch)(const struct gemm *g);

/* Rows [i0, i1) of C, all columns, without epilogue, on the calling thread. */
void REAL_NAME(gemm_library_panel)(const struct gemm *g, int64_t i0, int64_t i1, real *c, const real *a, const real *b,
                                   real *scratch);

#endif
