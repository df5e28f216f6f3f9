/* file/yuv: planes of video resized to RGB, against the formulas of BT.601 and BT.709 in double, and against resizing RGB. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "file/yuv.h"
#include "tests/unit/moving.h"

/* libswscale's coefficients (sws_getCoefficients) and the constants of red and blue that they come from. */
static const struct matrix {
	int32_t m[4];
	double kr, kb;
} bt601 = {{104597, 132201, 25675, 53279}, .299, .114}, bt709 = {{117489, 138438, 13975, 34925}, .2126, .0722};

/* RGB of a pixel, not rounded. */
static void convert(double rgb[3], int y, int u, int v, int full, const struct matrix *m)
{
	double l = full ? y : (y - 16) * 255. / 219, pb = (u - 128) / (full ? 255. : 224.) * 255, pr = (v - 128) / (full ? 255. : 224.) * 255;

	rgb[0] = l + 2 * (1 - m->kr) * pr;
	rgb[2] = l + 2 * (1 - m->kb) * pb;
	rgb[1] = (l - m->kr * rgb[0] - m->kb * rgb[2]) / (1 - m->kr - m->kb);
	for (int i = 0; i < 3; i++)
		rgb[i] = rgb[i] < 0 ? 0 : rgb[i] > 255 ? 255 : rgb[i];
}

static struct yuv yuv_make(uint8_t *bytes, int width, int height, int sx, int sy, int full, const struct matrix *m)
{
	struct yuv p = {.width = width, .height = height, .shift_x = sx, .shift_y = sy, .full = full};
	uint64_t all = yuv_bytes(width, height, sx, sy), luma = (uint64_t)width * (uint64_t)height;

	memcpy(p.matrix, m->m, sizeof p.matrix);
	p.plane[0] = bytes;
	p.plane[1] = bytes + luma;
	p.plane[2] = bytes + luma + (all - luma) / 2;
	return p;
}

/* A picture of one colour keeps it, for all levels of the three planes. The coefficients have 16 bits and the luma's 255 / 219 is rounded down to
 * 1/65536, so a level may be off by 255 / 65536, and the rounding by one. */
static void test_colours(void **state)
{
	(void)state;
	for (int full = 0; full < 2; full++)
		for (int k = 0; k < 2; k++)
			for (int y = 0; y < 256; y += 15)
				for (int u = 0; u < 256; u += 17)
					for (int v = 0; v < 256; v += 17) {
						const struct matrix *m = k ? &bt709 : &bt601;
						uint8_t bytes[6 * 4 + 2 * 3 * 2];
						struct yuv p = yuv_make(bytes, 6, 4, 1, 1, full, m);
						struct picture out;
						struct err e = {0};
						double want[3];

						memset(bytes, y, 24);
						memset(bytes + 24, u, 6);
						memset(bytes + 30, v, 6);
						assert_int_equal(yuv_square(&out, &p, 0, 0, 6, 4, 2, RESIZE_LANCZOS, &e), 0);
						convert(want, y, u, v, full, m);
						for (int c = 0; c < 12; c++)
							assert_true(fabs(out.pixels[c] - want[c % 3]) < .5 + .02);
						picture_release(&out);
					}
}

/* Without smaller chroma, resizing planes and resizing RGB differ by rounding alone, if no colour is clipped. */
static void test_order(void **state)
{
	enum { W = 40, H = 26, N = 9 };
	uint8_t bytes[3 * W * H];
	struct yuv p = yuv_make(bytes, W, H, 0, 0, 1, &bt709);
	struct picture out, rgb, want;
	struct err e = {0};

	(void)state;
	for (uint32_t i = 0; i < 3 * W * H; i++)
		bytes[i] = (uint8_t)(112 + moving_mix(i, 1, 2, 3) % 32);
	assert_int_equal(picture_alloc(&rgb, W, H, 3, &e), 0);
	for (int i = 0; i < W * H; i++) {
		double d[3];

		convert(d, bytes[i], bytes[W * H + i], bytes[2 * W * H + i], 1, &bt709);
		for (int c = 0; c < 3; c++)
			rgb.pixels[3 * i + c] = (uint8_t)lround(d[c]);
	}
	assert_int_equal(yuv_square(&out, &p, 0, 0, W, H, N, RESIZE_BICUBIC, &e), 0);
	assert_int_equal(picture_square(&want, &rgb, N, RESIZE_BICUBIC, &e), 0);
	/* Half a level of Y, U and V each, times 1 + 1.86, and half a level of rounding twice. */
	for (int i = 0; i < N * N * 3; i++)
		assert_true(abs(out.pixels[i] - want.pixels[i]) <= 2);
	picture_release(&out);
	picture_release(&rgb);
	picture_release(&want);
}

