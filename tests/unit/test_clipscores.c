/* data/clipscores and data/letterbox: OpenCV's values (tests/golden/scene_values.py), and pictures whose scores are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/clipscores.h"
#include "data/letterbox.h"
#include "tests/golden/scene_values.h"
#include "tests/unit/moving.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* Noise of all levels, (height, width, 3), as scene_values.py makes it. */
static struct picture noise_of(int width, int height, uint32_t seed)
{
	struct picture p;
	struct err e = {0};

	assert_int_equal(picture_alloc(&p, width, height, 3, &e), 0);
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			for (int c = 0; c < 3; c++)
				p.pixels[(y * width + x) * 3 + c] = (uint8_t)(moving_mix((uint32_t)x, (uint32_t)y, (uint32_t)c, seed) >> 24);
	return p;
}

/* Draw `from`, shifted right and down; what comes in is taken from the other side. */
static struct picture shifted(const struct picture *from, int dx, int dy)
{
	struct picture p;
	struct err e = {0};

	assert_int_equal(picture_alloc(&p, from->width, from->height, 3, &e), 0);
	for (int y = 0; y < p.height; y++)
		for (int x = 0; x < p.width; x++)
			memcpy(p.pixels + (y * p.width + x) * 3,
			       from->pixels + (((y - dy + 4 * p.height) % p.height) * p.width + (x - dx + 4 * p.width) % p.width) * 3, 3);
	return p;
}

static void fill(struct picture *p, int x0, int y0, int x1, int y1, int level)
{
	for (int y = y0; y < y1; y++)
		memset(p->pixels + ((size_t)y * p->width + x0) * 3, level, (size_t)(x1 - x0) * 3);
}

static struct picture flat(int width, int height, int level)
{
	struct picture p;
	struct err e = {0};

	assert_int_equal(picture_alloc(&p, width, height, 3, &e), 0);
	fill(&p, 0, 0, width, height, level);
	return p;
}

static struct clip_scores scores_of(struct picture *frames, int n)
{
	const struct picture *pointers[8];
	struct clip_scores s;
	struct err e = {0};

	for (int i = 0; i < n; i++)
		pointers[i] = &frames[i];
	assert_int_equal(clip_scores(&s, pointers, n, &e), 0);
	for (int i = 0; i < n; i++)
		picture_release(&frames[i]);
	return s;
}

static void test_grey(void **state)
{
	int64_t sum = 0, n = 0;

	(void)state;
	for (int r = 0; r < 256; r += 5)
		for (int g = 0; g < 256; g += 5)
			for (int b = 0; b < 256; b += 5) {
				uint8_t rgb[3] = {(uint8_t)r, (uint8_t)g, (uint8_t)b}, grey;

				grey_of_rgb(&grey, rgb, 1);
				sum += grey * (++n % 251);
			}
	assert_int_equal(sum, golden_grey_sum[0]);
}

static void test_sharpness(void **state)
{
	int sizes[][2] = {{40, 24}, {7, 5}, {1, 6}, {2, 2}, {33, 1}};

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct picture p = noise_of(sizes[i][0], sizes[i][1], (uint32_t)(sizes[i][0] * 100 + sizes[i][1]));

		/* A variance of up to 5e4 from sums of squares: 1e-9 is a few units of the last place. */
		assert_near(scores_of(&p, 1).sharp, golden_sharp[i], 1e-9 * golden_sharp[i]);
	}
}

/* A blurred picture is less sharp; a flat one not at all. */
static void test_blur(void **state)
{
	struct picture p = noise_of(32, 32, 1), blurred = shifted(&p, 0, 0), grey = flat(32, 32, 77);
	double sharp;

	(void)state;
	for (int i = 3; i < 32 * 32 * 3; i++)
		blurred.pixels[i] = (uint8_t)((p.pixels[i] + p.pixels[i - 3]) / 2);
	sharp = scores_of(&p, 1).sharp;
	assert_true(scores_of(&blurred, 1).sharp < .7 * sharp);
	assert_true(scores_of(&grey, 1).sharp == 0);
}

static void test_light(void **state)
{
	struct picture p = flat(40, 20, 51), half = flat(40, 20, 0);
	struct clip_scores s = scores_of(&p, 1);

	(void)state;
	assert_near(s.exposure, .2, 1e-12);
	assert_near(s.contrast, 0, 1e-12);
	fill(&half, 0, 0, 20, 20, 255);
	s = scores_of(&half, 1);
	assert_near(s.exposure, .5, 1e-12);
	assert_near(s.contrast, .5, 1e-12);
	assert_true(s.black == 0 && s.frozen == 0 && s.motion == 0);
}

/* FFmpeg's criteria: 98% of the pixels at a tenth of white or below; a mean difference of at most .001 of 256 to the first frame of the freeze. */
static void test_black_and_frozen(void **state)
{
	struct picture black[4], still[5];
	struct clip_scores s;

	(void)state;
	for (int i = 0; i < 4; i++)
		black[i] = flat(50, 20, i == 0 ? 26 : 25);
	fill(&black[2], 0, 0, 20, 1, 255); /* 2% */
	fill(&black[3], 0, 0, 21, 1, 255);
	assert_near(scores_of(black, 4).black, .5, 0);
	for (int i = 0; i < 5; i++)
		still[i] = flat(50, 20, 100);
	fill(&still[1], 0, 0, 1, 1, 255); /* .155 of 256 * 1000 pixels */
	fill(&still[2], 0, 0, 2, 1, 255); /* .31: a change */
	fill(&still[3], 0, 0, 2, 1, 255);
	fill(&still[4], 0, 0, 2, 1, 255);
	s = scores_of(still, 5);
	assert_near(s.frozen, .75, 0);
}

