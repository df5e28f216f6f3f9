/* Features of the motion of clips for clustering, behind features of what the clips show.
 *
 * The motion of a clip is the MOTION_DIMS statistics of its optical flow (data/motionfeat.h). They are multiplied by one number, the scale, so that
 * their variance over the training samples, summed over the features, is a requested share of that of all features. Without that, the larger part
 * would decide the clusters. */
#ifndef DDM_CLUSTER_CLIPMOTION_H
#define DDM_CLUSTER_CLIPMOTION_H

#include "cluster/featureset.h"
#include "core/err.h"
#include "data/motionfeat.h"
#include "file/still.h"

/* out [MOTION_DIMS]: the motion of the clip p, `frames` pictures one below the other. A single picture is a clip that stands still. ERR_DATA, with
 * `key`, for frames smaller than MOTION_SIDE_MIN; ERR_NOMEM. */
int clipmotion_compute(float *out, const struct picture *p, int frames, const char *key, struct err *e);

/* Multiply the last MOTION_DIMS features of every sample by *scale. If it is 0, it is found first: motion gets the share `share`, 0 < share < 1, of
 * the variance of the training samples. ERR_DATA: all training samples move alike, so no scale gives motion a share. */
int clipmotion_scale(struct featureset *f, double *scale, double share, struct err *e);

#endif
