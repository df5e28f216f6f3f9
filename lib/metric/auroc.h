/* The area under the receiver operating characteristic: how well a score tells two sets apart. */
#ifndef DDM_METRIC_AUROC_H
#define DDM_METRIC_AUROC_H

#include <stdint.h>

/* The probability that a score of the first set (n) is above one of the second (m), ties counting half; from .5, which tells nothing, to 1. NAN if a
 * set is empty or holds a NaN. Source: the Mann-Whitney statistic, by ranks. */
double auroc(const double *first, int64_t n, const double *second, int64_t m);

#endif
