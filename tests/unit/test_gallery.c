/* diffusion/gallery: numbers to pixels and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "diffusion/gallery.h"

static void every_pixel_comes_back(void **state)
{
	float x[256];
	struct picture p;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 256; i++)
		x[i] = (float)i / 127.5f - 1;
	assert_int_equal(gallery_picture(&p, x, 1, 16, 16, "a", &e), 0);
	assert_true(p.width == 16 && p.height == 16 && p.channels == 1);
	for (int i = 0; i < 256; i++)
		assert_int_equal(p.pixels[i], i);
	picture_release(&p);
}

static void rounding_and_clamping(void **state)
{
	/* Planes of red, green and blue, each 2 x 2; interleaved in the picture. */
	const float x[12] = {-1, 1, 0, -3, 7, .5f, -.5f, .003f, -.9999f, .9999f, -1.001f, 1.001f};
	const uint8_t want[12] = {0, 255, 0, 255, 191, 255, 128, 64, 0, 0, 128, 255};
	struct picture p;
	struct err e = {0};

	(void)state;
	assert_int_equal(gallery_picture(&p, x, 3, 2, 2, "a", &e), 0);
	assert_memory_equal(p.pixels, want, sizeof want);
	picture_release(&p);
}

static void there_and_back(void **state)
{
	/* Two rows of three pixels. */
	const uint8_t pixels[18] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 255, 254, 253, 252, 251, 250, 127, 128, 129};
	struct picture p = {3, 2, 3, (uint8_t *)(uintptr_t)pixels}, q;
	struct err e = {0};
	float x[18];

	(void)state;
	gallery_numbers(x, &p, 0);
	assert_true(x[0] == -1 && x[3] == 1 && x[6] == 1 / 127.5f - 1);
	assert_int_equal(gallery_picture(&q, x, 3, 2, 3, "a", &e), 0);
	assert_true(q.width == 3 && q.height == 2 && q.channels == 3);
	assert_memory_equal(q.pixels, pixels, sizeof pixels);
	picture_release(&q);
	gallery_numbers(x, &p, 1);
	assert_int_equal(gallery_picture(&q, x, 3, 2, 3, "a", &e), 0);
	for (int row = 0; row < 2; row++)
		for (int i = 0; i < 3; i++)
			assert_memory_equal(q.pixels + 9 * row + 3 * i, pixels + 9 * row + 3 * (2 - i), 3);
	picture_release(&q);
}

static void not_finite(void **state)
{
	const float bad[][1] = {{NAN}, {INFINITY}, {-INFINITY}};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct picture p;
		struct err e = {0};

		assert_int_equal(gallery_picture(&p, bad[i], 1, 1, 1, "picture 7", &e), -1);
		assert_int_equal(e.code, ERR_FAIL);
		assert_string_equal(e.msg, "picture 7: not finite");
		assert_null(p.pixels);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_pixel_comes_back),
	    cmocka_unit_test(rounding_and_clamping),
	    cmocka_unit_test(there_and_back),
	    cmocka_unit_test(not_finite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
