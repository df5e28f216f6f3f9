#include "train/trainlog.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"

/* Length up to and with the last newline. */
static off_t whole_lines(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char block[4096];

	while (end > 0) {
		off_t from = end > (off_t)sizeof block ? end - (off_t)sizeof block : 0;
		ssize_t n = fd_pread(fd, block, (size_t)(end - from), from);

		if (n < 0)
			return -1;
		for (; n > 0; n--)
			if (block[n - 1] == '\n')
				return from + n;
		end = from;
	}
	return end;
}

int trainlog_open(const char *path, struct err *e)
{
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	off_t whole = fd < 0 ? -1 : whole_lines(fd);

	if (whole >= 0 && !ftruncate(fd, whole))
		return fd;
	err_errno(e, "%s", path);
	if (fd >= 0)
		close(fd);
	return -1;
}

void trainlog_line(int fd, json_t *o)
{
	char *text = jsonio_line(o);
	size_t n = strlen(text);
	off_t before = lseek(fd, 0, SEEK_END);

	text[n] = '\n'; /* in place of the NUL: one write */
	if (fd_write(fd, text, n + 1) && before >= 0)
		(void)!ftruncate(fd, before);
	mem_free(text);
	json_decref(o);
}
