/* Computes and scales the features of the motion of clips. */
#include "cluster/clipmotion.h"

#include <math.h>

#include "core/mem.h"

static const double no_variance = 1e-12; /* far above what rounding makes of equal features, whose size is about 1 */

int clipmotion_compute(float *out, const struct picture *p, int frames, const char *key, struct err *e)
{
	struct picture frame = *p;
	size_t bytes = (size_t)p->width * (size_t)(p->height / frames) * (size_t)p->channels;
	int steps = frames > 1 ? frames : 2, w, h, rc = -1;
	struct flow *flow;
	float *grey;
	int *at;

	frame.height = p->height / frames;
	if (frame.width < MOTION_SIDE_MIN || frame.height < MOTION_SIDE_MIN)
		return err_set(e, ERR_DATA, "\"%s\": frames of %d x %d; motion needs %d x %d at least", key, frame.width, frame.height,
		               MOTION_SIDE_MIN, MOTION_SIDE_MIN);
	motion_size(&w, &h, frame.width, frame.height);
	flow = flow_new(w, h, e);
	grey = flow ? mem_try((size_t)frames * (size_t)w * (size_t)h, sizeof *grey, key, e) : NULL;
	at = mem_zalloc((size_t)steps, sizeof *at);
	for (int i = 0; i < frames && grey; i++, frame.pixels += bytes) {
		motion_grey(grey + (size_t)i * (size_t)w * (size_t)h, w, h, &frame);
		at[i] = i;
	}
	if (grey)
		rc = motion_compute(out, flow, grey, at, steps, w, h, e);
	mem_free(at);
	mem_free(grey);
	flow_free(flow);
	return rc;
}

/* The variance of the features from column `from` to `to` over the training samples, summed over columns. */
static double variance(const struct featureset *f, int64_t from, int64_t to)
{
	double n = (double)f->count[0], sum = 0;

	for (int64_t k = from; k < to; k++) {
		const float *x = f->x[0] + k;
		double mean = 0;

		for (int64_t i = 0; i < f->count[0]; i++)
			mean += (double)x[i * f->d] / n;
		for (int64_t i = 0; i < f->count[0]; i++)
			sum += ((double)x[i * f->d] - mean) * ((double)x[i * f->d] - mean) / n;
	}
	return sum;
}

int clipmotion_scale(struct featureset *f, double *scale, double share, struct err *e)
{
	int64_t from = f->d - MOTION_DIMS;

	if (!(*scale > 0)) {
		double content = variance(f, 0, from), motion = variance(f, from, f->d);

		if (motion < no_variance && f->count[0] > 0)
			return err_set(e, ERR_DATA, "--motion %g: all training samples move alike, or none moves", share);
		/* scale^2 motion = share (content + scale^2 motion). Content without variance decides nothing, whatever the scale. */
		*scale = content > 0 && f->count[0] > 0 ? sqrt(share / (1 - share) * content / motion) : 1;
	}
	for (int h = 0; h < 2; h++)
		for (int64_t i = 0; i < f->count[h]; i++)
			for (int64_t k = from; k < f->d; k++)
				f->x[h][i * f->d + k] = (float)(*scale * (double)f->x[h][i * f->d + k]);
	return 0;
}
