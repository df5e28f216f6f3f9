/* Host memory: allocation that ends the program through a handler, and arenas. */
#include "core/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#else
#define malloc_trim(pad) ((void)(pad))
#endif

static void fail_default(size_t size)
{
	(void)size;
	__builtin_trap();
}

static void (*on_failure)(size_t) = fail_default;

/* How many mem_enter_exiting calls of this thread are open. */
static _Thread_local int exiting_calls;

static void at_exit(void)
{
	if (exiting_calls)
		on_failure(0);
}

void mem_on_failure(void (*handler)(size_t size))
{
	static int registered;

	on_failure = handler ? handler : fail_default;
	if (!registered)
		registered = !atexit(at_exit);
}

void mem_enter_exiting(void)
{
	exiting_calls++;
}

void mem_leave_exiting(void)
{
	exiting_calls--;
}

void mem_fail(size_t size)
{
	on_failure(size);
}

void *mem_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		on_failure(size);
	return p;
}

void *mem_zalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		on_failure(n > SIZE_MAX / (size ? size : 1) ? SIZE_MAX : n * size);
	return p;
}

void *mem_resize(void *p, size_t n, size_t size)
{
	size_t bytes;
	void *q;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		on_failure(SIZE_MAX);
		return NULL;
	}
	q = realloc(p, bytes ? bytes : 1);
	if (!q)
		on_failure(bytes);
	return q;
}

char *mem_strdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(mem_alloc(n), s, n);
}

char *mem_strndup(const char *s, size_t n)
{
	char *p = mem_alloc(n + 1);

	if (n) /* s may be NULL if n is 0 */
		memcpy(p, s, n);
	p[n] = 0;
	return p;
}

void mem_free(void *p)
{
	free(p);
}

void mem_trim(void)
{
	malloc_trim(0);
}

/* Large blocks ask for huge pages: a matrix product reads rows several kilobytes apart, and with small pages TLB misses would dominate. */
#define HUGE_PAGE ((size_t)2 << 20)

void *mem_try(size_t n, size_t size, const char *what, struct err *e)
{
	size_t bytes;
	void *p = NULL;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2) {
		err_set(e, ERR_NOMEM, "%s: %zu x %zu bytes cannot be allocated", what, n, size);
		return NULL;
	}
	bytes = (bytes + 63) & ~(size_t)63;
	if (posix_memalign(&p, bytes >= HUGE_PAGE ? HUGE_PAGE : 64, bytes ? bytes : 64)) {
		err_set(e, ERR_NOMEM, "%s: out of memory: %zu bytes", what, bytes);
		return NULL;
	}
	if (bytes >= HUGE_PAGE)
		madvise(p, bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
	memset(p, 0, bytes ? bytes : 64);
	return p;
}

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(16) char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->head;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (!b || b->size - b->used < size) {
		size_t want = size > 65536 ? size : 65536;

		b = mem_alloc(sizeof *b + want);
		b->used = 0;
		b->size = want;
		b->next = a->head;
		a->head = b;
	}
	p = b->data + b->used;
	b->used += size;
	return memset(p, 0, size);
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(arena_alloc(a, n), s, n);
}

void arena_release(struct arena *a)
{
	while (a->head) {
		struct arena_block *b = a->head;

		a->head = b->next;
		free(b);
	}
}
