/* file/contactsheet: positions of the pictures, enlargement, bands between rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "file/contactsheet.h"

/* A square picture of one value. */
static struct picture plain(int side, int channels, int value)
{
	struct picture p;
	struct err e = {0};

	assert_int_equal(picture_alloc(&p, side, side, channels, &e), 0);
	memset(p.pixels, value, (size_t)(side * side * channels));
	return p;
}

static void test_columns(void **state)
{
	(void)state;
	for (int64_t n = 1; n < 200; n++) {
		int64_t c = contactsheet_columns(n);

		assert_true((n + c - 1) / c <= c && (c == 1 || (n + c - 2) / (c - 1) > c - 1));
	}
}

/* Five pictures of 3 x 3: three columns, two rows, a gap of two. */
static void test_places(void **state)
{
	const struct contactsheet c = {.columns = contactsheet_columns(5), .side = 3, .channels = 1};
	struct picture sheet;
	struct err e = {0};

	(void)state;
	assert_int_equal(contactsheet_new(&sheet, &c, 2, 0, &e), 0);
	assert_true(sheet.width == 13 && sheet.height == 8 && sheet.channels == 1);
	for (int i = 0; i < 5; i++) {
		struct picture p = plain(3, 1, i + 1);

		contactsheet_put(&sheet, &c, i, 0, &p);
		picture_release(&p);
	}
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 13; x++) {
			int gap = x % 5 > 2 || y % 5 > 2, i = y / 5 * 3 + x / 5;

			assert_int_equal(sheet.pixels[y * 13 + x], gap || i > 4 ? 0 : i + 1);
		}
	picture_release(&sheet);
}

/* Grey and RGBA pictures of 2 x 2, enlarged twice, on an RGB sheet with a margin and a band above each row. */
static void test_enlarged(void **state)
{
	const struct contactsheet c = {.columns = 1, .side = 4, .margin = 3, .channels = 3, .paper = 255};
	struct picture sheet, grey = plain(2, 1, 7), rgba = plain(2, 4, 9);
	struct err e = {0};

	(void)state;
	grey.pixels[3] = 8;
	assert_int_equal(contactsheet_new(&sheet, &c, 2, 20, &e), 0);
	assert_true(sheet.width == contactsheet_width(&c) && sheet.height == contactsheet_height(&c, 2, 20));
	assert_true(sheet.width == 10 && sheet.height == 36 && sheet.channels == 3);
	contactsheet_put(&sheet, &c, 0, 10, &grey);
	contactsheet_put(&sheet, &c, 1, 20, &rgba);
	for (int y = 0; y < 36; y++)
		for (int x = 0; x < 30; x++) {
			int column = x / 3 - 3, first = y - 13, second = y - 29, want = 255;

			if (column >= 0 && column < 4 && first >= 0 && first < 4)
				want = column >= 2 && first >= 2 ? 8 : 7;
			if (column >= 0 && column < 4 && second >= 0 && second < 4)
				want = 9;
			assert_int_equal(sheet.pixels[y * 30 + x], want);
		}
	picture_release(&grey);
	picture_release(&rgba);
	picture_release(&sheet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns), cmocka_unit_test(test_places), cmocka_unit_test(test_enlarged)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
