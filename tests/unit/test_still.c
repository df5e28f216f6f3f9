/* Decoding against Pillow (tests/golden/stills.tsv and awkward.tsv), refusals, and the PNG writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/still.h"

static const char *source_dir(void)
{
	return getenv("SRC") ? getenv("SRC") : ".";
}

static struct str file_read(const char *path)
{
	char buf[65536];
	struct str s = {0};
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		fail_msg("%s", path);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		str_add(&s, buf, n);
	fclose(f);
	return s;
}

static struct str still_read(const char *name)
{
	char *path = str_new("%s/tests/golden/stills/%s", source_dir(), name);
	struct str s = file_read(path);

	mem_free(path);
	return s;
}

static void digest(char hex[65], const struct picture *p)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p->pixels, (size_t)p->width * p->height * p->channels);
	sha256_end(&s, hex);
	hex[16] = 0;
}

/* 1 if the picture has the row's digests, 0 if it is refused, -1 if it differs. */
static int compare(const struct str *file, const char *name, const char *size, const char *rgb, const char *grey)
{
	static const int wants[] = {3, 1};
	int equal = 1;

	for (int i = 0; i < 2; i++) {
		struct err e = {0};
		struct picture p;
		char hex[65], dims[32];

		if (still_decode(&p, str_text(file), file->len, name, wants[i], NULL, &e)) {
			assert_int_equal(e.code, ERR_DATA);
			assert_non_null(strstr(e.msg, name));
			return 0;
		}
		digest(hex, &p);
		snprintf(dims, sizeof dims, "%dx%d", p.width, p.height);
		equal = equal && !strcmp(dims, size) && !strcmp(hex, i ? grey : rgb);
		picture_release(&p);
	}
	return equal ? 1 : -1;
}

/* Call fn for every row of a table made by awkward.py; returns the number of rows. */
static int table_walk(const char *table, const char *dir, void (*fn)(const struct str *file, char **row, void *arg), void *arg)
{
	char *path = str_new("%s/tests/golden/%s", source_dir(), table), line[4096];
	FILE *f = fopen(path, "r");
	int rows = 0;

	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		char *row[4], *at = line, *full;
		struct str file;

		if (*line == '#')
			continue;
		for (int i = 0; i < 4; i++) {
			row[i] = at;
			at += strcspn(at, "\t\n");
			*at++ = 0;
		}
		full = str_new("%s/%s", dir, row[0]);
		file = file_read(full);
		fn(&file, row, arg);
		str_release(&file);
		mem_free(full);
		rows++;
	}
	fclose(f);
	mem_free(path);
	return rows;
}

static void must_equal(const struct str *file, char **row, void *arg)
{
	(void)arg;
	if (compare(file, row[0], row[1], row[2], row[3]) != 1)
		fail_msg("%s differs from Pillow", row[0]);
}

static void equals_pillow(void **state)
{
	char *dir = str_new("%s/tests/golden/stills", source_dir());

	(void)state;
	assert_true(table_walk("stills.tsv", dir, must_equal, NULL) >= 35);
	mem_free(dir);
}

/* A truncated file is refused, unless the missing part held no pixels and the result is the whole picture. */
static void refuse_prefixes(const struct str *file, char **row, void *arg)
{
	int *accepted = arg;

	for (size_t n = 0; n < file->len; n++) {
		/* In memory of exactly that size, so that a sanitizer sees reads past the end. */
		struct str part = {0};
		int rc;

		str_add(&part, file->p, n);
		rc = compare(&part, row[0], row[1], row[2], row[3]);
		if (rc < 0)
			fail_msg("%s cut to %zu of %zu bytes gives another picture", row[0], n, file->len);
		*accepted += rc;
		str_release(&part);
	}
}

static void truncated_is_refused(void **state)
{
	char *dir = str_new("%s/tests/golden/stills", source_dir());
	int accepted = 0;

	(void)state;
	table_walk("stills.tsv", dir, refuse_prefixes, &accepted);
	mem_free(dir);
	if (accepted)
		print_message("# %d prefixes accepted\n", accepted);
	assert_int_equal(accepted, 0);
}

/* In a PNG every changed byte is found. */
static void refuse_flips(const struct str *file, char **row, void *arg)
{
	(void)arg;
	if (still_sniff(file->p, file->len) != STILL_PNG)
		return;
	for (size_t i = 8; i < file->len; i++) {
		file->p[i] ^= 1 << i % 8;
		if (compare(file, row[0], row[1], row[2], row[3]))
			fail_msg("%s with a bit of byte %zu flipped is accepted", row[0], i);
		file->p[i] ^= 1 << i % 8;
	}
}

