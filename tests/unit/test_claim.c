/* file/claim: one writer of an output at a time, however the others ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "tests/unit/scratch.h"

static char *at(const char *name)
{
	return path_join(dir, name);
}

static size_t entries(void)
{
	char **names;
	size_t n;

	assert_int_equal(dir_list(dir, &names, &n, NULL), 0);
	names_free(names, n);
	return n;
}

/* A process that claims n names, or opens the first as an output, and then waits to be ended. */
static pid_t holder(const char *const *path, size_t n, int opens)
{
	struct outfile o;
	int pipes[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		if ((opens ? outfile_open(&o, path[0], NULL) : claim_take(path, n, NULL)) || write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &c, 1), 1);
	close(pipes[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void second_writer_is_refused(void **state)
{
	char *path = at("a"), pid_text[32];

	(void)state;
	for (int opens = 0; opens < 2; opens++) {
		struct err e = {0};
		pid_t pid = holder((const char *const[]){path}, 1, opens);

		snprintf(pid_text, sizeof pid_text, " %ld)", (long)pid);
		assert_int_equal(commit_bytes(path, "x", 1, &e), -1);
		assert_int_equal(e.code, ERR_EXISTS);
		assert_non_null(strstr(e.msg, path));
		assert_non_null(strstr(e.msg, pid_text));
		e.code = 0;
		assert_int_equal(claim_take((const char *const[]){path}, 1, &e), -1);
		assert_int_equal(e.code, ERR_EXISTS);
		assert_false(path_exists(path));
		end(pid);
		/* A killed process holds no claim, and the next one removes its files. */
		e.code = 0;
		assert_int_equal(commit_bytes(path, "x", 1, &e), 0);
		assert_int_equal(entries(), 1);
		unlink(path);
	}
	mem_free(path);
}

static void all_or_none(void **state)
{
	char *a = at("a"), *b = at("b"), *c = at("c");
	struct err e = {0};
	pid_t pid = holder((const char *const[]){b}, 1, 0);

	(void)state;
	assert_int_equal(claim_take((const char *const[]){c, NULL, "-", b, a}, 5, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_non_null(strstr(e.msg, b));
	assert_int_equal(entries(), 1);
	end(pid);
	e.code = 0;
	assert_int_equal(claim_take((const char *const[]){c, NULL, "-", b, a, "/dev/null", dir}, 7, &e), 0);
	assert_int_equal(entries(), 3);
	assert_int_equal(commit_bytes(b, "x", 1, &e), 0);
	assert_int_equal(entries(), 3);
	pid = fork();
	if (!pid) {
		claim_drop_all(); /* the child's claims end, not its parent's */
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(entries(), 3);
	claim_drop_all();
	assert_int_equal(entries(), 1);
	unlink(b);
	mem_free(a);
	mem_free(b);
	mem_free(c);
}

static void one_file_twice(void **state)
{
	char *a = at("a"), *again = path_join(dir, "./a"), *link_path = at("link");
	struct err e = {0};
	struct outfile o, second;

	(void)state;
	assert_int_equal(claim_take((const char *const[]){a, again}, 2, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(commit_bytes(a, "x", 1, &e), 0);
	assert_int_equal(symlink("a", link_path), 0);
	assert_int_equal(claim_take((const char *const[]){a, link_path}, 2, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(outfile_open(&o, a, &e), 0);
	assert_int_equal(outfile_open(&second, link_path, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	outfile_abort(&o);
	assert_int_equal(entries(), 2);
	unlink(a);
	unlink(link_path);
	mem_free(a);
	mem_free(again);
	mem_free(link_path);
}

/* Names of the greatest length, and a folder that does not exist: the writer's message says what is wrong. */
static void odd_names(void **state)
{
	char name[256], *path, *other;
	struct err e = {0};

	(void)state;
	memset(name, 'n', 255);
	name[255] = 0;
	path = at(name);
	name[254] = 'm';
	other = at(name);
	assert_int_equal(claim_take((const char *const[]){path, other}, 2, &e), 0);
	assert_int_equal(entries(), 2);
	assert_int_equal(commit_bytes(path, "x", 1, &e), 0);
	claim_drop_all();
	assert_int_equal(entries(), 1);
	unlink(path);
	mem_free(path);
	path = at("no/such");
	assert_int_equal(claim_take((const char *const[]){path}, 1, &e), 0);
	assert_int_equal(commit_bytes(path, "x", 1, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	mem_free(path);
	mem_free(other);
}

static void dead_ones_are_swept(void **state)
{
	char *a = at("a"), *b = at("b");
	pid_t dead = holder((const char *const[]){a}, 1, 0), live = holder((const char *const[]){b}, 1, 0);

	(void)state;
	end(dead);
	assert_int_equal(entries(), 2);
	commit_sweep(dir, NULL);
	assert_int_equal(entries(), 1);
	end(live);
	commit_sweep(dir, NULL);
	assert_int_equal(entries(), 0);
	mem_free(a);
	mem_free(b);
}

/* Twenty processes each check under a claim whether a file exists and write it if not, as programs do: exactly one finds no file. */
static void one_of_many(void **state)
{
	char *path = at("m");
	int status, wrote = 0;

	(void)state;
	for (int p = 0; p < 20; p++) {
		char text[16];
		int n = snprintf(text, sizeof text, "%d", p);

		if (fork())
			continue;
		while (claim_take((const char *const[]){path}, 1, NULL))
			usleep(1000);
		if (path_exists(path))
			_exit(2); /* the claim stays, as after a kill */
		_exit(commit_bytes(path, text, (size_t)n, NULL) ? 3 : 0);
	}
	while (wait(&status) > 0) {
		assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2));
		wrote += WEXITSTATUS(status) == 0;
	}
	assert_int_equal(wrote, 1);
	commit_sweep(dir, NULL);
	assert_int_equal(entries(), 1);
	unlink(path);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(second_writer_is_refused),
	    cmocka_unit_test(all_or_none),
	    cmocka_unit_test(one_file_twice),
	    cmocka_unit_test(odd_names),
	    cmocka_unit_test(one_of_many),
	    cmocka_unit_test(dead_ones_are_swept),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
