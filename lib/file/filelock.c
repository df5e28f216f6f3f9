/* Locks files; the kernel releases the locks when the process ends. */
#include "file/filelock.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

void lock_host(char out[65])
{
	if (gethostname(out, 64))
		out[0] = 0;
	out[64] = 0;
	for (char *c = out; *c; c++)
		if (*c == '/')
			*c = '_';
}

int lock_soon(int fd)
{
	enum { TRIES = 40 };
	static const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};

	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EINTR && (errno != EWOULDBLOCK || i >= TRIES))
			return -1;
		if (errno == EWOULDBLOCK)
			nanosleep(&pause, NULL);
	}
	return 0;
}

int lock_is_current(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void lock_sign(int fd)
{
	char host[65], *who;

	lock_host(host);
	who = str_new("%s %ld\n", host, (long)getpid());
	if (!ftruncate(fd, 0) && lseek(fd, 0, SEEK_SET) == 0)
		(void)!fd_write(fd, who, strlen(who));
	mem_free(who);
}

void lock_signed(int fd, char *who, size_t size)
{
	ssize_t n = fd_pread(fd, who, size - 1, 0);

	who[n > 0 ? n : 0] = 0;
	who[strcspn(who, "\n")] = 0;
	for (char *c = who; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}
