/* file/tarfile: tars of other programs are read, truncated and altered ones are refused, other programs read ours. */
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
#include "file/fileio.h"
#include "file/tarfile.h"
#include "tests/unit/scratch.h"

static char *at(const char *name)
{
	return path_join(dir, name);
}

static char *long_name(size_t n, char c)
{
	char *s = mem_zalloc(n + 1, 1);

	return memset(s, c, n);
}

/* The output of a shell command in the test's folder. */
static char *shell(const char *command)
{
	char *line = str_new("cd %s && %s", dir, command), buf[4096];
	struct str out = {0};
	FILE *p = popen(line, "r");
	size_t n;

	assert_non_null(p);
	while ((n = fread(buf, 1, sizeof buf, p)) > 0)
		str_add(&out, buf, n);
	str_puts(&out, "");
	if (pclose(p))
		fail_msg("%s", line);
	mem_free(line);
	return out.p;
}

static void sample_archive(struct str *out, const char *stamp)
{
	struct err e = {0};
	char *deep = long_name(90, 'd'), *longest = long_name(200, 'n'), *both = str_new("%s/%s", deep, deep);

	if (stamp)
		tar_put_stamp(out, stamp);
	assert_int_equal(tar_put_member(out, "a.jpg", "abc", 3, &e), 0);
	assert_int_equal(tar_put_member(out, both, "", 0, &e), 0);
	assert_int_equal(tar_put_member(out, longest, longest, 200, &e), 0);
	assert_int_equal(tar_put_member(out, "\xe6\x97\xa5.txt", "x", 1, &e), 0);
	tar_put_end(out);
	mem_free(deep);
	mem_free(longest);
	mem_free(both);
}

/* Every member's name and content in order as one string; NULL when the reader refuses. */
static char *listing(const void *data, size_t len, struct err *e)
{
	struct tar_reader *r = tar_open_memory(data, len, "test", NULL, e);
	struct tar_member m;
	struct str s = {0};
	int rc;

	if (!r)
		return NULL;
	str_puts(&s, "");
	while ((rc = tar_next(r, &m, e)) > 0)
		str_printf(&s, "%s=%016llx;", m.name, (unsigned long long)hash64(m.data, m.size));
	if (!rc)
		assert_int_equal(tar_next(r, &m, e), 0);
	tar_close(r);
	if (rc)
		str_release(&s);
	return s.p;
}

static void own_archive(void **state)
{
	struct err e = {0};
	struct str a = {0}, name = {0}, stamp = {0}, s = {0};
	struct tar_reader *r;
	struct tar_member m;
	size_t pos = 0;
	char *theirs, *path = at("o.tar");
	int n = 0;

	(void)state;
	sample_archive(&a, "{\"program\":\"test\"}");
	while (tar_parse((uint8_t *)a.p, a.len, &pos, &m, &name, &stamp, "test", &e) == 1) {
		str_printf(&s, "%s=%016llx;", m.name, (unsigned long long)hash64(m.data, m.size));
		if (!n++)
			assert_string_equal(str_text(&stamp), "{\"program\":\"test\"}");
	}
	assert_int_equal(e.code, 0);
	assert_int_equal(n, 4);
	theirs = listing(a.p, a.len, &e);
	assert_non_null(theirs);
	assert_string_equal(str_text(&s), theirs);
	mem_free(theirs);
	assert_int_equal(commit_bytes(path, a.p, a.len, &e), 0);
	r = tar_open(path, NULL, &e);
	assert_non_null(r);
	assert_int_equal(tar_next(r, &m, &e), 1);
	assert_string_equal(tar_stamp(r), "{\"program\":\"test\"}");
	tar_close(r);
	theirs = shell("tar tf o.tar | wc -l; tar xOf o.tar a.jpg");
	assert_string_equal(theirs, "4\nabc");
	mem_free(theirs);
	mem_free(path);
	str_release(&a);
	str_release(&name);
	str_release(&stamp);
	str_release(&s);
}

/* Without check_end, truncations at member boundaries would pass. */
static void every_truncation(void **state)
{
	struct err e = {0};
	struct str a = {0}, name = {0};
	char *got;

	(void)state;
	sample_archive(&a, NULL);
	for (size_t n = 0; n < a.len; n++) {
		e.code = 0;
		got = listing(a.p, n, &e);
		if (got)
			fail_msg("%zu of %zu bytes are accepted: %s", n, a.len, got);
		assert_int_equal(e.code, ERR_DATA);
	}
	str_release(&a);
	str_release(&name);
}

