/* Tables whose rows stay in their file: every row as tsv_load_any reads it, in any order, and found by key; what is refused; spilled sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/spill.h"
#include "file/tsvfile.h"
#include "tests/unit/scratch.h"

enum { ROWS = 3000 };

static char *put(const char *name, const char *text)
{
	char *path = path_join(dir, name);
	struct err e = {0};

	if (commit_bytes(path, text, strlen(text), &e))
		fail_msg("%s", e.msg);
	return path;
}

static void same_row(const struct tsv *whole, struct tsvfile *t, int64_t row, struct tsvfile_row *r)
{
	struct err e = {0};

	if (tsvfile_read(t, row, r, &e))
		fail_msg("%s", e.msg);
	for (int c = 0; c < tsv_columns(whole); c++)
		assert_string_equal(r->cell[c], tsv_get(whole, row, c));
	assert_int_equal(r->line, tsv_line(whole, row));
}

/* The rows of a file in order, backwards, at random and by key are those of the same table in memory. */
static void compare(const char *path)
{
	struct tsvfile_row r = {0};
	struct err e = {0};
	struct tsv *whole = tsv_load_any(path, &e);
	struct tsvfile *t = tsvfile_open(path, &e);
	int64_t n;

	if (!whole || !t || tsvfile_index(t, 0, &e))
		fail_msg("%s", e.msg);
	n = tsv_rows(whole);
	assert_int_equal(tsv_rows(tsvfile_head(t)), n);
	assert_int_equal(tsv_is_ours(tsvfile_head(t)), tsv_is_ours(whole));
	assert_string_equal(tsv_sha256(tsvfile_head(t)), tsv_sha256(whole));
	assert_string_equal(tsv_stamp(tsvfile_head(t)), tsv_stamp(whole));
	assert_int_equal(tsv_columns(tsvfile_head(t)), tsv_columns(whole));
	for (int c = 0; c < tsv_columns(whole); c++)
		assert_string_equal(tsv_name(tsvfile_head(t), c), tsv_name(whole, c));
	for (int64_t i = 0; i < n; i++)
		same_row(whole, t, i, &r);
	for (int64_t i = n; i-- > 0;)
		same_row(whole, t, i, &r);
	for (int64_t i = 0; i < n; i++) {
		int64_t row = (int64_t)rng_below((uint64_t)n, 5, RNG_TEST, 0, (uint64_t)i, 0);

		assert_int_equal(tsvfile_find(t, tsv_get(whole, row, 0), &r), row);
		same_row(whole, t, row, &r);
		assert_int_equal(tsvfile_find(t, tsv_get(whole, i, 0), &r), i);
		assert_string_equal(r.cell[0], tsv_get(whole, i, 0));
	}
	assert_int_equal(tsvfile_find(t, "no such key", &r), -1);
	tsvfile_row_release(&r);
	tsvfile_free(t);
	tsv_free(whole);
}

static void ours(void **state)
{
	static const char *const names[] = {"key", "cluster", "note"};
	char *path = path_join(dir, "ours.tsv");
	struct err e = {0};
	struct tsv_writer *w = tsv_create(path, names, 3, NULL, &e);

	(void)state;
	for (int i = 0; i < ROWS; i++) {
		char *key = str_new("k/%d", i * 7919 % ROWS);

		tsv_put(w, key);
		tsv_put_i64(w, i % 5);
		tsv_put(w, i % 3 ? "" : "x y");
		assert_int_equal(tsv_row(w, &e), 0);
		mem_free(key);
	}
	assert_int_equal(tsv_commit(w, &e), 0);
	compare(path);
	mem_free(path);
}

static void others(void **state)
{
	static const char *const heads[] = {"key,cluster,note\n", "\xef\xbb\xbfkey;cluster;note\r\n\r\n", "# key\tcluster\tnote\n# no row\n"};
	static const char signs[] = ",;\t";

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct str text = {0};
		char *path;

		str_puts(&text, heads[k]);
		for (int i = 0; i < ROWS; i++) {
			const char *quote = k < 2 && i % 2 ? "\"" : "", *note = *quote ? i % 3 ? "a\"\"b,;c" : "two\nlines\n" : "plain";

			str_printf(&text, "%s%d%s%c%d%c%s%s%s%s", quote, i, quote, signs[k], i % 4, signs[k], quote, note, quote,
			           i + 1 == ROWS ? ""
			           : k == 1      ? "\r\n"
			           : i % 11      ? "\n"
			                         : "\n\n");
			if (k == 2 && i % 13 == 0 && i + 1 < ROWS)
				str_puts(&text, "# between\n");
		}
		path = put("other.csv", str_text(&text));
		compare(path);
		mem_free(path);
		str_release(&text);
	}
}

