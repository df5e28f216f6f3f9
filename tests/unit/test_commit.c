/* file/commit and file/fileio: an output is whole or does not exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/runlock.h"
#include "tests/unit/scratch.h"

static char *at(const char *name)
{
	return path_join(dir, name);
}

static size_t entries(const char *path)
{
	char **names;
	size_t n;

	assert_int_equal(dir_list(path, &names, &n, NULL), 0);
	names_free(names, n);
	return n;
}

static void assert_content(const char *path, const char *want)
{
	struct err e = {0};
	size_t len;
	char *p = file_load(path, 1 << 20, &len, &e);

	assert_non_null(p);
	assert_string_equal(p, want);
	mem_free(p);
}

static void replaces_whole_file(void **state)
{
	struct err e = {0};
	struct outfile o;
	struct stat st;
	char *path = at("a");

	(void)state;
	assert_int_equal(commit_bytes(path, "old", 3, &e), 0);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	assert_int_equal(outfile_write(&o, "new!", 4, &e), 0);
	assert_content(path, "old");
	assert_int_equal(outfile_commit(&o, &e), 0);
	assert_content(path, "new!");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	assert_int_equal(outfile_write(&o, "no", 2, &e), 0);
	outfile_abort(&o);
	outfile_abort(&o);
	assert_content(path, "new!");
	assert_int_equal(entries(dir), 1);
	unlink(path);
	mem_free(path);
}

static void follows_links_and_devices(void **state)
{
	struct err e = {0};
	char *real = at("real"), *link_path = at("link");
	struct stat st;

	(void)state;
	assert_int_equal(commit_bytes(real, "1", 1, &e), 0);
	assert_int_equal(symlink("real", link_path), 0);
	assert_int_equal(commit_bytes(link_path, "2", 1, &e), 0);
	assert_content(real, "2");
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(commit_bytes("/dev/null", "x", 1, &e), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	unlink(real);
	unlink(link_path);
	mem_free(real);
	mem_free(link_path);
}

static void refusals(void **state)
{
	struct err e = {0};
	char *missing = at("no/such/file");

	(void)state;
	assert_int_equal(commit_bytes(missing, "x", 1, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	e.code = 0;
	assert_int_equal(commit_bytes(dir, "x", 1, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	e.code = 0;
	assert_int_equal(commit_bytes("x/", "x", 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(commit_bytes("/dev/full", "x", 1, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.msg, "No space"));
	mem_free(missing);
}

/* A disk that fills up: the old file stays, no temporary is left. */
static void full_disk(void **state)
{
	struct err e = {0};
	char *path = at("big"), *text = mem_zalloc(1, 200000);
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(commit_bytes(path, "old", 3, &e), 0);
	pid = fork();
	if (!pid) {
		struct rlimit r = {65536, 65536};

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &r);
		_exit(commit_bytes(path, text, 200000, &e) ? e.code : 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), ERR_IO);
	assert_content(path, "old");
	assert_int_equal(entries(dir), 1);
	unlink(path);
	mem_free(text);
	mem_free(path);
}

static void write_for_ever(const char *path)
{
	static char text[400000];

	for (int c = 0;; c = (c + 1) % 26) {
		memset(text, 'a' + c, sizeof text);
		if (commit_bytes(path, text, sizeof text, NULL))
			_exit(1);
	}
}

/* kill -9 at many moments of a loop that rewrites a file: the file is always one whole version, and the next writer of the name removes the files of
 * the killed one. */
static void killed_writer(void **state)
{
	struct err e = {0};
	char *path = at("k"), *p;
	int litter = 0;
	size_t len;

	(void)state;
	p = mem_alloc(400000);
	memset(p, 'z', 400000);
	assert_int_equal(commit_bytes(path, p, 400000, &e), 0);
	mem_free(p);
	for (uint64_t i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (!pid)
			write_for_ever(path);
		usleep(200 + (unsigned)rng_below(12000, 1, RNG_TEST, 0, i, 0));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		litter += entries(dir) > 1;
		p = file_load(path, 1 << 20, &len, &e);
		assert_non_null(p);
		assert_int_equal(len, 400000);
		for (size_t j = 1; j < len; j++)
			if (p[j] != p[0])
				fail_msg("kill %d: byte %zu is of another generation", (int)i, j);
		mem_free(p);
	}
	assert_true(litter > 5);
	assert_int_equal(commit_bytes(path, "end", 3, &e), 0);
	assert_int_equal(entries(dir), 1);
	unlink(path);
	mem_free(path);
}

