/* The first frames that sampled clips begin with (image to video), for lib/sample/batch.c. */
#ifndef DDM_SAMPLE_FIRSTFRAMES_H
#define DDM_SAMPLE_FIRSTFRAMES_H

#include "diffusion/mixture.h"

struct firstframes {
	int64_t n;        /* frames; 1: the same for all clips */
	int64_t of;       /* number of the clip that the first of several is for */
	int64_t elements; /* of a row of net_put_first */
	float *row;       /* (1 + n, elements): row 0 is without a frame */
	float *batch;     /* (1 + clips of a batch, elements) */
	int64_t room;     /* rows allocated in batch */
	char hash[65];    /* SHA-256 of the samples */
};

/* Read first frames for clips of (frames, channels, side, side) with the numbers from .. from + clips - 1. `path` is any source of samples
 * (data/samples.h), or one array NAME.npy. A sample is a picture, or an array (channels, side, side), or a clip (frames, channels, side, side),
 * whose first frame is taken; bytes b become b / 127.5 - 1, and floats are taken as they are. One sample is for all clips; of several, sample i is
 * for clip i. ERR_USAGE if there are fewer samples than clips; ERR_DATA for samples of another shape or with a value that is NaN or infinite.
 * Release with firstframes_release, after failure too. */
int firstframes_load(struct firstframes *f, const char *path, int64_t channels, int64_t side, int64_t from, int64_t clips, struct err *e);
void firstframes_release(struct firstframes *f);

/* Set texts->first to the frames of the clips with the numbers index (n), borrowed until the next call, and rows (n) to each clip's row there. */
int firstframes_batch(struct firstframes *f, int64_t n, const int64_t *index, int32_t *rows, struct texts *texts, struct err *e);

#endif
