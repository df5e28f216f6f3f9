/* The actions that a decoder of ddm-ingest may still do in its sandbox. Each is tried in a process of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"

#ifdef HAVE_MEDIA

#include "cmd/ingest.h"

static char file[] = "/tmp/ddm-sandbox.XXXXXX";
static int opened; /* descriptor of it, from before */
static uint64_t memory;

/* Each returns 0 or -1 with errno. */
static int try_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) < 0 ? -1 : 0;
}

static int try_local_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM, 0) < 0 ? -1 : 0;
}

static int try_exec(void)
{
	char *argv[] = {(char *)"true", NULL};

	return execve("/bin/true", argv, NULL);
}

static int try_ptrace(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? -1 : 0;
}

static int try_read_open(void)
{
	return open(file, O_RDONLY) < 0 ? -1 : 0;
}

static int try_write_open(void)
{
	return open(file, O_WRONLY) < 0 ? -1 : 0;
}

/* FFmpeg's libavutil seeds random colours from it: a byte of it can be read. */
static int try_random(void)
{
	char c;
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	return fd < 0 || read(fd, &c, 1) != 1 || close(fd) ? -1 : 0;
}

/* More times than there may be descriptors. */
static int try_random_often(void)
{
	for (int i = 0; i < 100; i++)
		if (try_random())
			return -1;
	return 0;
}

static int try_random_write(void)
{
	return open("/dev/urandom", O_RDWR) < 0 ? -1 : 0;
}

static int try_null(void)
{
	return open("/dev/null", O_RDONLY) < 0 ? -1 : 0;
}

/* Not even through a path that leads to it. */
static int try_random_by_another_name(void)
{
	return open("/dev/../dev/urandom", O_RDONLY) < 0 ? -1 : 0;
}

/* Only the descriptor that is handed out may be duplicated. */
static int try_dup(void)
{
	return dup(opened) < 0 ? -1 : 0;
}

static int try_create(void)
{
	return open("/tmp/ddm-sandbox-made", O_RDONLY | O_CREAT, 0600) < 0 ? -1 : 0;
}

static int try_truncate(void)
{
	return truncate(file, 0);
}

static int try_unlink(void)
{
	return unlink(file);
}

static int try_rename(void)
{
	return rename(file, "/tmp/ddm-sandbox-renamed");
}

static int try_fork(void)
{
	return (int)syscall(SYS_fork) < 0 ? -1 : 0;
}

static int try_signal(void)
{
	return kill(getppid(), 0);
}

static int try_grow(void)
{
	char c = 'x';

	return write(opened, &c, 1) == 1 ? 0 : -1;
}

static int try_listing(void)
{
	char buf[512];

	return (int)syscall(SYS_getdents64, opened, buf, sizeof buf) < 0 ? -1 : 0;
}

static int try_work(void)
{
	char c = 0;
	void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || munmap(p, 65536) || lseek(opened, 0, SEEK_SET))
		return -1;
	return read(opened, &c, 1) == 1 && c == 'a' ? 0 : -1;
}

static int try_map(size_t len, int prot, int flags)
{
	return mmap(NULL, len, prot, flags | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int try_small(void)
{
	return try_map((size_t)16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static int try_large(void)
{
	return try_map((size_t)80 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static int try_large_shared(void)
{
	return try_map((size_t)80 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
}

enum { DIED = 200, NO_SANDBOX };

/* The errno of the attempt, 0, or DIED if the kernel killed the process for it. */
static int attempt(int (*what)(void), int bare)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGXFSZ, SIG_IGN);
		if (sandbox_enter(memory, bare, NULL))
			_exit(NO_SANDBOX);
		_exit(what() ? errno : 0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGSYS);
		return DIED;
	}
	return WEXITSTATUS(status);
}

static void its_work_is_allowed(void **state)
{
	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip(); /* a kernel without seccomp */
	assert_int_equal(attempt(try_work, 0), 0);
	assert_int_equal(attempt(try_work, 1), 0);
}

static void sockets_and_programs_kill(void **state)
{
	static int (*const all[])(void) = {try_socket, try_local_socket, try_exec, try_ptrace};

	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		assert_int_equal(attempt(all[i], 0), DIED);
}

static void nothing_is_changed(void **state)
{
	static int (*const all[])(void) = {try_write_open, try_create, try_truncate, try_unlink, try_rename, try_fork, try_signal, try_listing};
	struct stat st;

	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		assert_int_equal(attempt(all[i], 0), EPERM);
	for (int bare = 0; bare < 2; bare++) /* a limit, not the filter */
		assert_int_equal(attempt(try_grow, bare), EFBIG);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_size, 1);
	assert_int_equal(access("/tmp/ddm-sandbox-made", F_OK), -1);
}

/* Neither a decoder of files nor one of graphs may; without the filter (--no-sandbox) reading works. */
static void no_file_is_opened(void **state)
{
	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip();
	assert_int_equal(attempt(try_read_open, 0), EPERM);
	assert_int_equal(attempt(try_read_open, 1), 0);
}

/* Without it every filter with a random default colour busy-waits on clock(). The descriptor was opened before the sandbox. */
static void randomness_is_handed_out(void **state)
{
	static int (*const refused[])(void) = {try_random_write, try_null, try_random_by_another_name, try_dup};

	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip();
#if !defined(__x86_64__) && !defined(__aarch64__)
	skip(); /* the handler supports only these two processors */
#endif
	assert_int_equal(attempt(try_random, 0), 0);
	assert_int_equal(attempt(try_random_often, 0), 0);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		assert_int_equal(attempt(refused[i], 0), EPERM);
}

/* Memory of every kind. */
static void memory_is_limited(void **state)
{
	(void)state;
	if (attempt(try_work, 0) == NO_SANDBOX)
		skip();
	if (!SANDBOX_LIMITS_MEMORY)
		skip(); /* the address sanitizer's shadow needs terabytes */
	for (int bare = 0; bare < 2; bare++) {
		memory = (uint64_t)64 << 20;
		assert_int_equal(attempt(try_small, bare), 0);
		assert_int_equal(attempt(try_large, bare), ENOMEM);
		assert_int_equal(attempt(try_large_shared, bare), ENOMEM);
		memory = 0;
		assert_int_equal(attempt(try_large, bare), 0);
	}
}

static int setup(void **state)
{
	(void)state;
	opened = mkstemp(file);
	return opened < 0 || write(opened, "a", 1) != 1;
}

static int teardown(void **state)
{
	(void)state;
	close(opened);
	return unlink(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(its_work_is_allowed), cmocka_unit_test(sockets_and_programs_kill), cmocka_unit_test(nothing_is_changed),
	    cmocka_unit_test(no_file_is_opened),   cmocka_unit_test(randomness_is_handed_out),  cmocka_unit_test(memory_is_limited),
	};

	return cmocka_run_group_tests_name("sandbox", tests, setup, teardown);
}

#else

static void sandbox(void **state)
{
	(void)state;
	skip(); /* built without media: there is none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sandbox)};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}

#endif
