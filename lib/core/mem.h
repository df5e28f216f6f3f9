/* Host memory. Small allocations never return NULL: on failure the handler is called, and a program's handler ends it with
 * ERR_NOMEM. Large ones (arenas, pictures, files), whose size comes from input or options, go through mem_try, which fails
 * with an error that names the size. */
#ifndef DDM_CORE_MEM_H
#define DDM_CORE_MEM_H

#include <stddef.h>

#include "core/err.h"

/* Set the handler. It is called with the size of the failed allocation (0: unknown) and must not return. The default aborts. */
void mem_on_failure(void (*handler)(size_t size));

/* Call the handler, for a failed allocation in another library. */
void mem_fail(size_t size);

/* Put these around calls into a library that calls exit() when it is out of memory, as libarchive does. An exit() between them, in the same
 * thread, counts as a failed allocation. They nest. Call mem_on_failure first. */
void mem_enter_exiting(void);
void mem_leave_exiting(void);

void *mem_alloc(size_t size);                     /* caller frees with mem_free; size 0 gives a unique pointer */
void *mem_zalloc(size_t n, size_t size);          /* zeroed; n * size is checked for overflow */
void *mem_resize(void *p, size_t n, size_t size); /* realloc; p may be NULL */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* n bytes of s, which holds no fewer, and a NUL */
void mem_free(void *p);                     /* NULL is allowed */
/* Return freed memory to the system, as far as the C library can: between a set-up with large temporaries and work that lasts. */
void mem_trim(void);

/* n * size zeroed bytes aligned to 64, and 2 MiB or more to 2 MiB; NULL and ERR_NOMEM on failure or overflow. `what` names the thing in the message.
 * Free with mem_free. */
void *mem_try(size_t n, size_t size, const char *what, struct err *e);

/* A bump allocator for many small things that die together. Zero-initialised is ready for use. */
struct arena {
	struct arena_block *head;
};

void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned to 16; lives until arena_release */
char *arena_strdup(struct arena *a, const char *s);
void arena_release(struct arena *a);

#endif
