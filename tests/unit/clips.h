/* Clips in memory, for tests of autoencoders: the functions that autoencoder_encode_clip and autoencoder_decode_clip call. */
#ifndef DDM_TESTS_CLIPS_H
#define DDM_TESTS_CLIPS_H

#include <string.h>

#include "net/autoencoder.h"

struct clip {
	float *x; /* (frames, 3, h, w) */
	int64_t frames, h, w;
	int64_t pixels; /* written so far */
	int64_t last;   /* the last frame that came whole */
};

/* The row y of a part's plane in the clip. */
static float *clip_row(const struct clip *c, const struct clip_part *p, int64_t frame, int64_t plane, int64_t y)
{
	assert_true(frame >= 0 && frame < c->frames && p->top >= 0 && p->left >= 0 && p->top + p->height <= c->h && p->left + p->width <= c->w);
	return c->x + ((frame * 3 + plane) * c->h + p->top + y) * c->w + p->left;
}

static int read_clip(void *arg, const struct clip_part *p, float *x, struct err *e)
{
	const struct clip *c = arg;

	(void)e;
	assert_true(p->frames == 1);
	for (int64_t i = 0; i < 3 * p->height; i++)
		memcpy(x + i * p->width, clip_row(c, p, p->frame, i / p->height, i % p->height), (size_t)p->width * sizeof *x);
	return 0;
}

/* Whole frames must come in order. */
static int write_clip(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	struct clip *c = arg;
	int whole = p->height == c->h && p->width == c->w;

	(void)e;
	assert_true(!whole || p->frame == c->last + 1);
	c->last = whole ? p->frame + p->frames - 1 : c->last;
	c->pixels += p->frames * p->height * p->width;
	for (int64_t i = 0; i < p->frames * 3 * p->height; i++)
		memcpy(clip_row(c, p, p->frame + i / (3 * p->height), i / p->height % 3, i % p->height), x + i * p->width,
		       (size_t)p->width * sizeof *x);
	return 0;
}

static void encode_clip(struct autoencoder *a, const struct clip *c, int tile, float *z)
{
	struct err e = {0};

	if (autoencoder_encode_clip(a, c->frames, c->h, c->w, tile, read_clip, (void *)(uintptr_t)c, z, &e))
		fail_msg("%s", e.msg);
}

/* Each pixel must come once. */
static void decode_clip(struct autoencoder *a, int64_t latents, const float *z, int tile, struct clip *out)
{
	struct err e = {0};
	int64_t f = autoencoder_factor(autoencoder_config(a));

	out->pixels = 0;
	out->last = -1;
	if (autoencoder_decode_clip(a, latents, z, out->h / f, out->w / f, tile, write_clip, out, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(out->pixels, out->frames * out->h * out->w);
}

#endif
