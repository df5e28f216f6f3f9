/* The embedding of a whole clip, from those of its frames, for its CLIP score. Used by evalclips.c. */
#ifndef DDM_METRIC_CLIPEMBED_H
#define DDM_METRIC_CLIPEMBED_H

#include "core/err.h"
#include "core/pool.h"
#include "file/still.h"
#include "metric/extractor.h"

/* out (dims of x): the mean over all frames of the features of x scaled to unit length. ERR_DATA, with `key`, for a frame whose features are all 0;
 * ERR_NOMEM; errors of x. */
int clip_embed(float *out, struct extractor *x, struct pool *pool, const struct picture *frame, int frames, const char *key, struct err *e);

#endif
