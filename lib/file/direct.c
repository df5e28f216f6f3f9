/* Two buffers, and the thread that writes them. */
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

struct direct {
	int fd;
	void *memory;
	char *buffer[BUFFERS];
	size_t filled; /* bytes in the buffer that is being filled, buffer[put % BUFFERS] */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned put, written; /* full buffers that were handed over, and those that have been written */
	int ending, error;     /* errno of the first write that failed */
};

static int set_direct(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Returns 0 or errno. A disk with larger blocks refuses with EINVAL, and a write that stopped within a block leaves a position that no direct write
 * may begin at: the rest goes through the page cache. */
static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t put = write(fd, p, n);

		if (put > 0) {
			p += put;
			n -= (size_t)put;
		}
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && (errno != EINVAL || !(fcntl(fd, F_GETFL) & O_DIRECT)))
			return errno;
		if ((put < 0 || put % BLOCK) && set_direct(fd, 0))
			return errno;
	}
	return 0;
}

static void *write_buffers(void *arg)
{
	struct direct *d = arg;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		unsigned k = d->written;
		int error;

		while (d->written == d->put && !d->ending)
			pthread_cond_wait(&d->changed, &d->lock);
		if (d->written == d->put)
			break;
		error = d->error;
		pthread_mutex_unlock(&d->lock);
		if (!error)
			error = write_all(d->fd, d->buffer[k % BUFFERS], BUFFER);
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
	mem_free(d->memory);
	mem_free(d);
}

struct direct *direct_begin(int fd)
{
	struct direct *d;
	struct statfs fs;
	void *memory;

	if (fstatfs(fd, &fs) || (fs.f_type != EXT4 && fs.f_type != XFS))
		return NULL;
	memory = mem_try(BUFFERS * BUFFER + BLOCK, 1, "buffers", NULL);
	if (!memory)
		return NULL;
	d = mem_zalloc(1, sizeof *d);
	d->fd = fd;
	d->memory = memory;
	for (size_t i = 0; i < BUFFERS; i++)
		d->buffer[i] = (char *)memory + (BLOCK - (uintptr_t)memory % BLOCK) % BLOCK + i * BUFFER;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	if (set_direct(fd, 1) || thread_start(&d->thread, write_buffers, d)) {
		set_direct(fd, 0);
		free_direct(d);
		return NULL;
	}
	return d;
}

/* Let the thread write the full buffer, and wait until the other one is free. Returns the error so far. */
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

		memcpy(d->buffer[d->put % BUFFERS] + d->filled, from, piece);
		d->filled += piece;
		from += piece;
		if (d->filled == BUFFER && (errno = hand_over(d)))
			return -1;
	}
	return 0;
}

int direct_end(struct direct *d)
{
	const char *rest;
	size_t whole;
	int error;

	if (!d)
		return 0;
	rest = d->buffer[d->put % BUFFERS];
	whole = d->filled / BLOCK * BLOCK;
	pthread_mutex_lock(&d->lock);
	d->ending = 1;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	error = d->error;
	if (!error)
		error = write_all(d->fd, rest, whole);
	if (set_direct(d->fd, 0) && !error)
		error = errno;
	if (!error)
		error = write_all(d->fd, rest + whole, d->filled - whole);
	free_direct(d);
	errno = error;
	return error ? -1 : 0;
}
