/* Scores of clips and pictures: sharpness, light, standstill, and motion by block matching. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/clipscores.h"

enum { BLOCK = 8, RANGE = 7, COARSE_SIDE = 128 /* the picture is halved until its shorter side is below this */ };

#define STILL_GAIN 2.0    /* grey levels per pixel by which a displacement must be better than none */
#define BLACK_LEVEL 25    /* blackdetect: pixel_black_th .1 of 255 */
#define BLACK_SHARE .98   /* blackdetect: picture_black_ratio_th */
#define FREEZE_NOISE .001 /* freezedetect: noise, of 256 */

void grey_of_rgb(uint8_t *grey, const uint8_t *rgb, size_t pixels)
{
	for (size_t i = 0; i < pixels; i++)
		grey[i] = (uint8_t)((9798 * rgb[3 * i] + 19235 * rgb[3 * i + 1] + 3735 * rgb[3 * i + 2] + (1 << 14)) >> 15);
}

/* Row or column i of n, reflected at the borders. */
static int reflected(int i, int n)
{
	return n == 1 ? 0 : i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

double laplacian_variance(const uint8_t *grey, int width, int height)
{
	double n = (double)width * height, mean;
	int64_t sum = 0, squares = 0;

	for (int y = 0; y < height; y++) {
		const uint8_t *row = grey + (size_t)y * width;
		const uint8_t *up = grey + (size_t)reflected(y - 1, height) * width, *down = grey + (size_t)reflected(y + 1, height) * width;
		int64_t row_squares = 0;
		int32_t row_sum = 0; /* a row has at most 2^31 / 1020 pixels; longer ones are no pictures */

		for (int x = 1; x + 1 < width; x++) {
			int32_t v = up[x] + down[x] + row[x - 1] + row[x + 1] - 4 * row[x];

			row_sum += v;
			row_squares += v * v;
		}
		for (int x = 0; x<width; x += width> 1 ? width - 1 : 1) {
			int32_t v = up[x] + down[x] + row[reflected(x - 1, width)] + row[reflected(x + 1, width)] - 4 * row[x];

			row_sum += v;
			row_squares += v * v;
		}
		sum += row_sum;
		squares += row_squares;
	}
	mean = (double)sum / n;
	return (double)squares / n - mean * mean;
}

/* Add what one grey frame contributes to the means. */
static void light_add(struct clip_scores *s, const uint8_t *grey, int width, int height)
{
	size_t pixels = (size_t)width * height, dark = 0;
	uint64_t sum = 0, squares = 0;
	double mean;

	for (size_t i = 0; i < pixels; i++) {
		sum += grey[i];
		squares += (uint64_t)grey[i] * grey[i];
		dark += grey[i] <= BLACK_LEVEL;
	}
	mean = (double)sum / (double)pixels;
	s->exposure += mean / 255;
	s->contrast += sqrt(fmax((double)squares / (double)pixels - mean * mean, 0)) / 255;
	s->black += (double)dark >= BLACK_SHARE * (double)pixels;
	s->sharp += laplacian_variance(grey, width, height);
}

/* Steps without a change. A freeze lasts while the frames stay near its first one, so a slow change is not taken for one. */
static int frozen_steps(const struct picture *const *frames, int n)
{
	const struct picture *first = frames[0];
	size_t bytes = (size_t)first->width * first->height * first->channels;
	int frozen = 0;

	for (int i = 1; i < n; i++) {
		uint64_t sum = 0;

		for (size_t k = 0; k < bytes; k++)
			sum += (uint64_t)abs(frames[i]->pixels[k] - first->pixels[k]);
		if ((double)sum / (double)bytes / 256 <= FREEZE_NOISE)
			frozen++;
		else
			first = frames[i];
	}
	return frozen;
}

/* Halve a grey plane in place: means of 2 x 2 pixels, an odd last row or column dropped. */
static void halve(uint8_t *grey, int *width, int *height)
{
	int w = *width / 2, h = *height / 2;

	for (int y = 0; y < h; y++) {
		const uint8_t *a = grey + (size_t)(2 * y) * *width, *b = a + *width;

		for (int x = 0; x < w; x++)
			grey[(size_t)y * w + x] = (uint8_t)((a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1] + 2) >> 2);
	}
	*width = w;
	*height = h;
}