static void concatenated(void **state)
{
	struct err e = {0};
	struct str a = {0};
	char *got;

	(void)state;
	tar_put_member(&a, "1", "x", 1, &e);
	tar_put_end(&a);
	tar_put_member(&a, "2", "x", 1, &e);
	tar_put_end(&a);
	got = listing(a.p, a.len, &e);
	assert_non_null(got);
	assert_non_null(strstr(got, "1="));
	assert_non_null(strstr(got, "2="));
	mem_free(got);
	str_reset(&a);
	tar_put_stamp(&a, "{}");
	tar_put_end(&a);
	got = listing(a.p, a.len, &e);
	assert_string_equal(got, "");
	mem_free(got);
	str_release(&a);
}

static void compressed(void **state)
{
	static const char *const how[] = {"gzip -n", "bzip2", "xz", "zstd -q", "zstd -q --check"};
	struct err e = {0};
	struct str a = {0};
	char *plain, *path = at("c.tar");

	(void)state;
	sample_archive(&a, NULL);
	plain = listing(a.p, a.len, &e);
	assert_int_equal(commit_bytes(path, a.p, a.len, &e), 0);
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		char *cmd = str_new("%s <c.tar >c.tar.x", how[i]), *got, *whole, *packed = at("c.tar.x");
		size_t len;

		mem_free(shell(cmd));
		whole = file_load(packed, 1 << 20, &len, &e);
		got = listing(whole, len, &e);
		assert_non_null(got);
		assert_string_equal(got, plain);
		mem_free(got);
		for (size_t n = 0; n < len; n++) {
			struct err cut = {0};

			got = listing(whole, n, &cut);
			if (got && strcmp(how[i], "bzip2"))
				fail_msg("%s: %zu of %zu bytes are accepted", how[i], n, len);
			mem_free(got);
		}
		mem_free(whole);
		mem_free(packed);
		mem_free(cmd);
	}
	mem_free(plain);
	mem_free(path);
	str_release(&a);
}

