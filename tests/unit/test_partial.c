/* file/partial: a partial output is continued if all of it is unchanged, and dropped otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/partial.h"
#include "tests/unit/scratch.h"

enum { HEAD = 8, ROW = 1000 };

static char *out, *part, *state;

static char *slurp(const char *path, size_t *len)
{
	struct err e = {0};
	char *p = file_load(path, 1 << 20, len, &e);

	assert_non_null(p);
	return p;
}

static void put(struct partial *p, char c, size_t n)
{
	struct err e = {0};

	for (size_t i = 0; i < n; i++)
		assert_int_equal(outfile_write(&p->out, &c, 1, &e), 0);
}

/* A head, a complete row and half a row, left as after a signal. */
static void leave_half(void)
{
	const int64_t mark[PARTIAL_MARKS] = {1, 2, 3, 4};
	struct partial p;
	struct err e = {0};

	unlink(part);
	unlink(state);
	assert_int_equal(partial_open(&p, out, "work", HEAD, &e), 0);
	put(&p, 'h', HEAD);
	assert_int_equal(partial_is_kept(&p), 0);
	put(&p, 'a', ROW);
	assert_int_equal(partial_save(&p, mark, &e), 0);
	assert_int_equal(partial_is_kept(&p), 1);
	put(&p, 'b', ROW / 2);
	partial_close(&p, 1);
	assert_int_equal(path_exists(out), 0);
	assert_int_equal(path_exists(part) && path_exists(state), 1);
}

/* Open it again and finish it; returns whether it was continued. */
static int ends(const char *same)
{
	struct partial p;
	struct err e = {0};
	size_t len;
	char *all;
	int on = partial_open(&p, out, same, HEAD, &e);

	assert_true(on == 0 || on == 1);
	if (!on) {
		for (int i = 0; i < PARTIAL_MARKS; i++)
			assert_int_equal(p.mark[i], 0);
		put(&p, 'h', HEAD);
		put(&p, 'a', ROW);
	} else {
		for (int i = 0; i < PARTIAL_MARKS; i++)
			assert_int_equal(p.mark[i], i + 1);
	}
	put(&p, 'b', ROW);
	assert_int_equal(partial_commit(&p, &e), 0);
	partial_close(&p, 0);
	assert_int_equal(path_exists(part) || path_exists(state), 0);
	all = slurp(out, &len);
	assert_int_equal(len, HEAD + 2 * ROW);
	for (size_t i = HEAD; i < len; i++)
		assert_int_equal(all[i], i < HEAD + ROW ? 'a' : 'b');
	mem_free(all);
	unlink(out);
	return on;
}

static void goes_on(void **s)
{
	(void)s;
	for (int i = 0; i < 2; i++) {
		leave_half();
		assert_int_equal(ends("work"), 1);
	}
}

static void other_work(void **s)
{
	(void)s;
	leave_half();
	assert_int_equal(ends("another work"), 0);
}

static void poke(const char *path, off_t at)
{
	int fd = open(path, O_WRONLY);

	assert_int_equal(pwrite(fd, "?", 1, at), 1);
	close(fd);
}

static void damaged_bytes(void **s)
{
	(void)s;
	for (off_t at = HEAD; at < HEAD + ROW; at += 333) {
		leave_half();
		poke(part, at);
		assert_int_equal(ends("work"), 0);
	}
	leave_half();
	poke(part, HEAD + ROW); /* not part of the saved state */
	assert_int_equal(ends("work"), 1);
	leave_half();
	assert_int_equal(truncate(part, HEAD + ROW - 1), 0);
	assert_int_equal(ends("work"), 0);
	leave_half();
	unlink(part);
	assert_int_equal(ends("work"), 0);
}

/* The state with each byte changed, and truncated at each byte: never another result, never more than exists. */
static void damaged_state(void **s)
{
	struct err e = {0};
	size_t len;
	char *was;
	int on = 0;

	(void)s;
	leave_half();
	was = slurp(state, &len);
	for (size_t i = 0; i < len; i++) {
		char c = was[i];

		leave_half();
		was[i] = c == '9' ? 'x' : '9';
		assert_int_equal(commit_bytes(state, was, len, &e), 0);
		was[i] = c;
		if (strchr(was, '[') && i > (size_t)(strchr(was, '[') - was)) /* the caller's numbers, which have no meaning here */
			continue;
		on += ends("work");
		leave_half();
		assert_int_equal(commit_bytes(state, was, i, &e), 0);
		assert_int_equal(ends("work"), 0);
	}
	mem_free(was);
	assert_true(on <= 8); /* a letter of a key */
	leave_half();
	unlink(state);
	assert_int_equal(ends("work"), 0);
}

