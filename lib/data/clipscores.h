/* Numbers that say how much a clip moves and whether its pictures are good, to filter training data by. They need no network. */
#ifndef DDM_DATA_CLIPSCORES_H
#define DDM_DATA_CLIPSCORES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

struct clip_scores {
	/* Of pictures; of a clip the mean over its frames. */
	double sharp;    /* variance of the Laplacian of the grey picture (0 to 255), as OpenCV computes it */
	double exposure; /* mean of the grey picture, 0 to 1 */
	double contrast; /* standard deviation of the grey picture, in the same unit */
	double black;    /* share of frames of which at least 98% of the pixels are darker than a tenth of white (FFmpeg's blackdetect) */
	/* Of clips; 0 if there is one frame. */
	double frozen;             /* share of the steps from frame to frame without a change (FFmpeg's freezedetect) */
	double motion;             /* mean length of the motion vectors of a step, over width + height */
	double motion_x, motion_y; /* mean vector of a step, over width and over height: the motion of the camera, right and down positive */
	double moving;             /* share of the blocks that move */
};

/* Scores of n >= 1 frames of equal size with 1 or 3 channels. ERR_NOMEM.
 *
 * Motion is found by block matching: blocks of 8 x 8 pixels of the grey picture, which is halved until the shorter side is below 128; every
 * displacement of up to 7 pixels is tried, and the least sum of absolute differences wins. A block stays still unless the best displacement lowers
 * the mean difference by more than 2 grey levels, so that noise on a flat wall is no motion. */
int clip_scores(struct clip_scores *out, const struct picture *const *frames, int n, struct err *e);

/* Grey of RGB pixels as OpenCV's 8-bit COLOR_RGB2GRAY. */
void grey_of_rgb(uint8_t *grey, const uint8_t *rgb, size_t pixels);

/* Variance of the Laplacian, kernel 0 1 0, 1 -4 1, 0 1 0, borders reflected without repeating the edge: cv2.Laplacian(grey, CV_64F).var(). */
double laplacian_variance(const uint8_t *grey, int width, int height);

#endif
