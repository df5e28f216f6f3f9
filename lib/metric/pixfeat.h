/* Features of pictures for metrics, without weights: fixed functions of the pixels, not fitted to any data, so statistics with the same definition
 * can always be compared. Clustering uses other features (cluster/features.h). */
#ifndef DDM_METRIC_PIXFEAT_H
#define DDM_METRIC_PIXFEAT_H

#include <stdint.h>

#include "core/err.h"

enum pixfeat_kind {
	PIXFEAT_PIX,  /* "pix": layout, sharpness and colour; 203 numbers */
	PIXFEAT_RGB8, /* "rgb8": the picture as 8 x 8 box means in [-1, 1]; 192 numbers */
	PIXFEAT_KINDS
};

/* NULL-terminated names in the order of the enum. */
extern const char *const pixfeat_names[PIXFEAT_KINDS + 1];

int pixfeat_dims(enum pixfeat_kind kind); /* numbers per picture */

/* hex receives the SHA-256, in lower case, of the definition of the features in words, which includes all constants. */
void pixfeat_hash(enum pixfeat_kind kind, char hex[65]);

enum { PIXFEAT_SIDE_MIN = 16 }; /* smallest width and height */

/* out (pixfeat_dims) from rgb (height, width, 3), both sides at least PIXFEAT_SIDE_MIN. Thread-safe. */
void pixfeat_compute(float *out, const uint8_t *rgb, int width, int height, enum pixfeat_kind kind);

#endif