/* The square is the middle of the rectangle, on whole chroma pixels; odd sizes and the smallest ones. */
static void test_place(void **state)
{
	static const struct {
		int w, h, sx, sy, x, y, rw, rh, left, top, side;
	} cases[] = {{20, 12, 1, 1, 0, 0, 20, 12, 4, 0, 12}, {21, 13, 1, 1, 0, 0, 21, 13, 4, 0, 12}, {20, 12, 1, 1, 3, 1, 9, 11, 2, 2, 8},
	             {20, 12, 1, 0, 0, 0, 20, 11, 4, 0, 10}, {7, 9, 0, 0, 0, 0, 7, 9, 0, 1, 7},      {1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1},
	             {2, 3, 1, 1, 0, 2, 2, 1, 0, 2, 1}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		int w = cases[k].w, h = cases[k].h, side = cases[k].side;
		uint64_t n = yuv_bytes(w, h, cases[k].sx, cases[k].sy);
		uint8_t *bytes = mem_alloc(n);
		struct yuv p = yuv_make(bytes, w, h, cases[k].sx, cases[k].sy, 1, &bt601);
		struct picture out;
		struct err e = {0};

		memset(bytes, 128, n);
		for (int i = 0; i < w * h; i++)
			bytes[i] = (uint8_t)(i * 7);
		/* At its own size nothing is resized: grey is the luma. */
		assert_int_equal(yuv_square(&out, &p, cases[k].x, cases[k].y, cases[k].rw, cases[k].rh, side, RESIZE_BOX, &e), 0);
		for (int y = 0; y < side; y++)
			for (int x = 0; x < side; x++)
				for (int c = 0; c < 3; c++)
					assert_int_equal(out.pixels[(y * side + x) * 3 + c],
					                 (uint8_t)(((cases[k].top + y) * w + cases[k].left + x) * 7));
		picture_release(&out);
		mem_free(bytes);
	}
}

/* Every picked pixel is that in the middle of its part of the frame, by the conversion of one pixel, whatever the padding of the rows. */
static void test_pick(void **state)
{
	enum { W = 131, H = 37, PITCH = 160 };
	static uint8_t plane[3][H * PITCH], out[3 * W * H];

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < H * PITCH; k++)
			plane[i][k] = (uint8_t)((k * (31 + 8 * i) + k / 7) % 256);
	for (int sx = 0; sx < 2; sx++)
		for (int sy = 0; sy < 2; sy++)
			for (int w = 1; w <= W; w += 26)
				for (int h = 1; h <= H; h += 9) {
					struct yuv p = {.width = W, .height = H, .shift_x = sx, .shift_y = sy};

					memcpy(p.matrix, bt709.m, sizeof p.matrix);
					yuv_pick(out, w, h, &p, (const uint8_t *const[]){plane[0], plane[1], plane[2]},
					         (const int[]){PITCH, PITCH, PITCH});
					for (int y = 0; y < h; y++)
						for (int x = 0; x < w; x++) {
							int px = (int)floor((x + .5) * W / w), py = (int)floor((y + .5) * H / h);
							int chroma = (py >> sy) * PITCH + (px >> sx);
							uint8_t want[3];

							yuv_rgb(want, &plane[0][py * PITCH + px], &plane[1][chroma], &plane[2][chroma], 1, &p);
							assert_memory_equal(out + 3 * (y * w + x), want, 3);
						}
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pick), cmocka_unit_test(test_colours), cmocka_unit_test(test_order),
	                                   cmocka_unit_test(test_place)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
