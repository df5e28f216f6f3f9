/* Makes allocations fail: malloc, calloc, realloc, aligned blocks, mmap and threads, also those of libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/faults/faults.h"

static struct fault *armed;

void memory_arm(struct fault *f)
{
	armed = f;
}

static int fails(void)
{
	if (!armed || !fault_strikes(armed))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	void *q = memalign(align, size);

	if (!q)
		return ENOMEM;
	*p = q;
	return 0;
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (fails())
		return EAGAIN;
	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
	return real(t, a, fn, arg);
}
