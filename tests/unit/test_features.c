/* The formula of the features against numpy (tests/golden/hogcolor.txt, made by hogcolor.py), and their promised properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "cluster/features.h"
#include "file/fileio.h"

enum { D = FEATURES_HOGCOLOR_DIM };

static char *golden(const char *name)
{
	const char *src = getenv("SRC");

	return str_new("%s/tests/golden/%s", src ? src : ".", name);
}

static double length(const float *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)v[i] * v[i];
	return sqrt(sum);
}

static void like_numpy(void **state)
{
	char *path = golden("hogcolor.txt"), *text, *at;
	struct err e = {0};
	int pictures = 0;
	size_t len;

	(void)state;
	text = file_load(path, 1 << 20, &len, &e);
	mem_free(path);
	assert_non_null(text);
	for (at = text; *at; at++, pictures++) {
		char *space = strchr(at, ' '), *file, *name = str_new("stills/%.*s", (int)(space - at), at);
		struct picture p;
		float got[D];
		uint8_t *data;

		path = golden(name);
		file = file_load(path, 1 << 20, &len, &e);
		assert_non_null(file);
		data = (uint8_t *)file;
		assert_int_equal(still_decode(&p, data, len, name, 3, NULL, &e), 0);
		assert_int_equal(features_hogcolor(got, &p, &e), 0);
		at = space;
		for (int i = 0; i < D; i++) {
			double want = strtod(at, &at);

			if (fabs(got[i] - want) > 2e-5)
				fail_msg("%s: value %d is %g, not %g", name, i, got[i], want);
		}
		picture_release(&p);
		mem_free(file);
		mem_free(path);
		mem_free(name);
	}
	assert_int_equal(pictures, 5);
	mem_free(text);
}

static struct picture plain(int side, int channels, uint8_t value)
{
	struct picture p;
	struct err e = {0};

	assert_int_equal(picture_alloc(&p, side, side, channels, &e), 0);
	memset(p.pixels, value, (size_t)side * (size_t)side * (size_t)channels);
	return p;
}

/* A uniform picture has no shape and no layout; grey and the same grey as RGB are equal; lengths are at most one. */
static void extremes(void **state)
{
	struct picture a = plain(64, 3, 77), b = plain(20, 1, 77), c = plain(64, 3, 0);
	float x[D], y[D];
	struct err e = {0};

	(void)state;
	assert_int_equal(features_hogcolor(x, &a, &e), 0);
	assert_int_equal(features_hogcolor(y, &b, &e), 0);
	assert_true(length(x, 576) < 1e-6 && length(x + 720, 48) < 1e-3);
	assert_true(fabs(length(x, D) - sqrt(.4)) < 1e-4);
	for (int i = 0; i < D; i++)
		assert_true(fabsf(x[i] - y[i]) < 1e-6f);
	for (int i = 0; i < 64 * 64; i++)
		memset(c.pixels + 3 * i, (i / 64 / 3 + i % 64 / 3) % 2 ? 255 : 0, 3);
	assert_int_equal(features_hogcolor(x, &c, &e), 0);
	assert_true(length(x, D) <= 1.0001 && length(x, 576) > .7);
	for (int i = 0; i < D; i++)
		assert_true(isfinite(x[i]));
	picture_release(&a);
	picture_release(&b);
	picture_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(like_numpy), cmocka_unit_test(extremes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
