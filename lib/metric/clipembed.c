/* Computes the embedding of a whole clip. */
#include "metric/clipembed.h"

#include <math.h>

#include "core/mem.h"

enum { TOGETHER = 64 /* frames */ };

/* Add x (d), scaled to unit length, to sum (d). -1 if its length is 0. */
static int unit_add(double *sum, const float *x, int d)
{
	double length = 0;

	for (int k = 0; k < d; k++)
		length += (double)x[k] * x[k];
	length = sqrt(length);
	for (int k = 0; k < d && length > 0; k++)
		sum[k] += x[k] / length;
	return length > 0 ? 0 : -1;
}

int clip_embed(float *out, struct extractor *x, struct pool *pool, const struct picture *frame, int frames, const char *key, struct err *e)
{
	int d = x->dims[TAP_MAIN], rc = 0;
	float *features = mem_try((size_t)TOGETHER * (size_t)d, sizeof *features, "features of frames", e), *taps[TAPS] = {features};
	double *sum = mem_zalloc((size_t)d, sizeof *sum);

	for (int at = 0, n; at < frames && features && !rc; at += n) {
		n = frames - at < TOGETHER ? frames - at : TOGETHER;
		rc = x->run(x, pool, taps, frame + at, n, e);
		for (int i = 0; i < n && !rc; i++)
			if (unit_add(sum, features + i * d, d))
				rc = err_set(e, ERR_DATA, "\"%s\": the %s features of frame %d are all 0", key, x->name, at + i);
	}
	for (int k = 0; k < d; k++)
		out[k] = (float)(sum[k] / frames);
	mem_free(features);
	mem_free(sum);
	return features && !rc ? 0 : -1;
}
