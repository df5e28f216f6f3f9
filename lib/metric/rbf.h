/* Maximum mean discrepancy under a Gaussian kernel, as CMMD measures CLIP embeddings (Jayasumana et al. 2024). */
#ifndef DDM_METRIC_RBF_H
#define DDM_METRIC_RBF_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* Squared, by the biased estimator (all pairs, an element with itself included), of x (n, d) and y (m, d) under
 * exp(-|a - b|^2 / (2 sigma^2)); n, m >= 1. CMMD is 1000 times this at sigma 10 on vectors of length 1 (rows_normalise). In double, over
 * fixed tiles in index order: the same bits for any pool. */
int rbf_mmd(double *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, double sigma, struct err *e);

/* out (n, d): x with every row divided by its length, in float as the published tools do; a row of zeros stays. out may be x. */
void rows_normalise(float *out, const float *x, int64_t n, int d);

#endif
