/* Dense optical flow between two grey frames, without weights: Lucas and Kanade's least squares in windows, coarse to fine (Bouguet, "Pyramidal
 * implementation of the Lucas Kanade feature tracker", 2000). It serves to compare the movement of sets of clips and to warp one frame to
 * another. */
#ifndef DDM_DATA_FLOW_H
#define DDM_DATA_FLOW_H

#include "core/err.h"

struct flow;

enum { FLOW_SIDE_MIN = 8 }; /* smallest width and height */

/* What determines a flow, in words with all constants. A change of the computation changes this text. */
extern const char flow_definition[];

/* Prepare flows between frames of width x height, both at least FLOW_SIDE_MIN. It holds scratch memory, so each thread needs its own. ERR_NOMEM.
 * Caller frees with flow_free. */
struct flow *flow_new(int width, int height, struct err *e);
void flow_free(struct flow *f); /* NULL is allowed */

/* v (2, height, width): the displacements x, then y, in pixels, for which b(x + vx, y + vy) is closest to a(x, y). a, b: (height, width), grey in
 * [0, 1]. Displacements up to about a quarter of the shorter side are found. Where a window has no texture, v is 0. The bits depend on a and b
 * alone. */
void flow_between(struct flow *f, float *v, const float *a, const float *b);

/* out (h, w): b (h, w) at (x + vx, y + vy) for v (2, h, w), interpolated by cubics; positions outside take the nearest pixel of the border. inside
 * (h, w), or NULL: 1 where the position is inside the frame, else 0. */
void flow_warp(float *out, float *inside, const float *b, const float *v, int w, int h);

#endif
