/* Pillow's resampling: filters, fixed-point coefficients, the two passes, and the crops of published metrics. */
#include "file/resize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/samemath.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#define BITS 22 /* of a coefficient's fraction: 32 - 8 for the pixel - 2 for the overshoot */
#define ROWS 16 /* rows of one horizontal tile */

const char *const resize_filter_names[] = {"box", "bilinear", "hamming", "bicubic", "lanczos", NULL};

static double box(double x)
{
	return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double bilinear(double x)
{
	x = fabs(x);
	return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
	x = fabs(x);
	if (x == 0.0)
		return 1.0;
	if (x >= 1.0)
		return 0.0;
	x = x * M_PI;
	return same_sin(x) / x * (0.54f + 0.46f * same_cos(x));
}

/* Keys (1981), a = -0.5. */
static double bicubic(double x)
{
	const double a = -0.5;

	x = fabs(x);
	if (x < 1.0)
		return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
	if (x < 2.0)
		return (((x - 5) * x + 8) * x - 4) * a;
	return 0.0;
}

static double sinc(double x)
{
	if (x == 0.0)
		return 1.0;
	x = x * M_PI;
	return same_sin(x) / x;
}

static double lanczos(double x)
{
	return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct kernel {
	double (*fn)(double x);
	double support;
} kernels[] = {
    [RESIZE_BOX] = {box, 0.5},         [RESIZE_BILINEAR] = {bilinear, 1.0}, [RESIZE_HAMMING] = {hamming, 1.0},
    [RESIZE_BICUBIC] = {bicubic, 2.0}, [RESIZE_LANCZOS] = {lanczos, 3.0},
};

/* One axis: output i is the sum over j < count[i] of input first[i] + j times weight[i * taps + j]. */
struct axis {
	int taps;
	int *first, *count;
	double *weight; /* (out, taps), normalised */
	int32_t *fixed; /* the same times 2^22, rounded away from zero at half */
};

static void axis_release(struct axis *a)
{
	mem_free(a->first);
	mem_free(a->count);
	mem_free(a->weight);
	mem_free(a->fixed);
	*a = (struct axis){0};
}

static void axis_fill(struct axis *a, int i, double center, double support, double stretch, int in, double (*fn)(double))
{
	double *w = a->weight + (size_t)i * a->taps, sum = 0.0;
	int lo = (int)(center - support + 0.5), hi = (int)(center + support + 0.5);

	lo = lo < 0 ? 0 : lo;
	hi = hi > in ? in : hi;
	a->first[i] = lo;
	a->count[i] = hi - lo;
	for (int j = 0; j < hi - lo; j++) {
		w[j] = fn((j + lo - center + 0.5) * stretch);
		sum += w[j];
	}
	for (int j = 0; j < hi - lo; j++) {
		if (sum != 0.0)
			w[j] /= sum;
		a->fixed[(size_t)i * a->taps + j] = (int32_t)((w[j] < 0 ? -0.5 : 0.5) + w[j] * (1 << BITS));
	}
}

static int axis_init(struct axis *a, int in, int out, enum resize_filter filter, struct err *e)
{
	double scale = (double)in / out, widen = scale < 1.0 ? 1.0 : scale;
	double support = kernels[filter].support * widen;

	*a = (struct axis){.taps = (int)ceil(support) * 2 + 1};
	a->first = mem_try(out, sizeof *a->first, "resampling", e);
	a->count = mem_try(out, sizeof *a->count, "resampling", e);
	a->weight = mem_try((size_t)out * a->taps, sizeof *a->weight, "resampling", e);
	a->fixed = mem_try((size_t)out * a->taps, sizeof *a->fixed, "resampling", e);
	if (!a->first || !a->count || !a->weight || !a->fixed) {
		axis_release(a);
		return -1;
	}
	for (int i = 0; i < out; i++)
		axis_fill(a, i, (i + 0.5) * scale, support, 1.0 / widen, in, kernels[filter].fn);
	return 0;
}

static inline uint8_t clip8(int32_t v)
{
	v >>= BITS;
	return v < 0 ? 0 : v > 255 ? 255 : v;
}

/* ROWS rows side by side, so that the sums run over the rows: tile (w, channels, ROWS) -> to (width, channels, ROWS). */
static void tile_sum(uint8_t *to, const uint8_t *tile, int width, int channels, const struct axis *a)
{
	for (int i = 0; i < width; i++) {
		const int32_t *k = a->fixed + (size_t)i * a->taps;

		for (int c = 0; c < channels; c++) {
			const uint8_t *p = tile + ((size_t)a->first[i] * channels + c) * ROWS;
			int32_t sum[ROWS];

			for (int r = 0; r < ROWS; r++)
				sum[r] = 1 << (BITS - 1);
			for (int j = 0; j < a->count[i]; j++, p += channels * ROWS)
				for (int r = 0; r < ROWS; r++)
					sum[r] += p[r] * k[j];
			for (int r = 0; r < ROWS; r++)
				*to++ = clip8(sum[r]);
		}
	}
}

typedef uint8_t bytes16 __attribute__((vector_size(ROWS)));

/* The first, or last, half of each of two vectors, a byte of one and a byte of the other. */
static inline bytes16 zip_low(bytes16 a, bytes16 b)
{
	return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline bytes16 zip_high(bytes16 a, bytes16 b)
{
	return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* ROWS x ROWS bytes: from rows `pitch` apart to rows `to_pitch` apart. Four times zipping row i with row i + 8. */
static inline void block_transpose(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t pitch)
{
	bytes16 v[ROWS], w[ROWS];

	for (int r = 0; r < ROWS; r++)
		memcpy(&v[r], from + r * pitch, ROWS);
#pragma GCC unroll 4
	for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
		for (int r = 0; r < ROWS / 2; r++) {
			w[2 * r] = zip_low(v[r], v[r + ROWS / 2]);
			w[2 * r + 1] = zip_high(v[r], v[r + ROWS / 2]);
		}
		memcpy(v, w, sizeof v);
	}
	for (int r = 0; r < ROWS; r++)
		memcpy(to + r * to_pitch, &v[r], ROWS);
}

/* rows x columns bytes, rows <= ROWS, into a tile (columns, ROWS). */
static void tile_fill(uint8_t *tile, const uint8_t *from, size_t columns, int rows)
{
	size_t i = 0;

	for (; rows == ROWS && i + ROWS <= columns; i += ROWS)
		block_transpose(tile + i * ROWS, ROWS, from + i, columns);
	for (; i < columns; i++)
		for (int r = 0; r < rows; r++)
			tile[i * ROWS + (size_t)r] = from[(size_t)r * columns + i];
}

static void tile_empty(uint8_t *to, const uint8_t *tile, size_t columns, int rows)
{
	size_t i = 0;

	for (; rows == ROWS && i + ROWS <= columns; i += ROWS)
		block_transpose(to + i, columns, tile + i * ROWS, ROWS);
	for (; i < columns; i++)
		for (int r = 0; r < rows; r++)
			to[(size_t)r * columns + i] = tile[i * ROWS + (size_t)r];
}

static int resize_rows(struct picture *out, const struct picture *in, int width, const struct axis *a, struct err *e)
{
	int c = in->channels, rc = -1;
	size_t from = (size_t)in->width * c, to = (size_t)width * c;
	uint8_t *tile = mem_try(from, ROWS, "resampling", e), *done = mem_try(to, ROWS, "resampling", e);

	if (!tile || !done || picture_alloc(out, width, in->height, c, e))
		goto end;
	for (int y = 0; y < in->height; y += ROWS) {
		int rows = in->height - y < ROWS ? in->height - y : ROWS;

		tile_fill(tile, in->pixels + y * from, from, rows);
		tile_sum(done, tile, width, c, a);
		tile_empty(out->pixels + y * to, done, to, rows);
	}
	rc = 0;
end:
	mem_free(tile);
	mem_free(done);
	return rc;
}

static int resize_columns(struct picture *out, const struct picture *in, int height, const struct axis *a, struct err *e)
{
	size_t stride = (size_t)in->width * in->channels;
	int32_t *sum = mem_try(stride, sizeof *sum, "resampling", e);

	if (!sum || picture_alloc(out, in->width, height, in->channels, e)) {
		mem_free(sum);
		return -1;
	}
	for (int y = 0; y < height; y++) {
		const uint8_t *p = in->pixels + a->first[y] * stride;
		uint8_t *to = out->pixels + y * stride;

		for (size_t i = 0; i < stride; i++)
			sum[i] = 1 << (BITS - 1);
		for (int j = 0; j < a->count[y]; j++, p += stride) {
			int32_t k = a->fixed[(size_t)y * a->taps + j];

			for (size_t i = 0; i < stride; i++)
				sum[i] += p[i] * k;
		}
		for (size_t i = 0; i < stride; i++)
			to[i] = clip8(sum[i]);
	}
	mem_free(sum);
	return 0;
}

/* im.crop((x, y, x + width, y + height)) of Pillow; the rectangle must lie inside. */
static int picture_crop(struct picture *out, const struct picture *in, int x, int y, int width, int height, struct err *e)
{
	size_t c = in->channels;

	assert(x >= 0 && y >= 0 && width > 0 && height > 0 && x <= in->width - width && y <= in->height - height);
	if (picture_alloc(out, width, height, in->channels, e))
		return -1;
	for (int r = 0; r < height; r++)
		memcpy(out->pixels + r * width * c, in->pixels + ((size_t)(y + r) * in->width + x) * c, width * c);
	return 0;
}

int picture_resize(struct picture *out, const struct picture *in, int width, int height, enum resize_filter filter, struct err *e)
{
	int alike = width == height && in->width == in->height, rc = -1;
	struct picture wide = {0};
	struct axis x = {0}, y = {0};

	assert(width > 0 && height > 0);
	if (width == in->width && height == in->height)
		return picture_crop(out, in, 0, 0, width, height, e);
	if ((width == in->width || !axis_init(&x, in->width, width, filter, e)) &&
	    (height == in->height || alike || !axis_init(&y, in->height, height, filter, e))) {
		const struct axis *down = alike ? &x : &y;

		if (width == in->width)
			rc = resize_columns(out, in, height, down, e);
		else if (height == in->height)
			rc = resize_rows(out, in, width, &x, e);
		else
			rc = resize_rows(&wide, in, width, &x, e) || resize_columns(out, &wide, height, down, e) ? -1 : 0;
	}
	picture_release(&wide);
	axis_release(&x);
	axis_release(&y);
	return rc;
}

/* One axis of a plane: `lines` independent lines of samples `step` apart, lines `pitch` apart. */
static void plane_axis(float *out, size_t out_step, size_t out_pitch, int n, const float *in, size_t step, size_t pitch, int lines,
                       const struct axis *a)
{
	for (int l = 0; l < lines; l++)
		for (int i = 0; i < n; i++) {
			const float *p = in + l * pitch + a->first[i] * step;
			double sum = 0.0;

			for (int j = 0; j < a->count[i]; j++)
				sum += p[j * step] * a->weight[(size_t)i * a->taps + j];
			out[l * out_pitch + i * out_step] = (float)sum;
		}
}

int plane_resize(float *out, int width, int height, const float *in, int w, int h, enum resize_filter filter, struct err *e)
{
	struct axis x, y;
	float *wide;

	if (axis_init(&x, w, width, filter, e))
		return -1;
	if (axis_init(&y, h, height, filter, e)) {
		axis_release(&x);
		return -1;
	}
	wide = mem_try((size_t)width * h, sizeof *wide, "resampling", e);
	if (wide) {
		if (width == w)
			memcpy(wide, in, (size_t)w * h * sizeof *in);
		else
			plane_axis(wide, 1, width, width, in, 1, w, h, &x);
		if (height == h)
			memcpy(out, wide, (size_t)width * h * sizeof *in);
		else
			plane_axis(out, width, 1, height, wide, width, 1, width, &y);
	}
	axis_release(&x);
	axis_release(&y);
	mem_free(wide);
	return wide ? 0 : -1;
}

/* Pillow divides by n with a 24-bit reciprocal that it computes in float. */
static uint8_t mean8(uint32_t sum, uint32_t n)
{
	uint32_t reciprocal = (uint32_t)(4294967296.0f / (float)(256 * n));

	return (sum + n / 2) * reciprocal >> 24;
}

int picture_reduce(struct picture *out, const struct picture *in, int fx, int fy, struct err *e)
{
	int c = in->channels;
	uint8_t *to;

	assert(fx >= 1 && fy >= 1);
	if (picture_alloc(out, (in->width + fx - 1) / fx, (in->height + fy - 1) / fy, c, e))
		return -1;
	to = out->pixels;
	for (int y = 0; y < out->height; y++)
		for (int x = 0; x < out->width; x++) {
			int w = in->width - x * fx < fx ? in->width - x * fx : fx;
			int h = in->height - y * fy < fy ? in->height - y * fy : fy;

			for (int k = 0; k < c; k++) {
				uint32_t sum = 0;

				for (int j = 0; j < h; j++)
					for (int i = 0; i < w; i++)
						sum += in->pixels[((size_t)(y * fy + j) * in->width + x * fx + i) * c + k];
				*to++ = mean8(sum, (uint32_t)w * h);
			}
		}
	return 0;
}

int picture_cover(struct picture *out, const struct picture *in, int width, int height, enum resize_filter filter, struct err *e)
{
	int64_t across = (int64_t)in->width * height, down = (int64_t)in->height * width;
	int w = across > down ? (int)((2 * down + height) / (2 * height)) : in->width;
	int h = across > down ? in->height : (int)((2 * across + width) / (2 * width));
	struct picture part;
	int rc;

	w = w > 1 ? w : 1;
	h = h > 1 ? h : 1;
	if (picture_crop(&part, in, (in->width - w) / 2, (in->height - h) / 2, w, h, e))
		return -1;
	rc = picture_resize(out, &part, width, height, filter, e);
	picture_release(&part);
	return rc;
}

int picture_square(struct picture *out, const struct picture *in, int size, enum resize_filter filter, struct err *e)
{
	return picture_cover(out, in, size, size, filter, e);
}

static int shorter(const struct picture *p)
{
	return p->width < p->height ? p->width : p->height;
}

/* Replace p by the resized picture. */
static int resize_in_place(struct picture *p, int width, int height, enum resize_filter filter, struct err *e)
{
	struct picture to;

	if (picture_resize(&to, p, width, height, filter, e))
		return -1;
	picture_release(p);
	*p = to;
	return 0;
}

int picture_square_adm(struct picture *out, const struct picture *in, int size, struct err *e)
{
	struct picture p;
	double scale;
	int rc = 0;

	if (picture_crop(&p, in, 0, 0, in->width, in->height, e))
		return -1;
	while (!rc && shorter(&p) / 2 >= size)
		rc = resize_in_place(&p, p.width / 2, p.height / 2, RESIZE_BOX, e);
	scale = (double)size / shorter(&p);
	if (!rc) /* Python's round(): half to even */
		rc = resize_in_place(&p, (int)rint(p.width * scale), (int)rint(p.height * scale), RESIZE_BICUBIC, e);
	if (!rc)
		rc = picture_crop(out, &p, (p.width - size) / 2, (p.height - size) / 2, size, size, e);
	picture_release(&p);
	return rc;
}
