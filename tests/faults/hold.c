/* Preloaded into a program, holds it while it waits for the disk, or lets it start no more threads, so that tests need no timing.
 *
 *	HOLD=NAME       at the first fsync of a file or folder whose path contains NAME the program makes the file HOLD_AT.held and
 *	HOLD_AT=PATH    waits until HOLD_AT.go exists (ten minutes at most); it handles signals meanwhile and goes on waiting
 *	NO_THREADS=N    the N-th thread and all later ones cannot be started
 *	FOREGROUND=1    SIGINT and SIGQUIT, which a shell without job control ignores in the background, have their usual effect */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
	if (getenv("FOREGROUND")) {
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
	}
}

static void wait_for(const char *at)
{
	static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	char name[4096];
	int fd;

	snprintf(name, sizeof name, "%s.held", at);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
	snprintf(name, sizeof name, "%s.go", at);
	for (int i = 0; access(name, F_OK) && i < 60000; i++)
		nanosleep(&pause, NULL);
}

int fsync(int fd)
{
	static atomic_int held;
	const char *name = getenv("HOLD"), *at = getenv("HOLD_AT");
	char link[64], path[4096];
	ssize_t n;

	if (name && at && !atomic_load(&held)) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		n = readlink(link, path, sizeof path - 1);
		path[n > 0 ? n : 0] = 0;
		if (strstr(path, name) && !atomic_exchange(&held, 1))
			wait_for(at);
	}
	return (int)syscall(SYS_fsync, fd);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	static atomic_int started;
	const char *first = getenv("NO_THREADS");

	if (first && atomic_fetch_add(&started, 1) + 1 >= strtol(first, NULL, 10))
		return EAGAIN;
	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	return real(t, a, fn, arg);
}
