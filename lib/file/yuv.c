/* Resizes pictures of luma and chroma, and converts them to RGB. */
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

static uint8_t clipped(int64_t v)
{
	v = (v + (1 << 15)) >> 16;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* out = RGB of three planes of its size. */
static void rgb_of(struct picture *out, struct picture plane[3], const struct yuv *in)
{
	int64_t luma = in->full ? 65536 : 65536 * 255 / 219, m[4];
	int black = in->full ? 0 : 16;
	size_t pixels = (size_t)out->width * (size_t)out->height;

	for (int i = 0; i < 4; i++)
		m[i] = in->full ? (int64_t)in->matrix[i] * 224 / 255 : in->matrix[i];
	for (size_t i = 0; i < pixels; i++) {
		int64_t y = (plane[0].pixels[i] - black) * luma, u = plane[1].pixels[i] - 128, v = plane[2].pixels[i] - 128;

		out->pixels[3 * i] = clipped(y + m[0] * v);
		out->pixels[3 * i + 1] = clipped(y - m[2] * u - m[3] * v);
		out->pixels[3 * i + 2] = clipped(y + m[1] * u);
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
		rgb_of(out, plane, in);
	for (int i = 0; i < 3; i++)
		picture_release(&plane[i]);
	return rc;
}
