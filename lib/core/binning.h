/* Counts values in bins of equal width without knowing their range in advance: when a value does not fit, the width doubles and neighbouring bins
 * are added. Widths are powers of two and bins begin at multiples of the width, so the result does not depend on the order of the values. */
#ifndef DDM_CORE_BINNING_H
#define DDM_CORE_BINNING_H

#include <stdint.h>

enum { BINNING_BINS = 64, BINNING_KINDS = 2 };

/* Zero-initialised is empty. */
struct binning {
	int64_t values;      /* number of values */
	int64_t fractions;   /* of them, those that are not whole numbers */
	int exponent;        /* the width of a bin is 2^exponent */
	int64_t first, last; /* bin i holds the values v with floor(v / width) = first + i, for i = 0 .. last - first */
	int64_t count[BINNING_BINS][BINNING_KINDS];
};

/* Count a finite value of a kind, 0 or 1. */
void binning_add(struct binning *b, double v, int kind);
double binning_width(const struct binning *b);

#endif
