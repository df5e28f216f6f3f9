/* Computes features of pictures from fixed functions of the pixels. */
#include "metric/pixfeat.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"

enum {
	LUMA_SIDE = 8,   /* DCT coefficients of L that are kept, per side */
	CHROMA_SIDE = 4, /* the same of A and B */
	LEVELS = 3,
	GREYS = 8,
	HUES = 6,
	GRID = 8,
	DIMS_PIX = LUMA_SIDE * LUMA_SIDE + 2 * CHROMA_SIDE * CHROMA_SIDE + LEVELS * 3 * (4 + 1 + 2) + GREYS + HUES * HUES,
	DIMS_RGB8 = GRID * GRID * 3
};

const char *const pixfeat_names[PIXFEAT_KINDS + 1] = {"pix", "rgb8", NULL};

/* Change this text with any change of the computation: its hash prevents comparing statistics of different versions. */
static const char *const definitions[PIXFEAT_KINDS] = {
    "pix 2. r, g, b = value / 127.5 - 1. L = (r + g + b) / sqrt 3, A = (r - b) / sqrt 2, B = (r - 2 g + b) / sqrt 6.\n"
    "1. Layout, 64 + 16 + 16: orthonormal DCT-II coefficients C(v, u) / sqrt(width height) with v, u < 8 of L, < 4 of A, < 4 of "
    "B, "
    "v the row frequency and the slower index; times (1 + sqrt(u u + v v)), times 1.5 for L and 3 for A and B.\n"
    "2. Sharpness, 36 + 9 + 18: three levels of the stationary Haar transform of each plane: at every pixel with a pixel d = 1, 2, 4 "
    "to its right and below, of p q / r s, d apart, the differences "
    "(p - q + r - s) / 2, (p + q - r - s) / 2, (p - q - r + s) / 2 and the mean, which is the next level. f(x) = log(1 + 50 x) - "
    "2.5 in L, - 1.2 in A and B. First for every level, difference and quarter of the plane (top "
    "left, top right, bottom left, bottom right; cut "
    "at half of the level's rows and columns, rounded up) f of the root mean square in L; then for every level and difference f "
    "of the mean "
    "absolute value in L; then for every level, difference and plane A, B f of the root mean square.\n"
    "3. Colour, 8 + 36: histograms with linear sharing between the two nearest centres, as square roots of fractions, times 2: "
    "of L / sqrt 3 "
    "on 8 centres from -1 to 1; of the pair s(A / sqrt 2), s(sqrt 6 B / 4) on 6 x 6 centres from -1 to 1, s(x) = sign(x) sqrt "
    "|x|, A the slower "
    "index.\n"
    "All in double, stored as float.",
    "rgb8 1. Means over a grid of 8 x 8 boxes of value / 127.5 - 1, row by row, r g b together; box i spans pixels floor(i n / "
    "8) to "
    "floor((i + 1) n / 8) - 1. In double, stored as float."};

int pixfeat_dims(enum pixfeat_kind kind)
{
	return kind == PIXFEAT_PIX ? DIMS_PIX : DIMS_RGB8;
}

void pixfeat_hash(enum pixfeat_kind kind, char hex[65])
{
	sha256_text(definitions[kind], hex);
}

/* Planes L, A, B (3, height, width): opponent colours (Ohta et al. 1980), close to the principal axes of the colours of natural images. */
static void opponent(double *planes, const uint8_t *rgb, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double r = rgb[3 * i] / 127.5 - 1, g = rgb[3 * i + 1] / 127.5 - 1, b = rgb[3 * i + 2] / 127.5 - 1;

		planes[i] = (r + g + b) / sqrt(3);
		planes[n + i] = (r - b) / sqrt(2);
		planes[2 * n + i] = (r - 2 * g + b) / sqrt(6);
	}
}