static void flipped_png_is_refused(void **state)
{
	char *dir = str_new("%s/tests/golden/stills", source_dir());

	(void)state;
	table_walk("stills.tsv", dir, refuse_flips, NULL);
	mem_free(dir);
}

struct tally {
	int equal, refused;
};

/* In these files the pixels are intact; Pillow refuses a text chunk that expands to 64 MiB, and APNG frames without a frame control. */
static int intact(const char *name)
{
	return !strcmp(name, "pillow/png_decompression_dos.png") || !strcmp(name, "pillow/apng/chunk_no_fctl.png");
}

static void equal_or_refused(const struct str *file, char **row, void *arg)
{
	struct tally *t = arg;
	double began = clock_seconds();
	int rc = compare(file, row[0], row[1], row[2], row[3]);

	if (clock_seconds() - began > 10)
		fail_msg("%s takes %.1f s", row[0], clock_seconds() - began);
	if (rc < 0 && !intact(row[0]))
		fail_msg("%s is decoded, but not to what Pillow gives (%s)", row[0], row[1]);
	t->equal += rc == 1;
	t->refused += rc == 0;
}

static void awkward_pictures(void **state)
{
	const char *data = getenv("DDM_TEST_DATA");
	char *dir = str_new("%s/awkward-images", data ? data : "../shared/data");
	struct tally t = {0};
	FILE *f;

	(void)state;
	f = fopen(dir, "r");
	if (!f) {
		mem_free(dir);
		print_message("# SKIP no test data: awkward-images\n");
		skip();
	}
	fclose(f);
	table_walk("awkward.tsv", dir, equal_or_refused, &t);
	mem_free(dir);
	assert_true(t.equal >= 345);
}

static void be32_put(struct str *s, uint32_t v)
{
	uint8_t b[4] = {v >> 24, v >> 16, v >> 8, v};

	str_add(s, b, 4);
}

static uint32_t crc_of(const char *p, size_t n)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < n; i++) {
		c ^= (uint8_t)p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
	}
	return ~c;
}

static void chunk_put(struct str *s, const char *kind, const void *data, size_t n)
{
	size_t at = s->len + 4;

	be32_put(s, (uint32_t)n);
	str_add(s, kind, 4);
	str_add(s, data, n);
	be32_put(s, crc_of(s->p + at, n + 4));
}

