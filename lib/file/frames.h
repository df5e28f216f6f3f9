/* The frames of a clip (a moving picture). A clip is an array of bytes (F, C, H, W): F frames of C = 1 or 3 channels. */
#ifndef DDM_FILE_FRAMES_H
#define DDM_FILE_FRAMES_H

#include <stdint.h>

#include "core/err.h"
#include "file/npy.h"
#include "file/still.h"

struct clip {
	int frames, channels, height, width;
	const uint8_t *pixels; /* (frames, channels, height, width) */
};

/* Whether an array has the form of a clip and not of something else that a sample may hold (latents, a mask): bytes of four dimensions. */
int clip_is(const struct npy *a);

/* The clip in an array. c->pixels points into it. ERR_DATA if it is none; the message begins with `name`. */
int clip_of(struct clip *c, const struct npy *a, const char *name, struct err *e);

/* Frame i as (height, width, channels) numbers. channels: those of the clip, or 3, which repeats the grey of a clip of one channel. */
void clip_pixels(uint8_t *out, const struct clip *c, int i, int channels);
/* The same as a picture. ERR_NOMEM. Caller frees with picture_release. */
int clip_frame(struct picture *p, const struct clip *c, int i, int channels, struct err *e);

#endif
