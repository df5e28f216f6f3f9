/* How many generated pictures are copies of training pictures. */
#ifndef DDM_METRIC_MEMORISED_H
#define DDM_METRIC_MEMORISED_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* The fraction of samples (m, d) whose nearest element of train (n, d) is less than a third as far as the second nearest (Yoon et
 * al. 2023), by Euclidean distance of 8-bit values; an exact copy counts even where the training set holds it twice. Distances
 * are exact integers. n >= 2, m >= 1 (else ERR_USAGE). `which` (m), may be NULL: 1 where memorised. */
int memorised_fraction(double *out, uint8_t *which, struct pool *pool, const uint8_t *samples, int64_t m, const uint8_t *train, int64_t n, int64_t d,
                       struct err *e);

#endif
