/* file/standing: the stamp of each kind of output is found, and differences are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/standing.h"
#include "file/still.h"
#include "file/tarfile.h"
#include "file/tsv.h"
#include "plot/scene.h"
#include "tests/unit/scratch.h"

static struct stamp *stamp_of(int64_t k, const char *text)
{
	struct stamp *s = stamp_new("ddm-test");

	stamp_i64(s, "k", k);
	stamp_text(s, "text", text);
	stamp_input(s, "samples", "abc");
	return s;
}

static void write_tar(const char *path, const struct stamp *s)
{
	struct err e = {0};
	struct outfile o;
	struct tar_writer w = {0};
	char *line = stamp_line(s);

	assert_int_equal(outfile_open(&o, path, &e), 0);
	assert_int_equal(tar_start(&w, &o, line, &e) || tar_add(&w, "a.txt", "a", 1, &e) || tar_finish(&w, &e), 0);
	assert_int_equal(outfile_commit(&o, &e), 0);
	mem_free(line);
}

static void write_table(const char *path, const struct stamp *s)
{
	static const char *const columns[] = {"key"};
	struct err e = {0};
	struct tsv_writer *t = tsv_create(path, columns, 1, s, &e);

	assert_non_null(t);
	assert_int_equal(tsv_commit(t, &e), 0);
}

static void write_png(const char *path, const struct stamp *s)
{
	uint8_t pixels[3] = {1, 2, 3}, *data;
	struct picture p = {1, 1, 3, pixels};
	char *line = stamp_line(s);
	struct still_text text[] = {{"Software", "ddm"}, {"ddm", line}};
	struct err e = {0};
	size_t len;

	assert_int_equal(still_encode_png(&p, text, 2, &data, &len, &e), 0);
	assert_int_equal(commit_bytes(path, data, len, &e), 0);
	mem_free(data);
	mem_free(line);
}

static void write_array(const char *path, const struct stamp *s)
{
	struct err e = {0};
	int64_t shape[1] = {1};
	float v = 1;

	assert_int_equal(npy_write(path, NPY_F4, 1, shape, &v, &e) || stamp_sidecar(s, path, &e), 0);
}

static void write_json(const char *path, const struct stamp *s)
{
	struct err e = {0};
	char *line = stamp_line(s), text[1000];

	snprintf(text, sizeof text, "{\"n\": 3, \"stamp\": %s}\n", line);
	assert_int_equal(commit_bytes(path, text, strlen(text), &e), 0);
	mem_free(line);
}

static void write_line(const char *path, const struct stamp *s)
{
	struct err e = {0};
	char *line = stamp_line(s);

	assert_int_equal(commit_bytes(path, line, strlen(line), &e), 0);
	mem_free(line);
}

static void write_markup(const char *path, const struct stamp *s, const char *before, const char *after)
{
	struct err e = {0};
	char *line = stamp_line(s);
	struct str text = {0};

	str_puts(&text, before);
	scene_escape(&text, line);
	str_puts(&text, after);
	assert_int_equal(commit_bytes(path, text.p, text.len, &e), 0);
	str_release(&text);
	mem_free(line);
}

static void write_svg(const char *path, const struct stamp *s)
{
	write_markup(path, s, "<svg><title>x</title>\n<metadata id=\"ddm\">", "</metadata></svg>\n");
}

static void write_html(const char *path, const struct stamp *s)
{
	write_markup(path, s, "<!DOCTYPE html>\n<meta name=\"ddm\" content=\"", "\">\n");
}

static void views(void **state)
{
	struct stamp *s = stamp_of(1, "a");
	char *path = path_join(dir, "view");
	struct err e = {0};

	(void)state;
	assert_int_equal(standing_view(path, "ddm-test", NULL, &e), 0);
	assert_int_equal(standing_view("-", "ddm-test", NULL, &e), 0);
	write_svg(path, s);
	assert_int_equal(standing_view(path, "ddm-test", NULL, &e), 0);
	assert_int_equal(standing_view(path, "ddm-other", NULL, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_int_equal(commit_bytes(path, "<svg/>", 6, NULL), 0);
	e = (struct err){0};
	assert_int_equal(standing_view(path, "ddm-test", NULL, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	stamp_free(s);
	mem_free(path);
}

static void every_kind(void **state)
{
	static void (*const writers[])(const char *, const struct stamp *) = {write_tar,  write_table, write_png, write_array,
	                                                                      write_json, write_line,  write_svg, write_html};
	static const char *const texts[] = {"plain", "\xc3\xa9t\xc3\xa9", "<a & \"b\"> &amp; -->"};
	char *path = path_join(dir, "x");

	(void)state;
	for (size_t i = 0; i < 3 * sizeof writers / sizeof *writers; i++) {
		struct stamp *s = stamp_of(4, texts[i % 3]), *other = stamp_of(5, texts[i % 3]), *less = stamp_new("ddm-test");
		struct err e = {0};

		writers[i / 3](path, s);
		assert_int_equal(standing_check(path, s, 0, &e), 0);
		assert_int_equal(standing_check(path, less, 1, &e), 0);
		assert_int_equal(standing_check(path, other, 1, &e), -1);
		assert_int_equal(e.code, ERR_EXISTS);
		assert_non_null(strstr(e.msg, ": k: 4 -> 5"));
		e = (struct err){0};
		assert_int_equal(standing_check(path, less, 0, &e), -1);
		assert_non_null(strstr(e.msg, "inputs"));
		stamp_free(s);
		stamp_free(other);
		stamp_free(less);
	}
	mem_free(path);
}

static void foreign_files_stay(void **state)
{
	static const char *const texts[] = {"hello", "{", "#key\n", "#key\n#stamp {", "\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXtddm", "{\"a\": 1}"};
	struct stamp *s = stamp_of(1, "a");
	char *path = path_join(dir, "foreign"), *none = path_join(dir, "none");
	struct err e = {0};

	(void)state;
	assert_int_equal(standing_check(none, s, 0, &e), 0);
	assert_int_equal(standing_check("-", s, 0, &e), 0);
	assert_int_equal(standing_check("/dev/null", s, 0, &e), 0);
	assert_int_equal(commit_bytes(path, "", 0, &e), 0);
	assert_int_equal(standing_check(path, s, 0, &e), 0);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		e = (struct err){0};
		assert_int_equal(commit_bytes(path, texts[i], strlen(texts[i]), &e), 0);
		assert_int_equal(standing_check(path, s, 1, &e), -1);
		assert_int_equal(e.code, ERR_EXISTS);
	}
	stamp_free(s);
	mem_free(path);
	mem_free(none);
}

static void equal_bytes_are_left_alone(void **state)
{
	struct timespec old[2] = {{1000, 0}, {1000, 0}};
	char *path = path_join(dir, "same");
	struct outfile o;
	struct err e = {0};
	struct stat st;

	(void)state;
	assert_int_equal(commit_bytes(path, "one", 3, &e), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(commit_bytes(path, "one", 3, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mtime, 1000);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	o.keep = 1;
	assert_int_equal(outfile_write(&o, "two", 3, &e), 0);
	assert_int_equal(outfile_commit(&o, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mtime, 1000);
	assert_int_equal(commit_bytes(path, "two", 3, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_mtime != 1000);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind),
	    cmocka_unit_test(foreign_files_stay),
	    cmocka_unit_test(views),
	    cmocka_unit_test(equal_bytes_are_left_alone),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
