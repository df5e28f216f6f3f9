/* Stored hashes are used only if the file has not changed. The tests falsify a stored hash to see whether it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/filehash.h"
#include "file/fileio.h"
#include "tests/unit/scratch.h"

static char *file, *note;

/* Change the stored note as if the file had been hashed `seconds` later, with another hash. */
static void lie(double seconds)
{
	struct stat st;
	struct timespec times[2];
	size_t len;
	char *text = file_load(note, 1000, &len, NULL);

	assert_non_null(text);
	memset(text + len - 65, 'a', 64);
	assert_int_equal(commit_bytes(note, text, len, NULL), 0);
	assert_int_equal(stat(file, &st), 0);
	times[0] = times[1] = (struct timespec){st.st_ctim.tv_sec + (time_t)seconds, 0};
	assert_int_equal(utimensat(AT_FDCWD, note, times, 0), 0);
	mem_free(text);
}

static int believed(void)
{
	char hex[65], want[65];

	assert_int_equal(sha256_file(file, want, NULL, NULL), 0);
	assert_int_equal(filehash(file, hex, NULL), 0);
	if (hex[0] == 'a' && strspn(hex, "a") == 64)
		return 1;
	assert_string_equal(hex, want);
	return 0;
}

static void notes(void **state)
{
	char *folder = path_join(dir, "notes");
	struct timespec old[2] = {{1000000000, 5}, {1000000000, 5}};
	struct stat st;
	struct err e = {0};
	char hex[65];

	(void)state;
	file = path_join(dir, "file");
	assert_int_equal(dir_make(folder, NULL), 0);
	assert_int_equal(commit_bytes(file, "0123456789", 10, NULL), 0);
	assert_int_equal(stat(file, &st), 0);
	filehash_remember(folder, 11);
	assert_false(believed());
	note = str_new("%s/sha256-%llx-%llx", folder, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	assert_false(path_exists(note));
	filehash_remember(folder, 10);
	assert_false(believed());
	lie(100);
	assert_true(believed());
	lie(1);
	assert_false(believed());
	lie(100);
	assert_int_equal(utimensat(AT_FDCWD, file, old, 0), 0);
	assert_false(believed());
	lie(100);
	assert_true(believed());
	assert_int_equal(chmod(file, 0600), 0);
	assert_false(believed());
	lie(100);
	assert_int_equal(commit_bytes(note, "10 ", 3, NULL), 0);
	assert_false(believed());
	lie(100);
	filehash_remember(NULL, 0);
	assert_false(believed());
	filehash_remember("/nowhere", 1);
	assert_false(believed());
	mem_free(file);
	file = path_join(dir, "none");
	assert_int_equal(filehash(file, hex, &e), -1);
	filehash_remember(NULL, 0);
	mem_free(file);
	mem_free(note);
	mem_free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(notes)};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
