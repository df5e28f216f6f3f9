/* Pictures as video codecs give them: a plane of luma and two of chroma, which may be smaller. */
#ifndef DDM_FILE_YUV_H
#define DDM_FILE_YUV_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/resize.h"

struct yuv {
	int width, height;    /* of the luma */
	int shift_x, shift_y; /* the chroma has ceil(width / 2^shift_x) x ceil(height / 2^shift_y) pixels */
	int full;             /* 1: levels 0 to 255; 0: luma 16 to 235, chroma 16 to 240 */
	int32_t matrix[4];    /* of the limited range, times 65536: V for red, U for blue, U and V (both subtracted) for green; libswscale's order */
	const uint8_t *plane[3]; /* Y, U, V, without padding between rows */
};

/* Bytes of the three planes one after another. */
uint64_t yuv_bytes(int width, int height, int shift_x, int shift_y);

/* rgb (n, 3) of n pixels, by the range and the matrix of `in`. */
void yuv_rgb(uint8_t *rgb, const uint8_t *y, const uint8_t *u, const uint8_t *v, size_t n, const struct yuv *in);

/* out (height, width, 3) = RGB of the pixels nearest to an even grid of width x height: scaled down by leaving out, as fast as can be. The rows of
 * plane i begin `pitch[i]` bytes apart; in->plane is not read. */
void yuv_pick(uint8_t *out, int width, int height, const struct yuv *in, const uint8_t *const plane[3], const int pitch[3]);

/* The largest centred square of the rectangle w x h at (x, y), resized to size x size RGB. Each plane is resized and the result converted, not the
 * other way round: both steps are linear, so only rounding differs, and the cost is that of the small picture. Place and side of the square are
 * rounded down to whole chroma pixels. Chroma is taken to lie in the middle of its luma pixels, which is off by a quarter of a chroma pixel for most
 * video: use this where the picture gets smaller. ERR_NOMEM. Free *out with picture_release. */
int yuv_square(struct picture *out, const struct yuv *in, int x, int y, int w, int h, int size, enum resize_filter filter, struct err *e);

#endif
