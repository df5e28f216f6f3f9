/* The frames of a clip for metrics: resized and hashed, drawn without regard to their order in time, and put in another order. Used by
 * evalclips.c. */
#ifndef DDM_METRIC_CLIPFRAMES_H
#define DDM_METRIC_CLIPFRAMES_H

#include <stdint.h>

#include "core/err.h"
#include "file/frames.h"
#include "file/still.h"
#include "metric/evalclips.h"

struct clipframes {
	int frames;
	struct picture *frame; /* [frames], of 3 channels and one size */
	char (*hash)[65];      /* [frames]: SHA-256 of the pixels as stored, before any resizing */
	char digest[65];       /* SHA-256 of the hashes in their order */
};

/* Convert a clip to frames: grey becomes RGB; size > 0 resizes the centre square. ERR_NOMEM. Release also after a failure. */
int clipframes_make(struct clipframes *f, const struct clip *c, int size, enum resize_filter filter, struct err *e);
void clipframes_release(struct clipframes *c); /* a zeroed one is allowed */

/* out (frames, side, side, 3): the first frames, resized by half-pixel bilinear interpolation without antialiasing as PyTorch does, 2 x / 255 - 1. */
void clipframes_resized(float *out, const struct clipframes *c, int frames, int side);

/* Draw n <= frames of the frames at[0 .. frames - 1] of a clip without replacement: drawn[i] is an index of c->frame. The draw depends on which
 * frames there are and not on their order, and every frame is equally probable, so statistics of the drawn frames do not move when frames are
 * shuffled, and do not move on average when a clip is frozen at one of its frames. */
void clipframes_draw(int *drawn, int n, const struct clipframes *c, const int *at);

/* Fill at[0 .. frames - 1] with the frames of an altered clip; `how` ALTERATIONS: unaltered. The draws depend on the clip's contents alone. */
void clipframes_alter(int *at, const struct clipframes *c, enum altered how);

#endif