/* The motion of a moving picture is its shift, also when it is halved first. */
static void test_shift(void **state)
{
	struct {
		int side, dx, dy;
	} moves[] = {{64, 3, 0}, {64, 0, -5}, {64, -7, 7}, {100, 4, -2}, {256, 8, -12}, {512, 16, 48}, {24, 2, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
		int side = moves[i].side, step = side >= 512 ? 8 : side >= 256 ? 4 : 1;
		struct picture frames[3], small = noise_of(side / step, side / step, 5);
		struct clip_scores s;

		/* Cells as large as the pictures are reduced, so that nothing is lost by that. */
		frames[0] = flat(side, side, 0);
		for (int y = 0; y < side; y++)
			for (int x = 0; x < side; x++)
				memcpy(frames[0].pixels + (y * side + x) * 3, small.pixels + ((y / step) * small.width + x / step) * 3, 3);
		picture_release(&small);
		frames[1] = shifted(&frames[0], moves[i].dx, moves[i].dy);
		frames[2] = shifted(&frames[1], moves[i].dx, moves[i].dy);
		s = scores_of(frames, 3);
		assert_near(s.motion, hypot(moves[i].dx, moves[i].dy) / (2 * side), 1e-12);
		assert_near(s.motion_x, (double)moves[i].dx / side, 1e-12);
		assert_near(s.motion_y, (double)moves[i].dy / side, 1e-12);
		assert_near(s.moving, 1, 0);
		assert_near(s.frozen, 0, 0);
	}
}

/* Noise on a wall is no motion. If an eighth of the picture moves, that share of the blocks does, and there and back cancel in the signed mean. */
static void test_part(void **state)
{
	struct picture frames[4];
	struct clip_scores s;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct picture noise = noise_of(64, 64, 10 + (uint32_t)i);

		frames[i] = flat(64, 64, 120);
		for (int k = 0; k < 64 * 64 * 3; k++)
			frames[i].pixels[k] = (uint8_t)(frames[i].pixels[k] + noise.pixels[k] % 7);
		picture_release(&noise);
	}
	s = scores_of(frames, 4);
	assert_true(s.motion == 0 && s.moving == 0 && s.frozen == 0);
	for (int i = 0; i < 3; i++) {
		struct picture noise = noise_of(64, 64, 77), move = shifted(&noise, i == 1 ? 2 : 0, 0);

		frames[i] = flat(64, 64, 120);
		memcpy(frames[i].pixels + 23 * 64 * 3, move.pixels + 23 * 64 * 3, 8 * 64 * 3);
		picture_release(&noise);
		picture_release(&move);
	}
	s = scores_of(frames, 3);
	assert_near(s.moving, 1. / 6, 1e-12); /* one of the six rows of blocks */
	assert_near(s.motion, 2. / 6 / 128, 1e-12);
	assert_near(s.motion_x, 0, 1e-12);
}

static void check_box(const struct letterbox *b, int x, int y, int w, int h)
{
	int at[4];

	letterbox_content(b, &at[0], &at[1], &at[2], &at[3]);
	assert_true(at[0] == x && at[1] == y && at[2] == w && at[3] == h);
}

static void test_letterbox(void **state)
{
	struct letterbox b = {0};
	struct err e = {0};
	struct picture p = flat(64, 48, 9), big = flat(30, 30, 200);

	(void)state;
	letterbox_add(&b, &p, 0); /* all black: no bars are known */
	check_box(&b, 0, 0, 64, 48);
	fill(&p, 10, 12, 20, 14, 200); /* little content: dark, not barred */
	letterbox_add(&b, &p, 0);
	check_box(&b, 0, 0, 64, 48);
	fill(&p, 2, 6, 63, 40, 10); /* above the limit of 9.3 only by its mean over a line: too little in the columns */
	fill(&p, 2, 6, 63, 40, 90);
	letterbox_add(&b, &p, 0);
	check_box(&b, 2, 6, 61, 34);
	fill(&p, 0, 0, 64, 48, 0); /* the box never shrinks */
	letterbox_add(&b, &p, 0);
	check_box(&b, 2, 6, 61, 34);
	fill(&p, 0, 3, 64, 4, 200);
	letterbox_add(&b, &p, 0); /* a line more above; a column needs a mean of 9.3 too, and gets 4.2 */
	check_box(&b, 2, 3, 61, 37);
	letterbox_add(&b, &big, 0); /* another size starts anew */
	check_box(&b, 0, 0, 30, 30);
	picture_release(&p);
	picture_release(&big);
	assert_int_equal(picture_alloc(&p, 20, 10, 1, &e), 0); /* luma of video: 24 is black, 25 is not */
	memset(p.pixels, 24, 200);
	memset(p.pixels + 40, 25, 140);
	b = (struct letterbox){0};
	letterbox_add(&b, &p, 1);
	check_box(&b, 0, 2, 20, 7);
	b = (struct letterbox){0};
	letterbox_add(&b, &p, 0);
	check_box(&b, 0, 0, 20, 10);
	picture_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_grey),  cmocka_unit_test(test_sharpness),        cmocka_unit_test(test_blur),
	    cmocka_unit_test(test_light), cmocka_unit_test(test_black_and_frozen), cmocka_unit_test(test_shift),
	    cmocka_unit_test(test_part),  cmocka_unit_test(test_letterbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
