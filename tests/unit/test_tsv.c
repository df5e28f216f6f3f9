/* file/tsv: truncated and altered tables are always found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/tsv.h"

static char path[3000];

static const char *const columns[] = {"key", "cluster", "distance"};

static void write_small(int rows, const struct stamp *s)
{
	struct err e = {0};
	struct tsv_writer *w = tsv_create(path, columns, 3, s, &e);

	assert_non_null(w);
	for (int i = 0; i < rows; i++) {
		char *key = str_new(i == 1 ? "#odd %d" : "a/%04d", i);

		tsv_put(w, key);
		tsv_put_i64(w, i % 3);
		tsv_put_f64(w, i * 0.25f);
		assert_int_equal(tsv_row(w, &e), 0);
		mem_free(key);
	}
	assert_int_equal(tsv_commit(w, &e), 0);
}

static void round_trip(void **state)
{
	struct err e = {0};
	struct stamp *s = stamp_new("test");
	struct tsv *t;
	int64_t v;
	double d;

	(void)state;
	stamp_u64(s, "seed", 7);
	write_small(1000, s);
	t = tsv_load(path, &e);
	assert_non_null(t);
	assert_int_equal(tsv_rows(t), 1000);
	assert_int_equal(tsv_columns(t), 3);
	assert_string_equal(tsv_name(t, 2), "distance");
	assert_int_equal(tsv_column(t, "cluster"), 1);
	assert_int_equal(tsv_column(t, "none"), -1);
	assert_string_equal(tsv_stamp(t), "{\"program\":\"test\",\"version\":\"0.1\",\"seed\":7}");
	assert_string_equal(tsv_get(t, 1, 0), "#odd 1");
	assert_int_equal(tsv_i64(t, 998, 1, 0, 3, &v, &e), 0);
	assert_int_equal(v, 998 % 3);
	assert_int_equal(tsv_f64(t, 999, 2, 0, 1e9, &d, &e), 0);
	assert_true(d == 999 * 0.25);
	assert_int_equal(tsv_index(t, 0, &e), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(tsv_lookup(t, tsv_get(t, i, 0)), i);
	assert_int_equal(tsv_lookup(t, "a/9999"), -1);
	assert_int_equal(tsv_i64(t, 5, 0, 0, 3, &v, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, ":8: key 'a/0005'"));
	e.code = 0;
	assert_int_equal(tsv_index(t, 1, &e), -1);
	assert_non_null(strstr(e.msg, ":6: cluster '0' is on line 3 already"));
	tsv_free(t);
	stamp_free(s);
}

/* Without the comparison of the hash, flips in fields would pass. */
static void every_truncation_and_flip(void **state)
{
	struct err e = {0};
	size_t len;
	char *text;
	struct tsv *t;

	(void)state;
	write_small(4, NULL);
	text = file_load(path, 1 << 20, &len, &e);
	assert_non_null(text);
	for (size_t n = 0; n < len; n++) {
		e.code = 0;
		assert_null(tsv_parse(text, n, "cut", &e));
		assert_int_equal(e.code, ERR_DATA);
	}
	for (size_t i = 0; i < len * 8; i++) {
		e.code = 0;
		text[i / 8] ^= (char)(1 << i % 8);
		t = tsv_parse(text, len, "flip", &e);
		if (t)
			fail_msg("bit %zu of byte %zu", i % 8, i / 8);
		assert_int_equal(e.code, ERR_DATA);
		text[i / 8] ^= (char)(1 << i % 8);
	}
	t = tsv_parse(text, len, "whole", &e);
	assert_non_null(t);
	tsv_free(t);
	mem_free(text);
}

/* Tables with a correct hash and a wrong form. */
static void hostile(void **state)
{
	static const char *const bodies[] = {
	    "",
	    "#a\n",
	    "a\tb\n#stamp {}\n",
	    "#a\ta\n#stamp {}\n",
	    "#a\t\n#stamp {}\n",
	    "#a\tb\nx\ty\n",
	    "#a\tb\n#stamp {}\nx\n",
	    "#a\tb\n#stamp {}\nx\ty\tz\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct err e = {0};
		struct str s = {0};
		int lines = 0;

		str_puts(&s, bodies[i]);
		for (const char *c = bodies[i]; *c; c++)
			lines += *c == '\n';
		str_printf(&s, "#end %d %016llx\n", lines > 2 ? lines - 2 : 0, (unsigned long long)hash64(s.p, s.len));
		assert_null(tsv_parse(s.p, s.len, "hostile", &e));
		assert_int_equal(e.code, ERR_DATA);
		str_release(&s);
	}
}

static void refused_fields(void **state)
{
	struct err e = {0};
	struct tsv_writer *w = tsv_create(path, columns, 3, NULL, &e);

	(void)state;
	tsv_put(w, "a\tb");
	tsv_put(w, "1");
	tsv_put(w, "2");
	assert_int_equal(tsv_row(w, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	e.code = 0;
	assert_int_equal(tsv_commit(w, &e), -1);
	w = tsv_create(path, columns, 3, NULL, NULL);
	tsv_put(w, "a");
	assert_int_equal(tsv_row(w, NULL), -1);
	tsv_abort(w);
	e.code = 0;
	w = tsv_create("/dev/full", columns, 3, NULL, &e);
	assert_non_null(w);
	assert_int_equal(tsv_commit(w, &e), -1);
	assert_int_equal(e.code, ERR_IO);
}

static void stamps(void **state)
{
	struct err e = {0};
	struct stamp *a = stamp_new("p"), *b = stamp_new("p");
	struct str what = {0};
	char *line;
	size_t len;

	(void)state;
	stamp_i64(a, "k", 4);
	stamp_i64(b, "k", 4);
	stamp_f64(a, "lr", 1e-4);
	stamp_f64(b, "lr", 1e-4);
	stamp_input(a, "samples", "aa");
	stamp_input(b, "samples", "aa");
	line = stamp_line(b);
	assert_int_equal(stamp_differs(a, line, &what), 0);
	mem_free(line);
	stamp_i64(b, "k", 5);
	stamp_input(b, "samples", "bb");
	stamp_text(b, "extra", "\xff");
	stamp_u64(b, "seed", UINT64_MAX);
	line = stamp_line(b);
	assert_int_equal(stamp_differs(a, line, &what), 4);
	assert_string_equal(str_text(&what), "k: 5 -> 4, inputs.samples: \"bb\" -> \"aa\", extra: \"?\" -> (none), "
	                                     "seed: \"18446744073709551615\" -> (none)");
	assert_int_equal(stamp_differs(a, "{", &what), -1);
	mem_free(line);
	assert_int_equal(stamp_sidecar(a, path, &e), 0);
	line = str_new("%s.json", path);
	mem_free(file_load(line, 1 << 20, &len, &e));
	assert_int_equal(unlink(line), 0);
	mem_free(line);
	str_release(&what);
	stamp_free(a);
	stamp_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trip), cmocka_unit_test(every_truncation_and_flip), cmocka_unit_test(hostile), cmocka_unit_test(refused_fields),
	    cmocka_unit_test(stamps),
	};
	int fd, rc;

	snprintf(path, sizeof path, "%s/ddm-tsv-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