static void refuse(const struct str *s, const struct still_limits *limits, const char *because)
{
	struct err e = {0};
	struct picture p;
	double began = clock_seconds();

	assert_int_equal(still_decode(&p, s->p, s->len, "bomb", 3, limits, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	if (!strstr(e.msg, because))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, because);
	assert_true(clock_seconds() - began < 5);
}

static void png_bombs(void **state)
{
	static const uint8_t size[] = {0, 0, 0x3e, 0x80, 0, 0, 0x3e, 0x80, 8, 2, 0, 0, 0};
	static const uint8_t huge[] = {0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0, 8, 2, 0, 0, 0};
	struct str s = {0}, interlaced = still_read("interlaced.png");

	(void)state;
	refuse(&interlaced, &(struct still_limits){.max_memory = 100}, "more than the limit");
	str_release(&interlaced);
	str_add(&s, "\x89PNG\r\n\x1a\n", 8);
	chunk_put(&s, "IHDR", size, sizeof size);
	chunk_put(&s, "IDAT", "\x78\x9c\x63\x60\0\0\0\x02\0\x01", 10);
	chunk_put(&s, "IEND", "", 0);
	refuse(&s, NULL, "truncated");
	refuse(&s, &(struct still_limits){.max_pixels = 1 << 20}, "more than the limit");
	s.len = 8;
	chunk_put(&s, "IHDR", huge, sizeof huge);
	refuse(&s, NULL, "more than the limit");
	str_release(&s);
}

/* The first scan of a progressive JPEG, changed to a complete DC scan and repeated many times. */
static void jpeg_bombs(void **state)
{
	struct str one = still_read("progressive.jpg"), many = {0};
	size_t sos = 0, end;

	(void)state;
	while (memcmp(one.p + sos, "\xff\xda", 2))
		sos++;
	end = sos + 14;
	assert_int_equal(one.p[end - 1], 0x01); /* Ah 0, Al 1 */
	one.p[end - 1] = 0;
	while (one.p[end] != '\xff' || !one.p[end + 1])
		end++;
	str_add(&many, one.p, sos);
	for (int i = 0; i < 300; i++)
		str_add(&many, one.p + sos, end - sos);
	str_add(&many, "\xff\xd9", 2);
	refuse(&many, NULL, "scans");
	str_release(&one);
	str_release(&many);
}

static void odd_input(void **state)
{
	struct err e = {0};
	struct picture p;
	int w, h;
	struct str s = still_read("exif6.jpg");

	(void)state;
	assert_int_equal(still_decode(&p, "", 0, "void", 3, NULL, &e), -1);
	assert_string_equal(e.msg, "void: empty");
	e = (struct err){0};
	assert_int_equal(still_decode(&p, "GIF89a", 6, "a.gif", 3, NULL, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_int_equal(still_size(s.p, s.len, "exif6.jpg", &w, &h, NULL), 0);
	assert_int_equal(w, 19);
	assert_int_equal(h, 13);
	str_release(&s);
}

static void png_round_trip(void **state)
{
	static const struct still_text texts[] = {{"ddm:seed", "7"}, {"Title", "K\xc3\xb6nig"}};

	(void)state;
	for (int c = 1; c <= 3; c += 2) {
		struct picture p, q;
		uint8_t *png, *again;
		size_t n, m;

		assert_int_equal(picture_alloc(&p, 37, 11, c, NULL), 0);
		for (int i = 0; i < 37 * 11 * c; i++)
			p.pixels[i] = (i * i) >> 3;
		assert_int_equal(still_encode_png(&p, texts, 2, &png, &n, NULL), 0);
		assert_int_equal(still_encode_png(&p, texts, 2, &again, &m, NULL), 0);
		assert_int_equal(n, m);
		assert_memory_equal(png, again, n);
		assert_non_null(memmem(png, n, "tEXtddm:seed\0007", 14));
		assert_non_null(memmem(png, n, "iTXtTitle\0", 10));
		assert_null(memmem(png, n, "tIME", 4));
		assert_int_equal(still_decode(&q, png, n, "p", c, NULL, NULL), 0);
		assert_memory_equal(p.pixels, q.pixels, 37 * 11 * c);
		picture_release(&p);
		picture_release(&q);
		mem_free(png);
		mem_free(again);
	}
}

/* Lossless; grey is read back as RGB with three equal numbers, which is grey again. */
static void webp_round_trip(void **state)
{
	(void)state;
	for (int c = 1; c <= 3; c += 2) {
		struct picture p = {37, 11, c, mem_alloc((size_t)(37 * 11 * c))}, q;
		uint8_t *webp;
		size_t n;

		for (int i = 0; i < 37 * 11 * c; i++)
			p.pixels[i] = (uint8_t)((i * i) >> 3);
		assert_int_equal(still_encode_webp(&p, &webp, &n, NULL), 0);
		assert_int_equal(still_sniff(webp, n), STILL_WEBP);
		assert_int_equal(still_decode(&q, webp, n, "p", c, NULL, NULL), 0);
		assert_memory_equal(p.pixels, q.pixels, 37 * 11 * c);
		picture_release(&p);
		picture_release(&q);
		mem_free(webp);
	}
}

/* A smooth picture is nearly unchanged, lower quality gives smaller files, and colours are not subsampled. */
static void jpeg_round_trip(void **state)
{
	(void)state;
	for (int c = 1; c <= 3; c += 2) {
		struct picture p, q;
		uint8_t *fine, *coarse;
		size_t n, m;
		int worst = 0;

		assert_int_equal(picture_alloc(&p, 61, 35, c, NULL), 0);
		for (int i = 0; i < 61 * 35 * c; i++) {
			int x = i / c % 61, y = i / c / 61;

			p.pixels[i] = (uint8_t)(i % c == 0 ? 4 * x : i % c == 1 ? 7 * y : 255 - 2 * x - 3 * y);
		}
		assert_int_equal(still_encode_jpeg(&p, 95, &fine, &n, NULL), 0);
		assert_int_equal(still_encode_jpeg(&p, 40, &coarse, &m, NULL), 0);
		assert_true(m < n);
		assert_int_equal(still_decode(&q, fine, n, "p", c, NULL, NULL), 0);
		assert_true(q.width == 61 && q.height == 35);
		for (int i = 0; i < 61 * 35 * c; i++)
			worst = abs(p.pixels[i] - q.pixels[i]) > worst ? abs(p.pixels[i] - q.pixels[i]) : worst;
		assert_true(worst <= 8);
		picture_release(&p);
		picture_release(&q);
		mem_free(fine);
		mem_free(coarse);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equals_pillow),
	    cmocka_unit_test(truncated_is_refused),
	    cmocka_unit_test(flipped_png_is_refused),
	    cmocka_unit_test(awkward_pictures),
	    cmocka_unit_test(png_bombs),
	    cmocka_unit_test(jpeg_bombs),
	    cmocka_unit_test(odd_input),
	    cmocka_unit_test(png_round_trip),
	    cmocka_unit_test(webp_round_trip),
	    cmocka_unit_test(jpeg_round_trip),
	};

	return cmocka_run_group_tests_name("still", tests, NULL, NULL);
}
