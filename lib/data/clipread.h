/* The clip of a sample, its member "npy" (file/frames.h), and the member "json" that tells its rate. */
#ifndef DDM_DATA_CLIPREAD_H
#define DDM_DATA_CLIPREAD_H

#include "data/samples.h"
#include "file/frames.h"

struct sample_clip {
	struct clip clip; /* clip.pixels points into `bytes` */
	double fps;       /* frames a second, the number "fps" of the member json; 0: unknown */
	void *bytes;      /* the member, owned; sample_clip_release frees */
};

/* Read the clip of a sample. 1; 0 if the sample has no array, or one of other rank or type (latents, masks); -1 and ERR_DATA if it is damaged. */
int sample_clip(struct sample_clip *c, const struct sample *s, struct err *e);
void sample_clip_release(struct sample_clip *c);

#endif