/* Sum of absolute differences of two blocks in planes of this width; of the upper half alone if that is more than `most`. */
static int block_sad(const uint8_t *a, const uint8_t *b, int width, int most)
{
	int sum = 0;

	for (int y = 0; y < BLOCK; y++, a += width, b += width) {
		int row = 0;

		for (int x = 0; x < BLOCK; x++)
			row += abs(a[x] - b[x]);
		sum += row;
		if (y + 1 == BLOCK / 2 && sum > most)
			break;
	}
	return sum;
}

/* The displacement of the block at (x, y) of `from` to its place in `to`: of those with the least difference the shortest. */
static void block_match(int *dx, int *dy, const uint8_t *from, const uint8_t *to, int width, int range)
{
	int still = block_sad(from, to, width, INT_MAX), best = still;

	*dx = *dy = 0;
	for (int v = -range; v <= range && best; v++)
		for (int u = -range; u <= range; u++) {
			int sad = block_sad(from, to + (ptrdiff_t)v * width + u, width, best);

			if (sad < best || (sad == best && u * u + v * v < *dx * *dx + *dy * *dy)) {
				best = sad;
				*dx = u;
				*dy = v;
			}
		}
	if (still - best <= STILL_GAIN * BLOCK * BLOCK)
		*dx = *dy = 0;
}

/* Sums of a clip's motion vectors. */
struct vectors {
	int64_t blocks, moving, x, y;
	double length;
};

/* Match the blocks whose whole search area lies within the picture: one at the border would have no counterpart when the camera moves. */
static void step_match(struct vectors *v, const uint8_t *from, const uint8_t *to, int width, int height)
{
	int room = (width < height ? width : height) - BLOCK, range = room / 2 < RANGE ? room / 2 : RANGE;

	for (int y = range; range > 0 && y + BLOCK + range <= height; y += BLOCK)
		for (int x = range; x + BLOCK + range <= width; x += BLOCK) {
			size_t at = (size_t)y * width + x;
			int dx, dy;

			block_match(&dx, &dy, from + at, to + at, width, range);
			v->blocks++;
			v->moving += dx || dy;
			v->x += dx;
			v->y += dy;
			v->length += sqrt(dx * dx + dy * dy);
		}
}

static void grey_frame(uint8_t *grey, const struct picture *p)
{
	size_t pixels = (size_t)p->width * p->height;

	if (p->channels == 3)
		grey_of_rgb(grey, p->pixels, pixels);
	else
		memcpy(grey, p->pixels, pixels);
}

int clip_scores(struct clip_scores *out, const struct picture *const *frames, int n, struct err *e)
{
	int width = frames[0]->width, height = frames[0]->height;
	size_t pixels = (size_t)width * height;
	uint8_t *grey = mem_try(2 * pixels, 1, "the grey pictures of two frames", e), *now = grey, *before = grey + pixels;
	struct vectors v = {0};

	*out = (struct clip_scores){0};
	if (!grey)
		return -1;
	for (int i = 0; i < n; i++) {
		uint8_t *swap = before;
		int w = width, h = height;

		before = now;
		now = swap;
		grey_frame(now, frames[i]);
		light_add(out, now, w, h);
		while ((w < h ? w : h) >= COARSE_SIDE)
			halve(now, &w, &h);
		if (i)
			step_match(&v, before, now, w, h);
		if (i + 1 == n && v.blocks) {
			double scale = (double)width / w, blocks = (double)v.blocks;

			out->motion = v.length / blocks * scale / (width + height);
			out->motion_x = (double)v.x / blocks * scale / width;
			out->motion_y = (double)v.y / blocks * scale / height;
			out->moving = (double)v.moving / blocks;
		}
	}
	mem_free(grey);
	out->sharp /= n;
	out->exposure /= n;
	out->contrast /= n;
	out->black /= n;
	out->frozen = n > 1 ? (double)frozen_steps(frames, n) / (n - 1) : 0;
	return 0;
}
