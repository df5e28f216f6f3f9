/* The fraction of generated pictures that are copies of training pictures. */
#ifndef DDM_METRIC_MEMORISED_H
#define DDM_METRIC_MEMORISED_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* The fraction of samples (m, d) that are memorised: the nearest element of train (n, d) is less than a third as far away as the second nearest (Yoon
 * et al. 2023). An exact copy counts even if train holds that picture twice. Distances are Euclidean between 8-bit values, computed exactly in
 * integers. n >= 2, m >= 1 (else ERR_USAGE). `which` (m), may be NULL, is set to 1 for memorised samples, else 0. */
int memorised_fraction(double *out, uint8_t *which, struct pool *pool, const uint8_t *samples, int64_t m, const uint8_t *train, int64_t n, int64_t d,
                       struct err *e);

#endif
