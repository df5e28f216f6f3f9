/* Resizes pictures of luma and chroma, and converts them to RGB. */
#include <stddef.h>
#include <string.h>

#include "file/yuv.h"

static int chroma_side(int side, int shift)
{
	return (int)(((int64_t)side + (1 << shift) - 1) >> shift);
}

uint64_t yuv_bytes(int width, int height, int shift_x, int shift_y)
{
	return (uint64_t)width * (uint64_t)height + 2 * (uint64_t)chroma_side(width, shift_x) * (uint64_t)chroma_side(height, shift_y);
}

/* The square of side `side` at (x, y) of a plane, resized. */
static int plane_square(struct picture *out, const uint8_t *plane, int width, int x, int y, int w, int h, int size, enum resize_filter f,
                        struct err *e)
{
	struct picture part;
	int rc;

	if (picture_alloc(&part, w, h, 1, e))
		return -1;
	for (int row = 0; row < h; row++)
		memcpy(part.pixels + (size_t)row * (size_t)w, plane + (size_t)(y + row) * (size_t)width + x, (size_t)w);
	rc = picture_resize(out, &part, size, size, f, e);
	picture_release(&part);
	return rc;
}

static uint8_t clipped(int32_t v)
{
	v = (v + (1 << 15)) >> 16;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* The sums are below 2^27. */
void yuv_rgb(uint8_t *rgb, const uint8_t *y, const uint8_t *u, const uint8_t *v, size_t n, const struct yuv *in)
{
	int32_t luma = in->full ? 65536 : 65536 * 255 / 219, m[4];
	int black = in->full ? 0 : 16;

	for (int i = 0; i < 4; i++)
		m[i] = (int32_t)(in->full ? (int64_t)in->matrix[i] * 224 / 255 : in->matrix[i]);
	for (size_t i = 0; i < n; i++) {
		int32_t l = (y[i] - black) * luma, a = u[i] - 128, b = v[i] - 128;

		rgb[3 * i] = clipped(l + m[0] * b);
		rgb[3 * i + 1] = clipped(l - m[2] * a - m[3] * b);
		rgb[3 * i + 2] = clipped(l + m[1] * a);
	}
}

/* The pixel nearest to the middle of pixel i of n, which divide `side` pixels evenly. */
static int picked(int i, int n, int side)
{
	return (int)((2 * (int64_t)i + 1) * side / (2 * (int64_t)n));
}

void yuv_pick(uint8_t *out, int width, int height, const struct yuv *in, const uint8_t *const plane[3], const int pitch[3])
{
	enum { RUN = 256 };
	uint8_t run[3][RUN];
	int x[RUN], of_chroma[RUN];

	for (int first = 0; first < width; first += RUN) {
		int n = width - first < RUN ? width - first : RUN;

		for (int k = 0; k < n; k++) {
			x[k] = picked(first + k, width, in->width);
			of_chroma[k] = x[k] >> in->shift_x;
		}
		for (int row = 0; row < height; row++) {
			int at = picked(row, height, in->height);
			const uint8_t *y = plane[0] + (ptrdiff_t)at * pitch[0], *u = plane[1] + (ptrdiff_t)(at >> in->shift_y) * pitch[1];
			const uint8_t *v = plane[2] + (ptrdiff_t)(at >> in->shift_y) * pitch[2];

			for (int k = 0; k < n; k++) {
				run[0][k] = y[x[k]];
				run[1][k] = u[of_chroma[k]];
				run[2][k] = v[of_chroma[k]];
			}
			yuv_rgb(out + 3 * ((ptrdiff_t)row * width + first), run[0], run[1], run[2], (size_t)n, in);
		}
	}
}

int yuv_square(struct picture *out, const struct yuv *in, int x, int y, int w, int h, int size, enum resize_filter filter, struct err *e)
{
	int sx = in->shift_x, sy = in->shift_y, most = sx > sy ? sx : sy, side = w < h ? w : h;
	struct picture plane[3] = {{0}};
	int rc = 0;

	if (side >= 1 << most)
		side = side >> most << most;
	x = (x + (w - side) / 2) >> sx << sx;
	y = (y + (h - side) / 2) >> sy << sy;
	for (int i = 0; i < 3 && !rc; i++) {
		int px = i ? sx : 0, py = i ? sy : 0;

		rc = plane_square(&plane[i], in->plane[i], chroma_side(in->width, px), x >> px, y >> py, chroma_side(side, px), chroma_side(side, py),
		                  size, filter, e);
	}
	if (!rc && !(rc = picture_alloc(out, size, size, 3, e)))
		yuv_rgb(out->pixels, plane[0].pixels, plane[1].pixels, plane[2].pixels, (size_t)size * (size_t)size, in);
	for (int i = 0; i < 3; i++)
		picture_release(&plane[i]);
	return rc;
}
