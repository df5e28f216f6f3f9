/* Maximum mean discrepancy under a Gaussian kernel, for CMMD on CLIP embeddings (Jayasumana et al. 2024). */
#ifndef DDM_METRIC_RBF_H
#define DDM_METRIC_RBF_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* The squared discrepancy of x (n, d) and y (m, d) under exp(-|a - b|^2 / (2 sigma^2)), by the biased estimator: all pairs, including each element
 * with itself. n, m >= 1. CMMD is 1000 times this at sigma 10 on vectors of length 1 (rows_normalise). Computed in double over fixed tiles, added in
 * index order: the same bits for any pool. ERR_NOMEM. */
int rbf_mmd(double *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, double sigma, struct err *e);

/* out (n, d): every row of x divided by its length, rounded to float as the published programs do; a row of zeros stays. out may be x. */
void rows_normalise(float *out, const float *x, int64_t n, int d);

#endif
