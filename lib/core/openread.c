/* Opens files for reading, and gives up on a named pipe that nobody writes to. */
#include "core/openread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"

enum { WAIT_SECONDS = 10, WAIT_MS = 20 };

/* Whether a pipe has a writer. On an empty pipe tee(2) fails with EAGAIN if a writer has it open, and returns 0 if there is none. Any other
 * outcome counts as a writer. */
static int has_writer(int fd, int probe)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, WAIT_MS))
		return 1;
	return tee(fd, probe, 1, SPLICE_F_NONBLOCK) != 0;
}

static int wait_for_writer(int fd)
{
	double end = clock_seconds() + WAIT_SECONDS;
	int probe[2], found;

	if (pipe2(probe, O_CLOEXEC | O_NONBLOCK))
		return 1;
	while (!(found = has_writer(fd, probe[1])) && clock_seconds() < end)
		;
	close(probe[0]);
	close(probe[1]);
	return found;
}

static int refuse(int fd, struct err *e, const char *path, const char *why)
{
	close(fd);
	return err_set(e, ERR_NOINPUT, "%s: %s", path, why);
}

static int open_as(const char *path, int pipes, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return err_errno(e, "%s", path);
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode)) {
		if (!pipes)
			return refuse(fd, e, path, "is a pipe; a file is needed here");
		if (!wait_for_writer(fd))
			return refuse(fd, e, path, "is a pipe without a writer");
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

int open_read(const char *path, struct err *e)
{
	return open_as(path, 1, e);
}

int open_seekable(const char *path, struct err *e)
{
	return open_as(path, 0, e);
}

FILE *open_stream(const char *path, struct err *e)
{
	int fd = open_read(path, e);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");

	if (fd >= 0 && !f) {
		err_errno(e, "%s", path);
		close(fd);
	}
	return f;
}
