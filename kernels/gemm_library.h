/* Matrix products by a library instead of the tiles of gemm.c, in builds configured with --with-blas=onednn. Float only. Products are
 * divided by shape alone, into panels of GEMM_PANEL rows, the last padded to a multiple of 16, so results do not depend on the number
 * of threads. A row's bits are independent of M for oneDNN on AVX-512, but not on every CPU (gemm.h guarantees it for gemm.c's own
 * tiles). */
#ifndef DDM_KERNELS_GEMM_LIBRARY_H
#define DDM_KERNELS_GEMM_LIBRARY_H

#include "kernels/gemm.h"
#include "kernels/real.h"

enum { GEMM_PANEL = 192 };

/* Whether this build has a library for `real`. */
int REAL_NAME(gemm_library)(void);

/* Number of reals of scratch for a panel. */
int64_t REAL_NAME(gemm_library_scratch)(const struct gemm *g);

/* Compute rows [i0, i1) of C, all columns, without the epilogue, on the calling thread. */
void REAL_NAME(gemm_library_panel)(const struct gemm *g, int64_t i0, int64_t i1, real *c, const real *a, const real *b, real *scratch);

#endif
