/* Looks at the first bytes of standard input, then passes the input on from its beginning. */
#include "data/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/thread.h"
#include "file/fileio.h"

struct pump {
	pthread_t thread;
	uint8_t head[FEED_HEAD];
	size_t n;
	int out;     /* our end of the pipe that is read instead of stdin */
	int stop[2]; /* closing this pipe ends the thread */
};

int feed_open(struct feed *f, struct err *e)
{
	struct stat st;
	ssize_t n;

	*f = (struct feed){.fd = -1};
	f->seekable = !fstat(0, &st) && S_ISREG(st.st_mode) && !lseek(0, 0, SEEK_CUR);
	n = f->seekable ? fd_pread(0, f->head, sizeof f->head, 0) : fd_read(0, f->head, sizeof f->head);
	if (n < 0)
		return err_errno(e, "stdin");
	f->n = (size_t)n;
	if (f->seekable && (f->fd = fcntl(0, F_DUPFD_CLOEXEC, 3)) < 0)
		return err_errno(e, "stdin");
	return 0;
}

static int copy(int to, const struct feed *f, struct err *e)
{
	char buf[65536];
	ssize_t n;

	if (fd_write(to, f->head, f->n))
		return err_errno(e, "copy of stdin");
	while ((n = fd_read(0, buf, sizeof buf)) > 0)
		if (fd_write(to, buf, (size_t)n))
			return err_errno(e, "copy of stdin");
	return n < 0 || lseek(to, 0, SEEK_SET) ? err_errno(e, "stdin") : 0;
}

int feed_copy(struct feed *f, const char *dir, struct err *e)
{
	if (f->seekable)
		return 0;
	f->fd = file_scratch(dir, e);
	f->seekable = f->fd >= 0;
	return f->fd < 0 ? -1 : copy(f->fd, f, e);
}

/* 1 if stdin is readable or at its end; 0 if the thread shall end. */
static int wait_for_input(const struct pump *p)
{
	struct pollfd v[2] = {{.fd = 0, .events = POLLIN}, {.fd = p->stop[0], .events = POLLIN}};

	return poll(v, 2, -1) > 0 && !v[1].revents;
}

static void *pump_main(void *arg)
{
	struct pump *p = arg;
	uint8_t buf[65536];
	ssize_t n;

	if (!fd_write(p->out, p->head, p->n))
		while (wait_for_input(p) && (n = read(0, buf, sizeof buf)) > 0 && !fd_write(p->out, buf, (size_t)n))
			;
	close(p->out);
	return NULL;
}

static void pump_free(struct feed *f)
{
	close(f->pump->stop[0]);
	if (f->pump->stop[1] >= 0)
		close(f->pump->stop[1]);
	mem_free(f->pump);
	f->pump = NULL;
}

int feed_stream(struct feed *f, struct err *e)
{
	int fd[2], stop[2], failed;

	if (f->seekable)
		return 0;
	if (pipe2(fd, O_CLOEXEC))
		return err_errno(e, "pipe for stdin");
	f->fd = fd[0];
	if (pipe2(stop, O_CLOEXEC)) {
		close(fd[1]);
		return err_errno(e, "pipe for stdin");
	}
	f->pump = mem_zalloc(1, sizeof *f->pump);
	memcpy(f->pump->stop, stop, sizeof stop);
	memcpy(f->pump->head, f->head, f->n);
	f->pump->n = f->n;
	f->pump->out = fd[1];
	failed = thread_start(&f->pump->thread, pump_main, f->pump);
	if (!failed)
		return 0;
	err_set(e, ERR_NOMEM, "cannot start the thread that reads stdin: %s", strerror(failed));
	close(fd[1]);
	pump_free(f);
	return -1;
}

/* The thread waits either for stdin, which closing the pipe ends, or in a write, which fails once the reading end is closed. */
void feed_close(struct feed *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	if (!f->pump)
		return;
	close(f->pump->stop[1]);
	f->pump->stop[1] = -1;
	pthread_join(f->pump->thread, NULL);
	pump_free(f);
}
