/* Computes hogcolor, the features of a picture for clustering. */
#include "cluster/features.h"

#include <math.h>
#include <string.h>

#include "file/resize.h"

enum { SIDE = 64, CELLS = 8, BINS = 9, BLOCKS = 4, OPPONENT = 6, LUMA = 4, GRID = 4 };
enum { SHAPE = BLOCKS * BLOCKS * 4 * BINS, COLOUR = OPPONENT * OPPONENT * LUMA, LAYOUT = GRID * GRID * 3 };

_Static_assert(SHAPE + COLOUR + LAYOUT == FEATURES_HOGCOLOR_DIM, "the parts make the vector");

struct planes {
	float y[SIDE * SIDE], o1[SIDE * SIDE], o2[SIDE * SIDE]; /* rows of SIDE */
};

static void split(struct planes *p, const struct picture *in)
{
	for (int i = 0; i < SIDE * SIDE; i++) {
		const uint8_t *v = in->pixels + i * in->channels;
		float red = v[0], green = in->channels < 3 ? red : v[1], blue = in->channels < 3 ? red : v[2];

		p->y[i] = (299.f * red + 587.f * green + 114.f * blue) / 255000.f;
		p->o1[i] = (red - green) / 255.f;
		p->o2[i] = (red + green - 2.f * blue) / 510.f;
	}
}

static float length(const float *v, int n)
{
	float sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i] * v[i];
	return sqrtf(sum);
}

static void scale(float *v, int n, float by)
{
	for (int i = 0; i < n; i++)
		v[i] *= by;
}

/* The unsigned direction of (x, y) as a fraction of a half turn, in [0, 1]. A polynomial within 2e-6 of the arctangent on [0, 1] (Hastings 1955)
 * replaces atan, so that features do not depend on the C library. */
static float direction(float y, float x)
{
	float ax = fabsf(x), ay = fabsf(y), a = (ax < ay ? ax : ay) / ((ax < ay ? ay : ax) + 1e-30f), s = a * a, r;

	r = a * (.99997726f + s * (-.33262347f + s * (.19354346f + s * (-.11643287f + s * (.05265332f + s * -.0117212f)))));
	r *= .31830989f;
	r = ay > ax ? .5f - r : r;
	return (x < 0) != (y < 0) ? 1.f - r : r;
}

/* For every pixel: the length of the gradient, and its direction in units of bins; the centre of bin b is at b. */
static void gradients(float *magnitude, float *at, const float *y)
{
	for (int r = 0; r < SIDE; r++) {
		const float *up = y + (r ? r - 1 : r) * SIDE, *down = y + (r < SIDE - 1 ? r + 1 : r) * SIDE, *row = y + r * SIDE;
		float step = r && r < SIDE - 1 ? .5f : 1.f;

		for (int c = 0; c < SIDE; c++) {
			int left = c ? c - 1 : c, right = c < SIDE - 1 ? c + 1 : c;
			float dy = (down[c] - up[c]) * step, dx = (row[right] - row[left]) * (right - left == 2 ? .5f : 1.f);

			magnitude[r * SIDE + c] = sqrtf(dx * dx + dy * dy);
			at[r * SIDE + c] = direction(dy, dx) * BINS - .5f;
		}
	}
}

/* Distribute every pixel's gradient over two bins of four cells. A frame of extra cells around the picture collects shares that fall outside. Bins
 * are shifted by one: index 0 is bin -1, added to the last bin, and index BINS + 1 is added to the first. */
static void vote(float cell[CELLS + 2][CELLS + 2][BINS + 2], const float *magnitude, const float *at)
{
	enum { CELL = SIDE / CELLS };

	for (int r = 0; r < SIDE; r++)
		for (int c = 0; c < SIDE; c++) {
			int i = r * SIDE + c, bin = (int)(at[i] + 1.f), y = (r + CELL / 2) / CELL, x = (c + CELL / 2) / CELL;
			float fb = at[i] + 1.f - (float)bin, fy = ((float)((r + CELL / 2) % CELL) + .5f) / CELL;
			float fx = ((float)((c + CELL / 2) % CELL) + .5f) / CELL, low = magnitude[i] * (1.f - fb), high = magnitude[i] * fb;
			float weight[4] = {(1.f - fy) * (1.f - fx), (1.f - fy) * fx, fy * (1.f - fx), fy * fx};

			for (int j = 0; j < 4; j++) {
				float *bins = cell[y + j / 2][x + j % 2];

				bins[bin] += weight[j] * low;
				bins[bin + 1] += weight[j] * high;
			}
		}
	for (int y = 1; y <= CELLS; y++)
		for (int x = 1; x <= CELLS; x++) {
			cell[y][x][BINS] += cell[y][x][0];
			cell[y][x][1] += cell[y][x][BINS + 1];
		}
}