static void folders(void **state)
{
	struct err e = {0};
	struct outdir d, second;
	char *path = at("deep/er/out"), *file, *sub;

	(void)state;
	assert_int_equal(outdir_begin(&d, path, &e), 0);
	sub = path_join(d.tmp, "sub");
	assert_int_equal(dir_make(sub, &e), 0);
	file = path_join(sub, "x");
	assert_int_equal(commit_bytes(file, "x", 1, &e), 0);
	assert_false(path_exists(path));
	assert_int_equal(outdir_begin(&second, path, &e), 0);
	assert_int_equal(outdir_commit(&d, &e), 0);
	mem_free(file);
	file = path_join(path, "sub/x");
	assert_content(file, "x");
	mem_free(file);
	file = path_join(second.tmp, "y");
	assert_int_equal(commit_bytes(file, "y", 1, &e), 0);
	assert_int_equal(outdir_commit(&second, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	e.code = 0;
	assert_int_equal(outdir_begin(&second, path, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	mem_free(sub);
	sub = at("deep/er");
	assert_int_equal(entries(sub), 1);
	e.code = 0;
	mem_free(path);
	path = at("deep");
	assert_int_equal(dir_remove(path, &e), 0);
	assert_int_equal(dir_remove(path, &e), 0);
	assert_int_equal(entries(dir), 0);
	mem_free(file);
	mem_free(sub);
	mem_free(path);
}

static void killed_folder(void **state)
{
	struct err e = {0};
	struct outdir d;
	char *path = at("f");
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		outdir_begin(&d, path, NULL);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(entries(dir), 1);
	assert_int_equal(outdir_begin(&d, path, &e), 0);
	assert_int_equal(entries(dir), 1);
	outdir_abort(&d);
	assert_int_equal(entries(dir), 0);
	mem_free(path);
}

/* A temporary whose process number does not exist here but which is locked: it belongs to another container. */
static void locked_temporary(void **state)
{
	struct err e = {0};
	struct outfile o;
	struct outdir d;
	char host[65] = "", *name, *path = at("c"), *folder = at("d"), *foreign_file, *foreign_dir;

	(void)state;
	assert_int_equal(gethostname(host, 64), 0);
	name = str_new(".c.tmp.%s.%ld.0", host, 99999999L);
	foreign_file = at(name);
	mem_free(name);
	name = str_new("d.tmp-%s.%ld.0", host, 99999999L);
	foreign_dir = at(name);
	mem_free(name);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	assert_int_equal(rename(o.tmp, foreign_file), 0);
	assert_int_equal(outdir_begin(&d, folder, &e), 0);
	assert_int_equal(rename(d.tmp, foreign_dir), 0);
	commit_sweep(dir, NULL);
	assert_true(path_exists(foreign_file) && path_exists(foreign_dir));
	outfile_abort(&o);
	outdir_abort(&d);
	commit_sweep(dir, NULL);
	assert_int_equal(entries(dir), 0);
	mem_free(path);
	mem_free(folder);
	mem_free(foreign_file);
	mem_free(foreign_dir);
}

static void one_writer(void **state)
{
	struct err e = {0};
	struct runlock l, l2;
	char pid_text[32];
	int pipes[2];
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		close(pipes[0]);
		if (runlock_take(&l, dir, NULL) || write(pipes[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_int_equal(runlock_take(&l2, dir, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	snprintf(pid_text, sizeof pid_text, " %ld)", (long)pid);
	assert_non_null(strstr(e.msg, pid_text));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	e.code = 0;
	assert_int_equal(runlock_take(&l2, dir, &e), 0);
	runlock_drop(&l2);
	runlock_drop(&l2);
	assert_int_equal(entries(dir), 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* A process whose lock file was removed and replaced by another's must not publish its output. */
static void lost_lock(void **state)
{
	char *lock = path_join(dir, ".lock"), *file = path_join(dir, "file"), *folder = path_join(dir, "folder"), *away = path_join(dir, "away");
	struct outfile o = {0};
	struct outdir d = {0};
	struct runlock first, second;
	struct err e = {0};

	(void)state;
	assert_int_equal(runlock_take(&first, dir, &e), 0);
	assert_int_equal(runlock_check(&first, &e), 0);
	assert_int_equal(runlock_permits(file, &e), 0);
	assert_int_equal(outfile_open(&o, file, &e), 0);
	assert_int_equal(outfile_write(&o, "x", 1, &e), 0);
	assert_int_equal(outdir_begin(&d, folder, &e), 0);
	assert_int_equal(rename(lock, away), 0);
	assert_int_equal(runlock_check(&first, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	e.code = 0;
	assert_int_equal(runlock_take(&second, dir, &e), 0);
	assert_int_equal(runlock_check(&second, &e), 0);
	assert_int_equal(outfile_commit(&o, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	e.code = 0;
	assert_int_equal(outdir_commit(&d, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	e.code = 0;
	assert_int_equal(runlock_permits("elsewhere", &e), 0);
	runlock_drop(&first);
	assert_int_equal(runlock_check(&second, &e), 0);
	assert_int_equal(commit_bytes(file, "y", 1, &e), 0);
	runlock_drop(&second);
	assert_int_equal(unlink(away), 0);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(entries(dir), 0);
	mem_free(lock);
	mem_free(file);
	mem_free(folder);
	mem_free(away);
}

/* Write in place without fsync, because only the lock is tested here. */
static void overwrite(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		_exit(1);
}

/* Forty processes increment a counter under the lock, retrying until they have it. No increment is lost although the lock file is removed again and
 * again. */
static void lock_excludes(void **state)
{
	char *path = at("n");
	struct err e = {0};
	int status;

	(void)state;
	assert_int_equal(commit_bytes(path, "0", 1, &e), 0);
	for (int p = 0; p < 40; p++) {
		if (fork())
			continue;
		for (int i = 0; i < 5; i++) {
			struct runlock l;
			char text[32];
			int64_t v;
			size_t len;
			char *old;

			while (runlock_take(&l, dir, NULL))
				usleep(100);
			old = file_load(path, 100, &len, NULL);
			if (!old || parse_i64(old, 0, 1000, &v))
				_exit(1);
			snprintf(text, sizeof text, "%d", (int)v + 1);
			overwrite(path, text);
			runlock_drop(&l);
			mem_free(old);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	assert_content(path, "200");
	unlink(path);
	mem_free(path);
}

static void loading(void **state)
{
	struct err e = {0};
	char *path = at("l");
	struct filemap m;
	size_t len;

	(void)state;
	assert_int_equal(commit_bytes(path, "hello", 5, &e), 0);
	assert_null(file_load(path, 4, &len, &e));
	assert_int_equal(e.code, ERR_DATA);
	e.code = 0;
	assert_null(file_load("/nonexistent", 4, &len, &e));
	assert_int_equal(e.code, ERR_NOINPUT);
	e.code = 0;
	assert_null(file_load("/dev/zero", 100000, &len, &e));
	assert_int_equal(e.code, ERR_DATA);
	e.code = 0;
	assert_int_equal(filemap_open(&m, path, &e), 0);
	assert_int_equal(m.len, 5);
	assert_memory_equal(m.data, "hello", 5);
	filemap_close(&m);
	assert_int_equal(commit_bytes(path, "", 0, &e), 0);
	assert_int_equal(filemap_open(&m, path, &e), 0);
	assert_int_equal(m.len, 0);
	filemap_close(&m);
	assert_int_equal(filemap_open(&m, dir, &e), -1);
	unlink(path);
	mem_free(path);
}

/* Write one output instead of running tests, so that tests/cli/commit.sh can interrupt it: "file PATH TEXT" or "folder PATH TEXT". */
static int write_once(const char *kind, const char *path, const char *text)
{
	struct err e = {0};
	struct outdir d;
	char *sub, *inner;

	if (!strcmp(kind, "file")) {
		commit_bytes(path, text, strlen(text), &e);
	} else if (!outdir_begin(&d, path, &e)) {
		sub = path_join(d.tmp, "sub");
		inner = path_join(sub, "x");
		if (dir_make(sub, &e) || commit_bytes(inner, text, strlen(text), &e))
			outdir_abort(&d);
		else
			outdir_commit(&d, &e);
		mem_free(sub);
		mem_free(inner);
	}
	if (e.code)
		fprintf(stderr, "%s\n", e.msg);
	return e.code;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(replaces_whole_file),
	    cmocka_unit_test(follows_links_and_devices),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(full_disk),
	    cmocka_unit_test(killed_writer),
	    cmocka_unit_test(folders),
	    cmocka_unit_test(killed_folder),
	    cmocka_unit_test(one_writer),
	    cmocka_unit_test(lost_lock),
	    cmocka_unit_test(lock_excludes),
	    cmocka_unit_test(loading),
	    cmocka_unit_test(locked_temporary),
	};

	if (argc == 4)
		return write_once(argv[1], argv[2], argv[3]);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
