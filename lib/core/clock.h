/* Time for logs and progress; no result depends on it. */
#ifndef DDM_CORE_CLOCK_H
#define DDM_CORE_CLOCK_H

#include <stdint.h>

double clock_seconds(void); /* monotonic, from an arbitrary start */

/* How a long library call reports progress. It calls fn(arg, what, done, total) now and then; total is 0 when unknown. fn may be NULL. If fn
 * returns non-zero, the call stops with ERR_AGAIN. */
struct progress {
	int (*fn)(void *arg, const char *what, int64_t done, int64_t total);
	void *arg;
};

int progress_tell(const struct progress *p, const char *what, int64_t done, int64_t total); /* p may be NULL */

#endif