static void shape(float *out, const struct planes *p)
{
	float cell[CELLS + 2][CELLS + 2][BINS + 2] = {0}, magnitude[SIDE * SIDE], at[SIDE * SIDE], len;

	gradients(magnitude, at, p->y);
	vote(cell, magnitude, at);
	for (int b = 0; b < BLOCKS * BLOCKS; b++) {
		float *v = out + b * 4 * BINS;

		for (int i = 0; i < 4; i++)
			memcpy(v + i * BINS, cell[b / BLOCKS * 2 + i / 2 + 1][b % BLOCKS * 2 + i % 2 + 1] + 1, BINS * sizeof *v);
		len = length(v, 4 * BINS);
		scale(v, 4 * BINS, sqrtf(.5f / (BLOCKS * BLOCKS) / (len * len + 1.f)));
	}
}

/* The lower of two neighbouring bins of v and the weight of the upper one. Values beyond the outermost centres belong to the outermost bins. */
static int bin(float v, float lo, float hi, int bins, float *upper)
{
	float at = (v - lo) / (hi - lo) * (float)bins - .5f;
	int b;

	at = at < 0 ? 0 : at > (float)(bins - 1) ? (float)(bins - 1) : at;
	b = (int)at;
	if (b == bins - 1)
		b--;
	*upper = at - (float)b;
	return b;
}

static void colour(float *out, const struct planes *p)
{
	for (int i = 0; i < SIDE * SIDE; i++) {
		float f1, f2, fy;
		int b1 = bin(p->o1[i], -.6f, .6f, OPPONENT, &f1), b2 = bin(p->o2[i], -.6f, .6f, OPPONENT, &f2);
		int by = bin(p->y[i], 0.f, 1.f, LUMA, &fy);

		for (int j = 0; j < 8; j++) {
			float w = (j & 1 ? f1 : 1.f - f1) * (j & 2 ? f2 : 1.f - f2) * (j & 4 ? fy : 1.f - fy);

			out[((b1 + (j & 1)) * OPPONENT + b2 + (j >> 1 & 1)) * LUMA + by + (j >> 2 & 1)] += w / (SIDE * SIDE);
		}
	}
	for (int i = 0; i < COLOUR; i++)
		out[i] = sqrtf(out[i] * .4f);
}

static void layout(float *out, const struct planes *p)
{
	const float *plane[3] = {p->y, p->o1, p->o2};
	float len;

	for (int a = 0; a < 3; a++) {
		float mean = 0;

		for (int i = 0; i < SIDE * SIDE; i++) {
			int cell = i / SIDE * GRID / SIDE * GRID + i % SIDE * GRID / SIDE;

			out[cell * 3 + a] += plane[a][i] * (GRID * GRID) / (SIDE * SIDE);
		}
		for (int i = 0; i < GRID * GRID; i++)
			mean += out[i * 3 + a] / (GRID * GRID);
		for (int i = 0; i < GRID * GRID; i++)
			out[i * 3 + a] -= mean;
	}
	len = length(out, LAYOUT);
	scale(out, LAYOUT, sqrtf(.1f) / (len > .5f ? len : .5f));
}

int features_hogcolor(float *out, const struct picture *in, struct err *e)
{
	struct picture square;
	struct planes p;

	if (picture_square(&square, in, SIDE, RESIZE_BICUBIC, e))
		return -1;
	split(&p, &square);
	picture_release(&square);
	memset(out, 0, FEATURES_HOGCOLOR_DIM * sizeof *out);
	shape(out, &p);
	colour(out + SHAPE, &p);
	layout(out + SHAPE + COLOUR, &p);
	return 0;
}
