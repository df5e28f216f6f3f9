/* Keeps long sequences of bytes in blocks of a temporary file. */
#include "file/spill.h"

#include <errno.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/fileio.h"

enum { BLOCK = 1 << 14 };

struct spill {
	const char *dir;
	int fd;         /* -1: not made yet */
	int64_t blocks; /* of the file */
	int64_t *idle;  /* [nidle] of these, those that no sequence uses */
	size_t nidle, cap;
};

struct spill *spill_new(const char *dir)
{
	struct spill *s = mem_zalloc(1, sizeof *s);

	s->dir = dir;
	s->fd = -1;
	return s;
}

void spill_free(struct spill *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	mem_free(s->idle);
	mem_free(s);
}

uint64_t spilled_bytes(const struct spilled *q)
{
	return (uint64_t)q->blocks * BLOCK + q->end.len;
}

static void note_block(int64_t **list, size_t *n, size_t *cap, int64_t block)
{
	if (*n == *cap) {
		*cap = *cap ? 2 * *cap : 16;
		*list = mem_resize(*list, *cap, sizeof **list);
	}
	(*list)[(*n)++] = block;
}

/* Move the end of the sequence, a whole block, to the file. */
static int block_write(struct spill *s, struct spilled *q, struct err *e)
{
	int64_t block = s->nidle ? s->idle[s->nidle - 1] : s->blocks;

	if (s->fd < 0 && (s->fd = file_scratch(s->dir, e)) < 0)
		return -1;
	for (size_t done = 0; done < BLOCK;) {
		ssize_t n = pwrite(s->fd, q->end.p + done, BLOCK - done, (off_t)(block * BLOCK + (int64_t)done));

		if (n < 0 && errno != EINTR)
			return err_errno(e, "%s: write a temporary file", s->dir);
		done += n > 0 ? (size_t)n : 0;
	}
	if (s->nidle)
		s->nidle--;
	else
		s->blocks++;
	note_block(&q->block, &q->blocks, &q->cap, block);
	str_reset(&q->end);
	return 0;
}

int spill_add(struct spill *s, struct spilled *q, const void *p, size_t n, struct err *e)
{
	const char *bytes = p;

	while (s && q->end.len + n >= BLOCK) {
		size_t part = BLOCK - q->end.len;

		str_add(&q->end, bytes, part);
		if (block_write(s, q, e))
			return -1;
		bytes += part;
		n -= part;
	}
	if (n)
		str_add(&q->end, bytes, n);
	return 0;
}

int spill_each(const struct spill *s, const struct spilled *q, int (*take)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
               struct err *e)
{
	char *block = q->blocks ? mem_alloc(BLOCK) : NULL;
	int rc = 0;

	for (size_t i = 0; i < q->blocks && !rc; i++) {
		ssize_t n = fd_pread(s->fd, block, BLOCK, (off_t)(q->block[i] * BLOCK));

		if (n != BLOCK)
			rc = n < 0 ? err_errno(e, "%s: read a temporary file", s->dir)
			           : err_set(e, ERR_IO, "%s: a temporary file was cut short", s->dir);
		else
			rc = take(arg, block, BLOCK, e);
	}
	mem_free(block);
	return !rc && q->end.len ? take(arg, q->end.p, q->end.len, e) : rc;
}

void spill_clear(struct spill *s, struct spilled *q)
{
	for (size_t i = 0; i < q->blocks; i++)
		note_block(&s->idle, &s->nidle, &s->cap, q->block[i]);
	mem_free(q->block);
	str_release(&q->end);
	*q = (struct spilled){0};
}
