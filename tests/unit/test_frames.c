/* file/frames: which arrays are clips, and where the numbers of a frame go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "file/frames.h"

static void refused(void **state)
{
	static const struct {
		struct npy a;
		int is; /* clip_is */
		const char *says;
	} cases[] = {
	    {{.type = NPY_U1, .rank = 3, .shape = {8, 3, 16}}, 0, "3 dimensions"},
	    {{.type = NPY_F2, .rank = 4, .shape = {8, 3, 16, 16}}, 0, "<f2"},
	    {{.type = NPY_U1, .rank = 4, .shape = {8, 4, 16, 16}}, 1, "shape (8, 4, 16, 16)"},
	    {{.type = NPY_U1, .rank = 4, .shape = {0, 3, 16, 16}}, 1, "shape (0, 3, 16, 16)"},
	    {{.type = NPY_U1, .rank = 4, .shape = {(1 << 20) + 1, 3, 1, 1}}, 1, "shape (1048577, 3, 1, 1)"},
	    {{.type = NPY_U1, .rank = 4, .shape = {8, 3, 0, 16}}, 1, "shape (8, 3, 0, 16)"},
	    {{.type = NPY_U1, .rank = 4, .shape = {8, 3, 16, (1 << 15) + 1}}, 1, "shape (8, 3, 16, 32769)"},
	    {{.type = NPY_U1, .rank = 4, .shape = {8, 3, 16, 16}, .fortran = 1}, 1, "column-major"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err e = {0};
		struct clip c;

		assert_int_equal(clip_is(&cases[i].a), cases[i].is);
		assert_int_equal(clip_of(&c, &cases[i].a, "here", &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		assert_int_equal(strncmp(e.msg, "here: ", 6), 0);
		assert_non_null(strstr(e.msg, cases[i].says));
	}
}

/* Frame 1 of two, of 2 x 3 pixels, in colour and in grey. */
static void pixels(void **state)
{
	enum { F = 2, H = 2, W = 3 };
	uint8_t bytes[F * 3 * H * W];

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(7 * i);
	for (int channels = 1; channels <= 3; channels += 2) {
		struct npy a = {.type = NPY_U1, .rank = 4, .shape = {F, channels, H, W}, .data = bytes};
		struct clip c;

		assert_true(clip_is(&a));
		assert_int_equal(clip_of(&c, &a, "", NULL), 0);
		assert_int_equal(c.frames, F);
		assert_int_equal(c.channels, channels);
		assert_int_equal(c.height, H);
		assert_int_equal(c.width, W);
		for (int wanted = channels; wanted <= 3; wanted += 2) {
			struct picture p;

			assert_int_equal(clip_frame(&p, &c, 1, wanted, NULL), 0);
			assert_true(p.width == W && p.height == H && p.channels == wanted);
			for (int y = 0; y < H; y++)
				for (int x = 0; x < W; x++)
					for (int k = 0; k < wanted; k++)
						assert_int_equal(p.pixels[(y * W + x) * wanted + k],
						                 bytes[((channels + (channels == 3 ? k : 0)) * H + y) * W + x]);
			picture_release(&p);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(pixels)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
