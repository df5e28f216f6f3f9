/* Resizes and hashes the frames of a clip, draws some of its frames, and alters their order. */
#include "metric/clipframes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"

const char *const altered_names[ALTERATIONS + 1] = {"shuffled", "reversed", "frozen", "slow", NULL};

enum { EPOCH_DRAW = 0, EPOCH_SHUFFLE = 1 };

/* The hash of frame i, as stored. */
static void frame_hash(char hex[65], const struct clip *c, int i)
{
	const int shape[3] = {c->channels, c->height, c->width};
	size_t n = (size_t)c->channels * (size_t)c->height * (size_t)c->width;
	struct sha256 h;
	uint8_t head[12];

	for (int k = 0; k < 12; k++)
		head[k] = (uint8_t)(shape[k / 4] >> 8 * (k % 4));
	sha256_init(&h);
	sha256_add(&h, head, sizeof head);
	sha256_add(&h, c->pixels + (size_t)i * n, n);
	sha256_end(&h, hex);
}

static int frame_make(struct picture *out, const struct clip *c, int i, int size, enum resize_filter filter, struct err *e)
{
	struct picture whole = {0};
	int rc;

	if (clip_frame(&whole, c, i, 3, e))
		return -1;
	if (!size || (whole.width == size && whole.height == size)) {
		*out = whole;
		return 0;
	}
	rc = picture_square(out, &whole, size, filter, e);
	picture_release(&whole);
	return rc;
}

int clipframes_make(struct clipframes *f, const struct clip *c, int size, enum resize_filter filter, struct err *e)
{
	struct sha256 h;

	*f = (struct clipframes){.frames = c->frames};
	f->frame = mem_zalloc((size_t)f->frames, sizeof *f->frame);
	f->hash = mem_zalloc((size_t)f->frames, sizeof *f->hash);
	sha256_init(&h);
	for (int t = 0; t < f->frames; t++) {
		frame_hash(f->hash[t], c, t);
		sha256_add(&h, f->hash[t], 64);
		if (frame_make(&f->frame[t], c, t, size, filter, e))
			return -1;
	}
	sha256_end(&h, f->digest);
	return 0;
}

void clipframes_release(struct clipframes *c)
{
	for (int t = 0; t < c->frames && c->frame; t++)
		picture_release(&c->frame[t]);
	mem_free(c->frame);
	mem_free(c->hash);
	*c = (struct clipframes){0};
}

/* The two pixels around position i of `side`, and the share of the second. */
static double between(int at[2], int i, int n, int side)
{
	double p = fmax((i + .5) * n / side - .5, 0);

	at[0] = (int)p;
	at[1] = at[0] + 1 < n ? at[0] + 1 : at[0];
	return p - at[0];
}

static void frame_resized(float *out, const struct picture *p, int side)
{
	for (int v = 0; v < side; v++)
		for (int u = 0; u < side; u++) {
			int y[2], x[2];
			double fy = between(y, v, p->height, side), fx = between(x, u, p->width, side);

			for (int c = 0; c < 3; c++) {
				double row[2];

				for (int k = 0; k < 2; k++) {
					const uint8_t *r = p->pixels + (int64_t)y[k] * p->width * 3 + c;

					row[k] = (1 - fx) * r[3 * x[0]] + fx * r[3 * x[1]];
				}
				*out++ = (float)(2 * ((1 - fy) * row[0] + fy * row[1]) / 255 - 1);
			}
		}
}

void clipframes_resized(float *out, const struct clipframes *c, int frames, int side)
{
	for (int t = 0; t < frames; t++)
		frame_resized(out + (int64_t)t * side * side * 3, &c->frame[t], side);
}

struct ranked {
	const char *hash;
	int frame;
};

static int rank_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int c = strcmp(x->hash, y->hash);

	return c ? c : x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Sort the frames at[] by their hashes into v; returns a seed that depends on the sorted hashes alone. Without it, a frame that occurs in many clips
 * would be drawn in all of them or in none. */
static uint64_t rank(struct ranked *v, const struct clipframes *c, const int *at)
{
	char *text = mem_alloc((size_t)c->frames * 64);
	uint64_t seed;

	for (int t = 0; t < c->frames; t++)
		v[t] = (struct ranked){c->hash[at[t]], at[t]};
	qsort(v, (size_t)c->frames, sizeof *v, rank_order);
	for (int t = 0; t < c->frames; t++)
		memcpy(text + (size_t)t * 64, v[t].hash, 64);
	seed = hash64(text, (size_t)c->frames * 64);
	mem_free(text);
	return seed;
}

void clipframes_draw(int *drawn, int n, const struct clipframes *c, const int *at)
{
	struct ranked *v = mem_alloc((size_t)c->frames * sizeof *v);
	uint64_t seed = rank(v, c, at);

	for (int i = 0; i < n; i++)
		drawn[i] = v[rng_permute((uint64_t)i, (uint64_t)c->frames, seed, RNG_METRIC, EPOCH_DRAW)].frame;
	mem_free(v);
}

void clipframes_alter(int *at, const struct clipframes *c, enum altered how)
{
	uint64_t seed = hash64(c->digest, 64);
	int last = c->frames - 1, one = 0;

	for (int t = 0; t <= last; t++)
		at[t] = t;
	if (how == ALTERED_FROZEN)
		clipframes_draw(&one, 1, c, at);
	for (int t = 0; t <= last; t++)
		switch (how) {
		case ALTERED_SHUFFLED:
			at[t] = (int)rng_permute((uint64_t)t, (uint64_t)c->frames, seed, RNG_METRIC, EPOCH_SHUFFLE);
			break;
		case ALTERED_REVERSED:
			at[t] = last - t;
			break;
		case ALTERED_FROZEN:
			at[t] = one;
			break;
		case ALTERED_SLOW:
			at[t] = t / 2;
			break;
		case ALTERATIONS:
			break;
		}
}
