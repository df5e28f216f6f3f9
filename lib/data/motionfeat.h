/* Features of the movement in a clip, for the metric "motion" and for clustering: statistics of the optical flow (data/flow.h) from each frame to the
 * next. They are a fixed function of the pixels, not fitted to any data. They hold signs and the order in time, so that reversed, shuffled and frozen
 * frames change them; what the frames show hardly matters. */
#ifndef DDM_DATA_MOTIONFEAT_H
#define DDM_DATA_MOTIONFEAT_H

#include <stdint.h>

#include "core/err.h"
#include "data/flow.h"
#include "file/still.h"

enum {
	MOTION_CELLS = 4,     /* the grid of places is MOTION_CELLS x MOTION_CELLS */
	MOTION_DIMS = 107,    /* numbers per clip */
	MOTION_SIDE_MAX = 64, /* larger frames are reduced */
	MOTION_SIDE_MIN = 16  /* smallest width and height of a frame */
};

#define MOTION_NAME "motion-1" /* the name that files record; its number is that of the definition */

/* hex receives the SHA-256, in lower case, of the definition in words, which includes all constants and the flow's definition. */
void motion_hash(char hex[65]);

/* The size to which frames of width x height, both at least MOTION_SIDE_MIN, are reduced. */
void motion_size(int *w, int *h, int width, int height);

/* out (h, w): the grey values of p in [0, 1], averaged over boxes. p has 1 or 3 channels and is at least w x h. */
void motion_grey(float *out, int w, int h, const struct picture *p);

/* out (MOTION_DIMS) of the clip whose frame t is grey[at[t]] of grey (.., h, w), for t < frames. frames >= 2. f: for w x h. ERR_NOMEM. */
int motion_compute(float *out, struct flow *f, const float *grey, const int *at, int frames, int w, int h, struct err *e);

#endif
