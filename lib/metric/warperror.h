/* The warping error of a clip: how much a frame differs from the next one, warped back along the optical flow, where the flow can be trusted (Lai et
 * al., "Learning Blind Video Temporal Consistency", 2018). It measures flicker and deformation beside movement. The original uses a network for the
 * flow; here it is that of data/flow.h, so values compare with each other only. */
#ifndef DDM_METRIC_WARPERROR_H
#define DDM_METRIC_WARPERROR_H

#include "core/err.h"
#include "file/still.h"
#include "data/flow.h"

/* *out: the mean over pairs of consecutive frames of the mean squared difference, in RGB from 0 to 1, over the pixels that are seen in both.
 * p[frames] have 3 channels and the size of f. ERR_NOMEM. */
int warp_error(double *out, struct flow *f, const struct picture *p, int frames, struct err *e);

#endif
