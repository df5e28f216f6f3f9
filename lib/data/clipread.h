/* Clips: moving pictures as samples. A clip is a sample whose member "npy" is an array of bytes (F, C, H, W): F frames of C = 1 or 3 channels. */
#ifndef DDM_DATA_CLIPREAD_H
#define DDM_DATA_CLIPREAD_H

#include <stdint.h>

#include "core/err.h"
#include "data/samples.h"
#include "file/still.h"

struct clip {
	int frames, channels, height, width;
	double fps;      /* frames a second, the number "fps" of the member json; 0: unknown */
	uint8_t *pixels; /* (frames, channels, height, width), owned; clip_release frees */
};

/* Read the clip of a sample. 1; 0 if the sample has no array, or one of other rank or type (latents, masks); -1 and ERR_DATA if it is damaged. */
int clip_read(struct clip *c, const struct sample *s, struct err *e);
void clip_release(struct clip *c);

/* Frame i as a picture (height, width, channels). ERR_NOMEM. Caller frees with picture_release. */
int clip_frame(struct picture *p, const struct clip *c, int i, struct err *e);

#endif
