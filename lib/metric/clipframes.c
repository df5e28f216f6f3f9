/* Decodes a clip, draws some of its frames, and alters their order. */
#include "metric/clipframes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"

const char *const altered_names[ALTERATIONS + 1] = {"shuffled", "reversed", "frozen", "slow", NULL};

enum { EPOCH_DRAW = 0, EPOCH_SHUFFLE = 1, FRAMES_MAX = 1 << 16, SIDE_MAX = 1 << 15 };

int clipframes_check(const struct npy *a, int least, const char *name, struct err *e)
{
	int64_t f = a->shape[0], c = a->shape[1];

	if (a->rank != 4)
		return err_set(e, ERR_DATA, "%s holds an array of %d dimensions; a clip has 4: frames, channels, height, width", name, a->rank);
	if (a->type != NPY_U1)
		return err_set(e, ERR_DATA, "%s holds numbers of type %s, such as latents; metrics of clips need pixels, of type |u1", name,
		               npy_type_code(a->type));
	if (c != 1 && c != 3)
		return err_set(e, ERR_DATA, "%s holds frames of %lld channels; a clip (frames, channels, height, width) has 1 or 3", name,
		               (long long)c);
	if (a->fortran)
		return err_set(e, ERR_DATA, "%s holds an array in Fortran's order; a clip is row-major", name);
	if (f < least || f > FRAMES_MAX)
		return err_set(e, ERR_DATA, "%s is a clip of %lld frames; metrics of clips need %d to %d", name, (long long)f, least, FRAMES_MAX);
	if (a->shape[2] < 1 || a->shape[3] < 1 || a->shape[2] > SIDE_MAX || a->shape[3] > SIDE_MAX)
		return err_set(e, ERR_DATA, "%s is a clip of %lld x %lld pixels", name, (long long)a->shape[3], (long long)a->shape[2]);
	return 0;
}

static void frame_hash(char hex[65], const uint8_t *pixels, const int64_t shape[3])
{
	struct sha256 h;
	uint8_t head[12];

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 4; k++)
			head[4 * i + k] = (uint8_t)(shape[i] >> 8 * k);
	sha256_init(&h);
	sha256_add(&h, head, sizeof head);
	sha256_add(&h, pixels, (size_t)(shape[0] * shape[1] * shape[2]));
	sha256_end(&h, hex);
}

/* planes (channels, height, width) to the interleaved pixels of p. */
static void interleave(struct picture *p, const uint8_t *planes, int channels)
{
	int64_t n = (int64_t)p->width * p->height;

	for (int64_t i = 0; i < n; i++)
		for (int c = 0; c < 3; c++)
			p->pixels[3 * i + c] = planes[(channels == 3 ? c : 0) * n + i];
}

static int frame_make(struct picture *out, const uint8_t *planes, const int64_t shape[3], int size, enum resize_filter filter, struct err *e)
{
	struct picture whole = {0};

	if (picture_alloc(&whole, (int)shape[2], (int)shape[1], 3, e))
		return -1;
	interleave(&whole, planes, (int)shape[0]);
	if (!size || (whole.width == size && whole.height == size)) {
		*out = whole;
		return 0;
	}
	if (picture_square(out, &whole, size, filter, e)) {
		picture_release(&whole);
		return -1;
	}
	picture_release(&whole);
	return 0;
}

int clipframes_make(struct clipframes *c, const struct npy *a, int size, enum resize_filter filter, struct err *e)
{
	const int64_t *shape = a->shape + 1;
	struct sha256 h;

	*c = (struct clipframes){.frames = (int)a->shape[0]};
	c->frame = mem_zalloc((size_t)c->frames, sizeof *c->frame);
	c->hash = mem_zalloc((size_t)c->frames, sizeof *c->hash);
	sha256_init(&h);
	for (int t = 0; t < c->frames; t++) {
		const uint8_t *planes = (const uint8_t *)a->data + t * shape[0] * shape[1] * shape[2];

		frame_hash(c->hash[t], planes, shape);
		sha256_add(&h, c->hash[t], 64);
		if (frame_make(&c->frame[t], planes, shape, size, filter, e))
			return -1;
	}
	sha256_end(&h, c->digest);
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
