/* Reads clips from arrays, for all that shows, measures, clusters or encodes them. */
#include "file/frames.h"

enum { SIDE_MOST = 1 << 15, FRAMES_MOST = 1 << 20 };

int clip_is(const struct npy *a)
{
	return a->rank == 4 && a->type == NPY_U1;
}

static int in_range(const int64_t *n)
{
	return n[0] >= 1 && n[0] <= FRAMES_MOST && (n[1] == 1 || n[1] == 3) && n[2] >= 1 && n[2] <= SIDE_MOST && n[3] >= 1 && n[3] <= SIDE_MOST;
}

int clip_of(struct clip *c, const struct npy *a, const char *name, struct err *e)
{
	const int64_t *n = a->shape;

	if (a->rank != 4)
		return err_set(e, ERR_DATA, "%s: an array of %d dimensions; a clip has 4: frames, channels, height, width", name, a->rank);
	if (a->type != NPY_U1)
		return err_set(e, ERR_DATA, "%s: numbers of type %s, such as latents; a clip of pixels has bytes, of type |u1", name,
		               npy_type_code(a->type));
	if (a->fortran)
		return err_set(e, ERR_DATA, "%s: a clip in column-major order; numpy.ascontiguousarray makes it row-major", name);
	if (!in_range(n))
		return err_set(e, ERR_DATA,
		               "%s: bytes of shape (%lld, %lld, %lld, %lld); a clip has (frames, channels, height, width), with 1 or 3 channels",
		               name, (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3]);
	*c = (struct clip){(int)n[0], (int)n[1], (int)n[2], (int)n[3], a->data};
	return 0;
}

void clip_pixels(uint8_t *out, const struct clip *c, int i, int channels)
{
	int64_t area = (int64_t)c->height * c->width;
	const uint8_t *frame = c->pixels + i * c->channels * area;

	for (int k = 0; k < channels; k++)
		for (int64_t j = 0; j < area; j++)
			out[j * channels + k] = frame[(k < c->channels ? k : 0) * area + j];
}

int clip_frame(struct picture *p, const struct clip *c, int i, int channels, struct err *e)
{
	if (picture_alloc(p, c->width, c->height, channels, e))
		return -1;
	clip_pixels(p->pixels, c, i, channels);
	return 0;
}
