/* A curve in one line of text. */
#ifndef DDM_PLOT_SPARKLINE_H
#define DDM_PLOT_SPARKLINE_H

#include <stdint.h>

#include "core/str.h"

/* Append `width` characters, or n if these are fewer, that show y (n) against x (n), which rises: each stands for an equal part of x from 0 to the
 * last x, and its height for the mean of y there, on a logarithmic scale if all means are positive. A part without a finite y is a blank. utf8: the
 * block characters U+2581 to U+2588; otherwise ASCII characters, from low to high "_.-~=+*#". */
void sparkline(struct str *out, const int64_t *x, const double *y, int64_t n, int width, int utf8);

#endif