static void from_gnu_tar(void **state)
{
	struct err e = {0};
	char *out, *path = at("g.tar");
	struct tar_reader *r;
	struct tar_member m;
	const char *first;
	int n = 0, rc;

	(void)state;
	out = shell("mkdir -p g/sub && echo 1 >g/a.txt && echo 2 >g/sub/b.txt && ln -sf a.txt g/l && ln -f g/a.txt g/h && mkfifo g/p; "
	            "cd g && tar cf ../g.tar --sort=name .");
	mem_free(out);
	r = tar_open(path, NULL, &e);
	assert_non_null(r);
	while ((rc = tar_next(r, &m, &e)) == 1) {
		n++;
		assert_true(!strcmp(m.name, "a.txt") || !strcmp(m.name, "h") || !strcmp(m.name, "sub/b.txt"));
		assert_int_equal(m.size, 2);
		assert_memory_equal(m.data, strcmp(m.name, "sub/b.txt") ? "1\n" : "2\n", 2);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(n, 3);
	assert_int_equal(tar_passed(r, &first), 2);
	assert_string_equal(first, "'l' (a symbolic link), 'p' (a FIFO)");
	tar_close(r);
	mem_free(path);
}

static void limits(void **state)
{
	struct tar_limits small = {.member = 100}, few = {.members = 2};
	struct err e = {0};
	struct str a = {0};
	struct tar_member m;
	struct tar_reader *r;

	(void)state;
	sample_archive(&a, NULL);
	r = tar_open_memory(a.p, a.len, "test", &small, &e);
	assert_int_equal(tar_next(r, &m, &e), 1);
	assert_int_equal(tar_next(r, &m, &e), 1);
	assert_int_equal(tar_next(r, &m, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	tar_close(r);
	e.code = 0;
	r = tar_open_memory(a.p, a.len, "test", &few, &e);
	assert_int_equal(tar_next(r, &m, &e), 1);
	assert_int_equal(tar_next(r, &m, &e), 1);
	assert_int_equal(tar_next(r, &m, &e), -1);
	tar_close(r);
	e.code = 0;
	assert_int_equal(tar_put_member(&a, "", "", 0, &e), -1);
	e.code = 0;
	assert_null(tar_open("/nonexistent.tar", NULL, &e));
	assert_int_equal(e.code, ERR_NOINPUT);
	e.code = 0;
	assert_null(tar_open(dir, NULL, &e));
	assert_int_equal(e.code, ERR_IO);
	str_release(&a);
}

/* The checksum covers every bit of a header, except for changes that keep the meaning: our parser must never return another name or size than was
 * written. */
static void own_parser_flips(void **state)
{
	struct str a = {0}, name = {0};
	struct tar_member m;

	(void)state;
	tar_put_member(&a, "key.jpg", "abc", 3, NULL);
	for (size_t bit = 0; bit < 512 * 8; bit++) {
		size_t pos = 0;

		a.p[bit / 8] ^= (char)(1 << bit % 8);
		if (tar_parse((uint8_t *)a.p, a.len, &pos, &m, &name, NULL, "test", NULL) == 1) {
			assert_string_equal(m.name, "key.jpg");
			assert_int_equal(m.size, 3);
		}
		a.p[bit / 8] ^= (char)(1 << bit % 8);
	}
	str_release(&a);
	str_release(&name);
}

static void keys(void **state)
{
	static const struct {
		const char *name, *key, *ext;
	} good[] =
	    {
		{"a/b.seg.PNG", "a/b", "seg.png"},
		{"a.b/c.jpg", "a.b/c", "jpg"},
		{"x.cls", "x", "cls"},
		{"a/b c.x", "a/b c", "x"},
	    },
	  bad[] = {{"a/b", 0, 0}, {".hidden", 0, 0}, {"a/.b.c", 0, 0}, {"a.b/c", 0, 0}, {"a.", 0, 0}, {"", 0, 0}};
	char ext[64];
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(tar_key(good[i].name, &n, ext), 0);
		assert_int_equal(n, strlen(good[i].key));
		assert_memory_equal(good[i].name, good[i].key, n);
		assert_string_equal(ext, good[i].ext);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(tar_key(bad[i].name, &n, ext), -1);
}

static void sniffing(void **state)
{
	struct str a = {0};

	(void)state;
	tar_put_member(&a, "x.y", "1", 1, NULL);
	assert_true(tar_sniff(a.p, a.len));
	assert_true(tar_sniff("\x1f\x8b\x08", 3));
	assert_false(tar_sniff("\x89PNG\r\n\x1a\n", 8));
	memset(a.p + 257, 0, 8);
	assert_false(tar_sniff(a.p, a.len));
	str_release(&a);
}

/* Archives that broke other readers: each is read or refused, with the memory and time of a small file. */
static void awkward(void **state)
{
	const char *data = getenv("DDM_TEST_DATA");
	char *folder = path_join(data ? data : "../shared/data", "awkward-archives"), **names;
	size_t n, read = 0, refused = 0;
	struct err e = {0};

	(void)state;
	if (dir_list(folder, &names, &n, &e)) {
		print_message("skip: no %s\n", folder);
		mem_free(folder);
		skip();
	}
	for (size_t i = 0; i < n; i++) {
		struct tar_limits l = {.member = 64 << 20};
		char *path = path_join(folder, names[i]);
		struct tar_reader *r;
		struct tar_member m;
		int rc = -1;

		e.code = 0;
		r = tar_open(path, &l, &e);
		while (r && (rc = tar_next(r, &m, &e)) == 1)
			;
		assert_true((rc == 0) == (e.code == 0));
		*(rc ? &refused : &read) += 1;
		if (!strcmp(names[i], "test_read_format_tar_concatenated.tar") || !strcmp(names[i], "test_compat_gzip_1.tgz"))
			assert_int_equal(rc, 0);
		if (strstr(names[i], ".zip") || !strcmp(names[i], "test_read_filter_gzip_recursive.gz"))
			assert_int_equal(rc, -1);
		tar_close(r);
		mem_free(path);
	}
	assert_true(read >= 40 && refused >= 40);
	names_free(names, n);
	mem_free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(own_archive),  cmocka_unit_test(every_truncation), cmocka_unit_test(concatenated),     cmocka_unit_test(compressed),
	    cmocka_unit_test(from_gnu_tar), cmocka_unit_test(limits),           cmocka_unit_test(own_parser_flips), cmocka_unit_test(keys),
	    cmocka_unit_test(sniffing),     cmocka_unit_test(awkward),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
