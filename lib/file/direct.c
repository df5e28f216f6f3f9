/* Two buffers, and a thread that writes the full one while the caller fills the other. */
#include "file/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/thread.h"

/* BLOCK: addresses, positions and lengths of direct writes are multiples of it. */
enum { BLOCK = 4096, BUFFER = 4 << 20, BUFFERS = 2, EXT4 = 0xef53, XFS = 0x58465342 };

/* The thread lives until the file is written. With a thread for each buffer (core/ahead.h) checkpoints took half as long again. */
struct direct {
	int fd;
	char *buffer;  /* BUFFERS of them */
	size_t filled; /* bytes in the buffer that is being filled, number put % BUFFERS */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned put, written; /* full buffers handed over, and those that have been written */
	int ending, error;     /* errno of the first write that failed */
};

static char *buffer_of(const struct direct *d, unsigned number)
{
	return d->buffer + number % BUFFERS * (size_t)BUFFER;
}

static int set_direct(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Returns 0 or errno. A direct write is refused with EINVAL if the disk's blocks are larger than BLOCK, or after a write that stopped within a block;
 * the rest then goes through the page cache. */
static int write_fully(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t put = write(fd, p, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EINVAL && fcntl(fd, F_GETFL) & O_DIRECT)
			put = set_direct(fd, 0);
		else if (!put)
			return EIO;
		if (put < 0)
			return errno;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

static void *write_buffers(void *arg)
{
	struct direct *d = arg;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		int error;

		while (d->written == d->put && !d->ending)
			pthread_cond_wait(&d->changed, &d->lock);
		if (d->written == d->put)
			break;
		error = d->error;
		pthread_mutex_unlock(&d->lock);
		if (!error)
			error = write_fully(d->fd, buffer_of(d, d->written), BUFFER);
		pthread_mutex_lock(&d->lock);
		d->error = error;
		d->written++;
		pthread_cond_broadcast(&d->changed);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static void free_direct(struct direct *d)
{
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	mem_free(d->buffer);
	mem_free(d);
}

struct direct *direct_begin(int fd)
{
	struct direct *d;
	struct statfs fs;
	char *buffer;

	if (fstatfs(fd, &fs) || (fs.f_type != EXT4 && fs.f_type != XFS))
		return NULL;
	buffer = mem_try(BUFFERS, BUFFER, "buffers", NULL);
	if (!buffer)
		return NULL;
	d = mem_zalloc(1, sizeof *d);
	d->fd = fd;
	d->buffer = buffer;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	if (set_direct(fd, 1) || thread_start(&d->thread, write_buffers, d)) {
		set_direct(fd, 0);
		free_direct(d);
		return NULL;
	}
	return d;
}

/* Hand the full buffer to the thread, and wait until the other one is free. Returns the error so far. */
static int hand_over(struct direct *d)
{
	int error;

	pthread_mutex_lock(&d->lock);
	d->put++;
	pthread_cond_broadcast(&d->changed);
	while (d->put - d->written == BUFFERS)
		pthread_cond_wait(&d->changed, &d->lock);
	error = d->error;
	pthread_mutex_unlock(&d->lock);
	d->filled = 0;
	return error;
}

int direct_write(struct direct *d, const void *p, size_t n)
{
	for (const char *from = p, *end = from + n; from < end;) {
		size_t room = BUFFER - d->filled, piece = (size_t)(end - from) < room ? (size_t)(end - from) : room;

		memcpy(buffer_of(d, d->put) + d->filled, from, piece);
		d->filled += piece;
		from += piece;
		if (d->filled == BUFFER && (errno = hand_over(d)))
			return -1;
	}
	return 0;
}

/* Wait until all full buffers are written. */
static void end_thread(struct direct *d)
{
	pthread_mutex_lock(&d->lock);
	d->ending = 1;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
}

int direct_end(struct direct *d)
{
	const char *rest = buffer_of(d, d->put);
	size_t whole = d->filled / BLOCK * BLOCK;
	int error;

	end_thread(d);
	error = d->error ? d->error : write_fully(d->fd, rest, whole);
	if (set_direct(d->fd, 0) && !error)
		error = errno;
	if (!error)
		error = write_fully(d->fd, rest + whole, d->filled - whole);
	free_direct(d);
	errno = error;
	return error ? -1 : 0;
}

void direct_abort(struct direct *d)
{
	if (!d)
		return;
	end_thread(d);
	free_direct(d);
}
