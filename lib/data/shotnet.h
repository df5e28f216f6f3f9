/* Finds the transitions of a video with TransNet V2 (net/transnet.h), while its frames arrive.
 *
 *     s = shotnet_new(net, .5);
 *     for each frame { shotnet_add(s, rgb, &e);  while (shotnet_next(s, &f)) ... }
 *     while (shotnet_end(s, &e) > 0)  while (shotnet_next(s, &f)) ...
 *     shotnet_free(s);
 *
 * The network reads 100 frames and decides about the 50 in the middle, as in its paper: so 25 to 75 frames are looked ahead at. Before the first
 * frame and after the last one these are repeated. */
#ifndef DDM_DATA_SHOTNET_H
#define DDM_DATA_SHOTNET_H

#include "core/err.h"
#include "data/scenes.h"
#include "net/transnet.h"

enum { SHOTNET_AHEAD = 75 /* most frames that are added and not decided */ };

struct shotnet;

/* threshold: the probability above which a frame belongs to a transition. net is borrowed. Caller frees with shotnet_free. */
struct shotnet *shotnet_new(struct transnet *net, double threshold);
void shotnet_free(struct shotnet *s); /* NULL is allowed */

/* Add the next frame, TRANSNET_BYTES of RGB. Call shotnet_next until it returns 0 before the next call. Errors of transnet_run. */
int shotnet_add(struct shotnet *s, const uint8_t *rgb, struct err *e);
/* After the last frame: 1 if it decided about more frames, which shotnet_next gives before the next call; 0 if all are decided; -1 on errors of
 * transnet_run. */
int shotnet_end(struct shotnet *s, struct err *e);

/* 1: *found holds what the next frame's probability says; 0: more frames are needed. found->score is the probability.
 *
 * A frame above the threshold is the last one before a cut, or part of a gradual transition. The frame after it is a jump. So a new scene begins with
 * a jump, and each further frame of a gradual transition is one, too: none can be in a clip with another frame. A cut is the first frame of a
 * scene after a transition. */
int shotnet_next(struct shotnet *s, struct scene_found *found);

#endif
