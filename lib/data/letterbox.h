/* Black bars around the content of a video: FFmpeg's cropdetect, whose box grows from frame to frame until it holds all content. */
#ifndef DDM_DATA_LETTERBOX_H
#define DDM_DATA_LETTERBOX_H

#include "file/still.h"

/* The box of the content so far. Zero-initialised: no frame yet. */
struct letterbox {
	int width, height;            /* of the frames; 0: no frame yet */
	int left, top, right, bottom; /* the content is left <= x < right, top <= y < bottom; left >= right: all frames were black */
};

/* Add a frame of RGB or, with one channel, of grey. A line is black if the mean of its grey is at most cropdetect's limit of 24 of 255, which is
 * (24 - 16) * 255 / 219 = 9.3 of the full range; limited: the levels are those of video, 16 to 235. A frame of another size starts anew. */
void letterbox_add(struct letterbox *b, const struct picture *p, int limited);

/* The content: *x, *y, *w, *h. It is the whole frame if the box is narrower or lower than half of it: then the picture is dark, and has no bars. */
void letterbox_content(const struct letterbox *b, int *x, int *y, int *w, int *h);

#endif
