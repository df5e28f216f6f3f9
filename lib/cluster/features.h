/* Features of a picture for clustering.
 *
 * "hogcolor-1" needs no weights. The picture's centre square is resized to 64 x 64 (bicubic, as Pillow).
 *
 * Shape. Luma Y = (299 R + 587 G + 114 B) / 255000; gradients by central differences, one-sided at the border; magnitude
 * and orientation (unsigned, 9 bins over 180 degrees, linear between bins) are gathered into 8 x 8 cells of 8 x 8 pixels,
 * bilinear between cells (Dalal & Triggs 2005). Every 2 x 2 block of cells (stride 2: 4 x 4 blocks of 36 values b) is
 * divided by 4 sqrt(2) sqrt(|b|^2 + 1). So a block with strong gradients has nearly full length and a smooth block is short:
 * the strength of gradients counts, not only their orientation. 576 values.
 *
 * Colour. The opponent plane O1 = (R - G) / 255, O2 = (R + G - 2 B) / 510, and Y: a joint histogram of 6 x 6 x 4 bins over
 * [-.6, .6]^2 x [0, 1] with trilinear weights, square roots (Hellinger), 144 values of length 1; and the means of Y, O1,
 * O2 over a 4 x 4 grid minus the picture's means, 48 values. The histogram is scaled by sqrt(.4), the layout to length
 * sqrt(.1) at most.
 *
 * The whole vector has 768 values and length at most 1. */
#ifndef DDM_CLUSTER_FEATURES_H
#define DDM_CLUSTER_FEATURES_H

#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

enum { FEATURES_HOGCOLOR_DIM = 768 };
#define FEATURES_HOGCOLOR "hogcolor-1"

/* out [768] from 8-bit RGB or grey pixels of any size. Errors of picture_square. */
int features_hogcolor(float *out, const struct picture *p, struct err *e);

#endif
