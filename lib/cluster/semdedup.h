/* Finds near duplicates by features: the rule of SemDeDup (Abbas et al. 2023) inside one cluster. */
#ifndef DDM_CLUSTER_SEMDEDUP_H
#define DDM_CLUSTER_SEMDEDUP_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

/* x (n, d): features of the samples of a cluster, each of length 1. The samples are ordered: those with first[i] = 1 come first; within each of the
 * two parts, the sample with the smallest cosine with the mean of all comes first, and equal ones stay in the order of x. near[i] becomes the sample
 * earlier in that order with the largest cosine with sample i, if that exceeds `limit`, else -1; cosine[i] is this cosine. A sample with near[i] >= 0
 * is to be dropped. Samples with out[i] = 1 are passed over. Bits do not depend on the pool. ERR_AGAIN if the progress said stop. */
int semdedup_near(int64_t *near, double *cosine, const float *x, int64_t n, int64_t d, const uint8_t *first, const uint8_t *out, double limit,
                  struct pool *pool, const struct progress *progress, struct err *e);

/* The nearest sample of another part: near[i] becomes, for each i with part[i] = 0, the sample j with part[j] = 1 and the largest cosine, if that
 * exceeds `limit`, else -1; of equal ones the first. -1 for all others. */
int semdedup_across(int64_t *near, double *cosine, const float *x, int64_t n, int64_t d, const uint8_t *part, double limit, struct pool *pool,
                    const struct progress *progress, struct err *e);

#endif
