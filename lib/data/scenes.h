/* Finds the cuts of a video by the change from frame to frame, with the content and the adaptive detector of PySceneDetect 0.7
 * (scenedetect/detectors/content_detector.py, adaptive_detector.py). Scores and cuts are theirs, given the same frames.
 *
 *     s = scenes_new(&rule);  for each frame { scenes_add(s, frame, &f, e);  ... }  scenes_end(s, &f);  scenes_free(s);
 *
 * A cut begins a new scene of at least `length` frames. A jump is any frame that differs enough from the one before; the cuts are some of the jumps.
 * A piece of video that is to hold one view only must not contain a jump, because PySceneDetect merges scenes that are shorter than `length`. */
#ifndef DDM_DATA_SCENES_H
#define DDM_DATA_SCENES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

enum scene_detector { SCENES_NONE, SCENES_CONTENT, SCENES_ADAPTIVE, SCENES_TRANSNET /* data/shotnet.h */ };

enum { SCENE_SIDE = 256 /* longer side to which frames are scaled down for the detector */, SCENE_LENGTH = 15 /* the usual rule.length */ };

struct scene_rule {
	enum scene_detector detector; /* here SCENES_CONTENT or SCENES_ADAPTIVE */
	double threshold;             /* of the score (content), of the ratio of the score to that of its neighbours (adaptive), of the probability
	                               * (transnet) */
	int64_t length;               /* fewest frames of a scene */
};

/* 27 for content, 3 for adaptive, .5 for transnet. */
double scene_threshold(enum scene_detector detector);

/* What is known after a frame was added. Frames count from 0. */
struct scene_found {
	double score;    /* of this frame; 0 of the first */
	int64_t settled; /* it is decided which of the frames before this one are jumps: all of 0 .. settled - 1 */
	int64_t jump;    /* the frame that turned out to be a jump, below `settled`, or -1 */
	int64_t cut;     /* the frame that turned out to be a cut, or -1. It may come later than the jump, because merging looks ahead */
};

struct scenes;

struct scenes *scenes_new(const struct scene_rule *rule); /* caller frees with scenes_free */
void scenes_free(struct scenes *s);                       /* NULL is allowed */

/* Add the next frame, of 3 channels. A frame of another size than the one before is a jump of score 255. ERR_NOMEM. */
int scenes_add(struct scenes *s, const struct picture *frame, struct scene_found *found, struct err *e);

/* After the last frame: call until it returns 0. 1: *found holds one more jump, or none, and one more cut, or none. */
int scenes_end(struct scenes *s, struct scene_found *found);

/* Size of a width x height frame for the detector: the longer side is SCENE_SIDE, unless the frame is smaller. */
void scene_size(int width, int height, int *w, int *h);

/* Hue (0 to 179), saturation and value as OpenCV's 8-bit COLOR_RGB2HSV. hsv: (3, pixels); rgb: (pixels, 3). */
void scene_hsv(uint8_t *hsv, const uint8_t *rgb, size_t pixels);

/* Mean over the three planes of the mean absolute difference. a, b: (3, pixels) as scene_hsv writes them. */
double scene_distance(const uint8_t *a, const uint8_t *b, size_t pixels);

#endif