/* The first `side` basis vectors (side, n) of the orthonormal DCT-II, divided by sqrt(n). */
static void cosines(double *c, int side, int n)
{
	for (int k = 0; k < side; k++)
		for (int i = 0; i < n; i++)
			c[k * n + i] = cos(M_PI * (2 * i + 1) * k / (2.0 * n)) * sqrt(k ? 2.0 : 1.0) / n;
}

static float *layout(float *out, const double *plane, int w, int h, int side, double gain, const double *cx, const double *cy)
{
	double along[LUMA_SIDE], sum[LUMA_SIDE * LUMA_SIDE] = {0};

	for (int y = 0; y < h; y++) {
		memset(along, 0, sizeof along);
		for (int u = 0; u < side; u++)
			for (int x = 0; x < w; x++)
				along[u] += plane[(int64_t)y * w + x] * cx[u * w + x];
		for (int v = 0; v < side; v++)
			for (int u = 0; u < side; u++)
				sum[v * side + u] += along[u] * cy[v * h + y];
	}
	for (int v = 0; v < side; v++)
		for (int u = 0; u < side; u++)
			*out++ = (float)(sum[v * side + u] * (1 + sqrt(u * u + v * v)) * gain);
	return out;
}

struct bands {
	double square[LEVELS][3][4], count[LEVELS][4]; /* per quarter */
	double abs[LEVELS][3];
};

/* Sums over the bands of a stationary Haar transform, which uses every position. A decimated transform looks at a grid of 2, 4 and 8 pixels, so no
 * difference would straddle the edges of a network's patches, and seams between patches would not be measured. */
static void haar(struct bands *b, double *plane, int w, int h)
{
	memset(b, 0, sizeof *b);
	for (int l = 0; l < LEVELS; l++) {
		int d = 1 << l, w2 = w - d, h2 = h - d;

		for (int y = 0; y < h2; y++)
			for (int x = 0; x < w2; x++) {
				const double *t = plane + (int64_t)y * w + x, *below = t + (int64_t)d * w;
				double p = t[0], q = t[d], r = below[0], s = below[d], diff[3];
				int quarter = 2 * (y >= (h2 + 1) / 2) + (x >= (w2 + 1) / 2);

				diff[0] = (p - q + r - s) / 2;
				diff[1] = (p + q - r - s) / 2;
				diff[2] = (p - q - r + s) / 2;
				for (int k = 0; k < 3; k++) {
					b->square[l][k][quarter] += diff[k] * diff[k];
					b->abs[l][k] += fabs(diff[k]);
				}
				b->count[l][quarter]++;
				/* in place: element (y, x) lies before all elements that are still to be read */
				plane[(int64_t)y * w2 + x] = (p + q + r + s) / 4;
			}
		w = w2, h = h2;
	}
}

/* The log, because amplitudes span decades. The constants are close to the averages of photographs, so that values are centred and differences show
 * in the kernel. */
static float squash(double x, int chroma)
{
	return (float)(log(1 + 50 * x) - (chroma ? 1.2 : 2.5));
}

static float *sharpness(float *out, double *planes, int w, int h)
{
	struct bands b[3];

	for (int c = 0; c < 3; c++)
		haar(&b[c], planes + (int64_t)c * w * h, w, h);
	for (int l = 0; l < LEVELS; l++)
		for (int k = 0; k < 3; k++)
			for (int i = 0; i < 4; i++)
				*out++ = squash(sqrt(b[0].square[l][k][i] / b[0].count[l][i]), 0);
	for (int l = 0; l < LEVELS; l++) {
		const double *n = b[0].count[l];

		for (int k = 0; k < 3; k++)
			*out++ = squash(b[0].abs[l][k] / (n[0] + n[1] + n[2] + n[3]), 0);
	}
	for (int l = 0; l < LEVELS; l++)
		for (int k = 0; k < 3; k++)
			for (int c = 1; c < 3; c++) {
				const double *s = b[c].square[l][k], *n = b[c].count[l];

				*out++ = squash(sqrt((s[0] + s[1] + s[2] + s[3]) / (n[0] + n[1] + n[2] + n[3])), 1);
			}
	return out;
}