static void absurd_states(void **s)
{
	static const char *const states[] = {"[]",
	                                     "{}",
	                                     "{\"same\": \"work\", \"bytes\": -1, \"hash\": \"0\", \"mark\": [1, 2, 3, 4]}",
	                                     "{\"same\": \"work\", \"bytes\": 9223372036854775807, \"hash\": \"0\", \"mark\": [1, 2, 3, 4]}",
	                                     "{\"same\": \"work\", \"bytes\": 0, \"hash\": \"2d06800538d394c2\", \"mark\": [1, 2, 3, 4]}",
	                                     "{\"same\": \"work\", \"bytes\": 8, \"hash\": \"2d06800538d394c2\", \"mark\": [1, 2, 3]}",
	                                     "{\"same\": \"work\", \"bytes\": 8, \"hash\": \"2d06800538d394c2\", \"mark\": [1, 2, 3, -4]}",
	                                     "{\"same\": \"work\", \"bytes\": 8, \"hash\": \"2d06800538d394c2\", \"mark\": [1, 2, 3, \"4\"]}"};
	struct err e = {0};

	(void)s;
	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		leave_half();
		assert_int_equal(commit_bytes(state, states[i], strlen(states[i]), &e), 0);
		assert_int_equal(ends("work"), 0);
	}
}

static void not_kept(void **s)
{
	struct partial p;
	struct err e = {0};

	(void)s;
	assert_int_equal(partial_open(&p, out, NULL, 0, &e), 0);
	put(&p, 'a', ROW);
	assert_int_equal(partial_save(&p, (const int64_t[PARTIAL_MARKS]){1}, &e), 0);
	assert_int_equal(partial_is_kept(&p), 0);
	partial_close(&p, 1);
	leave_half();
	assert_int_equal(partial_open(&p, out, "work", HEAD, &e), 1);
	partial_close(&p, 0);
	assert_int_equal(path_exists(part) || path_exists(state), 0);
	assert_int_equal(partial_open(&p, out, "work", HEAD, &e), 0);
	put(&p, 'a', ROW);
	partial_close(&p, 1); /* nothing was saved */
	assert_int_equal(path_exists(part) || path_exists(state), 0);
	assert_int_equal(partial_open(&p, "/dev/null", "work", HEAD, &e), 0);
	put(&p, 'a', ROW);
	assert_int_equal(partial_save(&p, (const int64_t[PARTIAL_MARKS]){1}, &e), 0);
	assert_int_equal(partial_commit(&p, &e), 0);
	partial_close(&p, 0);
}

static void one_at_a_time(void **s)
{
	struct partial p, q;
	struct err e = {0};

	(void)s;
	leave_half();
	assert_int_equal(partial_open(&p, out, "work", HEAD, &e), 1);
	assert_int_equal(partial_open(&q, out, "work", HEAD, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	partial_close(&q, 0);
	e = (struct err){0};
	put(&p, 'b', ROW);
	assert_int_equal(partial_commit(&p, &e), 0);
	partial_close(&p, 0);
	unlink(out);
}

static void tidied(void **s)
{
	struct err e = {0};

	(void)s;
	leave_half();
	partial_tidy(out);
	assert_int_equal(path_exists(part) && path_exists(state), 1);
	unlink(part);
	partial_tidy(out);
	assert_int_equal(path_exists(state), 0);
	assert_int_equal(commit_bytes("here", "", 0, &e), 0);
	assert_int_equal(commit_bytes(".here.part.json", "{}", 2, &e), 0);
	partial_tidy("here");
	assert_int_equal(path_exists(".here.part.json"), 0);
}

static int names(void **s)
{
	if (make_dir(s) || chdir(dir))
		return -1;
	out = path_join(dir, "out.tar");
	part = path_join(dir, ".out.tar.part");
	state = path_join(dir, ".out.tar.part.json");
	return 0;
}

static int no_names(void **s)
{
	mem_free(out);
	mem_free(part);
	mem_free(state);
	return chdir("/") ? -1 : remove_dir(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(goes_on),       cmocka_unit_test(other_work), cmocka_unit_test(damaged_bytes), cmocka_unit_test(damaged_state),
	    cmocka_unit_test(absurd_states), cmocka_unit_test(not_kept),   cmocka_unit_test(one_at_a_time), cmocka_unit_test(tidied),
	};

	return cmocka_run_group_tests(tests, names, no_names);
}
