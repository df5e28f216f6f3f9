/* data/sizebuckets: parsing, and the choice of a bucket, by hand and by the definition for many sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/sizebuckets.h"
#include "file/resize.h"

static void parses(void **state)
{
	static const char *const bad[] = {"", ",", "64,", "64x", "x64", "64x48x3", "0", "64x0", "-4", "6 4", "16385", "64,64x64", "64x48,64x48"};
	char many[400] = "";
	struct buckets b;
	char text[BUCKET_TEXT];

	(void)state;
	assert_int_equal(buckets_parse("64x48,32,48x64", &b, NULL), 0);
	assert_int_equal(b.n, 3);
	assert_string_equal(bucket_text(b.v[0], text), "64x48");
	assert_string_equal(bucket_text(b.v[1], text), "32x32");
	assert_string_equal(bucket_text(b.v[2], text), "48x64");
	assert_string_equal(bucket_text(bucket_largest(&b), text), "64x48");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = {0};

		assert_int_equal(buckets_parse(bad[i], &b, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	for (int i = 0; i <= BUCKETS_MOST; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), "%s%d", i ? "," : "", i + 1);
	assert_int_equal(buckets_parse(many, &b, &(struct err){0}), -1);
	*strrchr(many, ',') = 0;
	assert_int_equal(buckets_parse(many, &b, NULL), 0);
	assert_int_equal(b.n, BUCKETS_MOST);
}

static void chooses(const struct buckets *b, int w, int h, const char *want)
{
	char text[BUCKET_TEXT];

	assert_string_equal(bucket_text(bucket_for(b, w, h), text), want);
}

static void by_hand(void **state)
{
	struct buckets b;

	(void)state;
	assert_int_equal(buckets_parse("32,64,128,128x64,64x128,64x32", &b, NULL), 0);
	chooses(&b, 500, 500, "128x128");
	chooses(&b, 100, 100, "64x64");
	chooses(&b, 100, 90, "64x64");
	chooses(&b, 8, 8, "32x32"); /* the smallest, where all would enlarge it */
	chooses(&b, 300, 150, "128x64");
	chooses(&b, 100, 50, "64x32"); /* 128x64 would enlarge it */
	chooses(&b, 150, 300, "64x128");
	chooses(&b, 1000, 1, "64x32");
	chooses(&b, 141, 100, "64x64"); /* the ratio's logarithm is nearer to 1 up to the square root of 2 */
	chooses(&b, 142, 100, "128x64");
}

/* No other bucket is nearer in ratio, and of those with its ratio none is better by the rule. */
static void by_definition(void **state)
{
	struct buckets b;

	(void)state;
	assert_int_equal(buckets_parse("17,90x30,30x90,60x20,64,40x50,80x100,33x44", &b, NULL), 0);
	for (int w = 1; w < 200; w += 7)
		for (int h = 1; h < 200; h += 5) {
			struct bucket got = bucket_for(&b, w, h);
			double off = fabs(log((double)got.width / got.height) - log((double)w / h));

			for (int i = 0; i < b.n; i++) {
				struct bucket v = b.v[i];
				int small = v.width <= w && v.height <= h, ours = got.width <= w && got.height <= h;

				assert_true(off < fabs(log((double)v.width / v.height) - log((double)w / h)) + 1e-12);
				if ((int64_t)v.width * got.height == (int64_t)got.width * v.height)
					assert_false((small && !ours) || (small == ours && small && v.width > got.width) ||
					             (small == ours && !small && v.width < got.width));
			}
		}
}

/* Every pixel says its column: the crop is centred, and what is left has the ratio of the result. */
static void cover(void **state)
{
	struct picture in, out;

	(void)state;
	assert_int_equal(picture_alloc(&in, 200, 40, 1, NULL), 0);
	for (int y = 0; y < 40; y++)
		for (int x = 0; x < 200; x++)
			in.pixels[y * 200 + x] = (uint8_t)x;
	assert_int_equal(picture_cover(&out, &in, 80, 40, RESIZE_BOX, NULL), 0);
	assert_int_equal(out.width, 80);
	assert_int_equal(out.height, 40);
	for (int y = 0; y < 40; y++)
		for (int x = 0; x < 80; x++)
			assert_int_equal(out.pixels[y * 80 + x], x + 60);
	picture_release(&out);
	assert_int_equal(picture_cover(&out, &in, 2, 40, RESIZE_BOX, NULL), 0);
	assert_int_equal(out.pixels[0], 99);
	assert_int_equal(out.pixels[1], 100);
	picture_release(&out);
	picture_release(&in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(parses), cmocka_unit_test(by_hand), cmocka_unit_test(by_definition),
	                                   cmocka_unit_test(cover)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
