/* Opens a shared library at run time, so that the programs run without it. */
#ifndef DDM_CORE_SHAREDLIB_H
#define DDM_CORE_SHAREDLIB_H

#include <stddef.h>

#include "core/err.h"

struct sharedlib_function {
	const char *name;
	void *place; /* a pointer to a function pointer */
};

/* Open the first of `names` (NULL at the end) that is found, and set all n functions. The library stays open. ERR_UNAVAILABLE, with the
 * system's reason, if none can be opened or a function is missing. title: the library's name; package: where to get it, for the message. */
int sharedlib_open(const char *const *names, const char *title, const char *package, const struct sharedlib_function *functions, size_t n,
                   struct err *e);

#endif