/* A file of whole pages has no zeros behind its end. */
static void whole_pages(void **state)
{
	(void)state;
	for (int last = 0; last < 3; last++) {
		static const char *const ends[] = {"\n", "\r\n", ",\"z\""};
		struct str text = {0};
		char *path;

		str_puts(&text, "key,note\n");
		for (int i = 0; text.len < 8192 - 40; i++)
			str_printf(&text, "%d,x\n", i);
		str_puts(&text, "last");
		if (last < 2)
			str_puts(&text, ",");
		while (text.len < 8192 - strlen(ends[last]))
			str_puts(&text, "y");
		str_puts(&text, ends[last]);
		assert_int_equal(text.len, 8192);
		path = put("pages.csv", str_text(&text));
		compare(path);
		mem_free(path);
		str_release(&text);
	}
}

static void refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"", "empty"},
	    {"word\n", "no line with the names of columns"},
	    {"key,a\n1,2\n3\n", ":3: 1 fields where the first line names 2 columns"},
	    {"key,a\n1,2\n3,\"4\n", ":3: column 2: a quote is opened and never closed"},
	    {"key,a\n1,\"2\"x\n", "text behind the closing quote"},
	    {"key,a\n1,2\n2,3\n1,4\n", ":4: key '1' is on line 2 already"},
	    {"#key\ta\n#stamp {}\n1\t2\n", "truncated: the last line is not '#end ...'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *path = put("bad.csv", bad[i].text);
		struct err e = {0};
		struct tsvfile *t = tsvfile_open(path, &e);

		if (t)
			assert_int_equal(tsvfile_index(t, 0, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s", e.msg);
		tsvfile_free(t);
		mem_free(path);
	}
}

/* A file that is written over after it was checked gives errors or other rows, and no reads outside it. */
static void altered(void **state)
{
	struct str text = {0};
	struct tsvfile_row r = {0};
	struct err e = {0};
	struct tsvfile *t;
	char *path;
	int fd;

	(void)state;
	str_puts(&text, "key,a\n");
	for (int i = 0; i < 100; i++)
		str_printf(&text, "%d,2\n", i);
	path = put("altered.csv", str_text(&text));
	t = tsvfile_open(path, &e);
	assert_non_null(t);
	memset(text.p, 'x', text.len);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0 && write(fd, text.p, text.len) == (ssize_t)text.len && !close(fd));
	assert_int_equal(tsvfile_read(t, 50, &r, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	tsvfile_row_release(&r);
	tsvfile_free(t);
	mem_free(path);
	str_release(&text);
}

static int take(void *arg, const void *bytes, size_t n, struct err *e)
{
	(void)e;
	str_add(arg, bytes, n);
	return 0;
}

/* Sequences side by side hold what was added, also in blocks that others have left. */
static void spilled(void **state)
{
	struct spill *s = spill_new(dir);
	struct spilled q[3];
	struct str want[3] = {{0}};
	struct err e = {0};

	(void)state;
	memset(q, 0, sizeof q);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 60000; i++) {
			int k = (int)rng_below(3, 6, RNG_TEST, (uint64_t)round, (uint64_t)i, 0);
			char word[40];
			int n = snprintf(word, sizeof word, "%d of round %d,", i, round);

			str_add(&want[k], word, (size_t)n);
			assert_int_equal(spill_add(s, &q[k], word, (size_t)n, &e), 0);
		}
		for (int k = 0; k < 3; k++) {
			struct str got = {0};

			assert_int_equal(spilled_bytes(&q[k]), want[k].len);
			assert_true(q[k].blocks > 0 && q[k].end.len < 1 << 14);
			assert_int_equal(spill_each(s, &q[k], take, &got, &e), 0);
			assert_true(got.len == want[k].len && !memcmp(got.p, want[k].p, got.len));
			str_release(&got);
			if (k == round || round == 2) {
				spill_clear(s, &q[k]);
				str_release(&want[k]);
			}
		}
	}
	spill_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ours),    cmocka_unit_test(others),  cmocka_unit_test(whole_pages),
	    cmocka_unit_test(refused), cmocka_unit_test(altered), cmocka_unit_test(spilled),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
