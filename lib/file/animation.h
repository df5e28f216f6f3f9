/* Animated WebP, without loss, by libwebpmux. Every browser plays it in place of a picture. */
#ifndef DDM_FILE_ANIMATION_H
#define DDM_FILE_ANIMATION_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

struct animation;

/* Start an animation of pictures of this size, shown at `fps` frames a second, that repeats for ever. ERR_USAGE for a size that WebP cannot hold
 * (16383 pixels a side). Free with animation_free. */
struct animation *animation_new(int width, int height, double fps, struct err *e);
/* Add a frame of 1 or 3 channels. */
int animation_add(struct animation *a, const struct picture *frame, struct err *e);
/* The file, in *out; caller frees it with mem_free. The same frames give the same bytes with the same libwebp. */
int animation_end(struct animation *a, uint8_t **out, size_t *len, struct err *e);
void animation_free(struct animation *a); /* NULL is allowed */

#endif
