/* Resampling against Pillow's (tests/golden/resize.tsv, made by resize.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "file/resize.h"

static uint32_t mix(uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t v = x * 0x9e3779b1u + y * 0x85ebca77u + c * 0xc2b2ae3du;

	v = (v ^ v >> 15) * 0x2c1b3c6du;
	v = (v ^ v >> 12) * 0x297a2d39u;
	return v ^ v >> 15;
}

static struct picture picture_make(int w, int h, int c)
{
	struct picture p;
	uint8_t *at;

	assert_int_equal(picture_alloc(&p, w, h, c, NULL), 0);
	at = p.pixels;
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++)
			for (int k = 0; k < c; k++) {
				uint8_t v = mix(x, y, k) >> 24;

				*at++ = y % 3 ? v : v > 127 ? 255 : 0;
			}
	return p;
}

static void digest(char hex[65], const void *p, size_t n)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, hex);
	hex[16] = 0;
}

static void plane_digest(char hex[65], int w, int h, int width, int height, int filter)
{
	float *in = mem_alloc(sizeof *in * w * h), *out = mem_alloc(sizeof *out * width * height);

	for (int i = 0; i < w * h; i++)
		in[i] = (float)(mix(i % w, i / w, 0) / 4294967296.0 * 4 - 2);
	assert_int_equal(plane_resize(out, width, height, in, w, h, filter, NULL), 0);
	digest(hex, out, sizeof *out * width * height);
	mem_free(in);
	mem_free(out);
}

static int filter_named(const char *name)
{
	for (int i = 0; resize_filter_names[i]; i++)
		if (!strcmp(name, resize_filter_names[i]))
			return i;
	return -1;
}

static void row_digest(char hex[65], const char *what, int c, int w, int h, int width, int height)
{
	int filter = filter_named(what), rc;
	struct picture in, out;

	if (!c) {
		plane_digest(hex, w, h, width, height, filter);
		return;
	}
	in = picture_make(w, h, c);
	if (filter >= 0)
		rc = picture_resize(&out, &in, width, height, filter, NULL);
	else if (!strcmp(what, "reduce"))
		rc = picture_reduce(&out, &in, width, height, NULL);
	else if (!strcmp(what, "adm"))
		rc = picture_square_adm(&out, &in, width, NULL);
	else
		rc = picture_square(&out, &in, width, RESIZE_LANCZOS, NULL);
	assert_int_equal(rc, 0);
	digest(hex, out.pixels, (size_t)out.width * out.height * c);
	picture_release(&in);
	picture_release(&out);
}

static void equals_pillow(void **state)
{
	const char *src = getenv("SRC");
	char path[4096], line[256];
	int rows = 0, wrong = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/resize.tsv", src ? src : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		char what[32], want[32], hex[65];
		int c, w, h, width, height;

		if (*line == '#')
			continue;
		assert_int_equal(sscanf(line, "%31s %d %d %d %d %d %31s", what, &c, &w, &h, &width, &height, want), 7);
		row_digest(hex, what, c, w, h, width, height);
		if (strcmp(hex, want)) {
			print_error("differs: %s", line);
			wrong++;
		}
		rows++;
	}
	fclose(f);
	assert_int_equal(wrong, 0);
	assert_true(rows > 200);
}

static void photo_digests(char hex[3][65], const char *path)
{
	struct picture photo, out;
	struct err e = {0};
	size_t len;
	void *data = file_load(path, 1 << 26, &len, &e);

	if (!data || still_decode(&photo, data, len, path, 3, NULL, &e))
		fail_msg("%s", e.msg);
	mem_free(data);
	for (int i = 0; i < 3; i++) {
		if (i < 2)
			picture_square(&out, &photo, i ? 299 : 64, i ? RESIZE_BICUBIC : RESIZE_LANCZOS, &e);
		else
			picture_square_adm(&out, &photo, 64, &e);
		digest(hex[i], out.pixels, (size_t)out.width * out.height * 3);
		picture_release(&out);
	}
	picture_release(&photo);
}

static void photographs(void **state)
{
	const char *data = getenv("DDM_TEST_DATA"), *src = getenv("SRC");
	char path[4096], line[512];
	int rows = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof path, "%s/photos", data ? data : "../shared/data");
	if (!path_exists(path)) {
		print_message("# SKIP no test data: photos\n");
		skip();
	}
	snprintf(path, sizeof path, "%s/tests/golden/photos.tsv", src ? src : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		char name[256], want[3][32], hex[3][65];

		if (*line == '#')
			continue;
		assert_int_equal(sscanf(line, "%255s %31s %31s %31s", name, want[0], want[1], want[2]), 4);
		snprintf(path, sizeof path, "%s/photos/%s", data ? data : "../shared/data", name);
		photo_digests(hex, path);
		for (int i = 0; i < 3; i++)
			if (strcmp(hex[i], want[i]))
				fail_msg("%s: %d differs", name, i);
		rows++;
	}
	fclose(f);
	assert_int_equal(rows, 44);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equals_pillow),
	    cmocka_unit_test(photographs),
	};

	return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