/* Returns the lower of the two nearest of n centres from -1 to 1; *upper is the share of the upper one. */
static int between(double x, int n, double *upper)
{
	double at = (fmin(fmax(x, -1), 1) + 1) / 2 * (n - 1);
	int i = (int)at < n - 2 ? (int)at : n - 2;

	*upper = at - i;
	return i;
}

static double signed_root(double x)
{
	return copysign(sqrt(fabs(x)), x);
}

static float *colours(float *out, const double *planes, int64_t n)
{
	double grey[GREYS] = {0}, hue[HUES][HUES] = {{0}};

	for (int64_t i = 0; i < n; i++) {
		double f, ga, gb;
		int k = between(planes[i] / sqrt(3), GREYS, &f), a, b;

		grey[k] += 1 - f;
		grey[k + 1] += f;
		a = between(signed_root(planes[n + i] / sqrt(2)), HUES, &ga);
		b = between(signed_root(planes[2 * n + i] * sqrt(6) / 4), HUES, &gb);
		hue[a][b] += (1 - ga) * (1 - gb);
		hue[a][b + 1] += (1 - ga) * gb;
		hue[a + 1][b] += ga * (1 - gb);
		hue[a + 1][b + 1] += ga * gb;
	}
	for (int k = 0; k < GREYS; k++)
		*out++ = (float)(2 * sqrt(grey[k] / (double)n));
	for (int a = 0; a < HUES; a++)
		for (int b = 0; b < HUES; b++)
			*out++ = (float)(2 * sqrt(hue[a][b] / (double)n));
	return out;
}

static void pix(float *out, const uint8_t *rgb, int w, int h)
{
	int64_t n = (int64_t)w * h;
	double *planes = mem_alloc(((size_t)n * 3 + (size_t)LUMA_SIDE * (size_t)(w + h)) * sizeof *planes);
	double *cx = planes + 3 * n, *cy = cx + LUMA_SIDE * w;
	float *end = out + DIMS_PIX;

	opponent(planes, rgb, n);
	cosines(cx, LUMA_SIDE, w);
	cosines(cy, LUMA_SIDE, h);
	out = layout(out, planes, w, h, LUMA_SIDE, 1.5, cx, cy);
	for (int c = 1; c < 3; c++)
		out = layout(out, planes + c * n, w, h, CHROMA_SIDE, 3, cx, cy);
	colours(out + LEVELS * 3 * (4 + 1 + 2), planes, n);
	out = sharpness(out, planes, w, h) + GREYS + HUES * HUES; /* last, because it overwrites the planes */
	assert(out == end);
	(void)end;
	mem_free(planes);
}

static void rgb8(float *out, const uint8_t *rgb, int w, int h)
{
	for (int v = 0; v < GRID; v++)
		for (int u = 0; u < GRID; u++) {
			int y0 = v * h / GRID, y1 = (v + 1) * h / GRID, x0 = u * w / GRID, x1 = (u + 1) * w / GRID;
			int64_t sum[3] = {0};

			for (int y = y0; y < y1; y++)
				for (int x = x0; x < x1; x++)
					for (int c = 0; c < 3; c++)
						sum[c] += rgb[3 * ((int64_t)y * w + x) + c];
			for (int c = 0; c < 3; c++)
				*out++ = (float)((double)sum[c] / ((double)(y1 - y0) * (x1 - x0)) / 127.5 - 1);
		}
}

void pixfeat_compute(float *out, const uint8_t *rgb, int width, int height, enum pixfeat_kind kind)
{
	assert(width >= PIXFEAT_SIDE_MIN && height >= PIXFEAT_SIDE_MIN);
	if (kind == PIXFEAT_PIX)
		pix(out, rgb, width, height);
	else
		rgb8(out, rgb, width, height);
}
