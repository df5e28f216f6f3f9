/* The median. */
#ifndef DDM_CORE_MEDIAN_H
#define DDM_CORE_MEDIAN_H

#include <stdint.h>

/* The median of v[0 .. n - 1], none of them NaN; of an even number the mean of the middle two. NaN if n is 0. Sorts v. */
double median(double *v, int64_t n);

#endif
