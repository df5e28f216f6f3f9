/* Formats lines for the hooks that programs give to the library. */
#ifndef DDM_CORE_HOOK_H
#define DDM_CORE_HOOK_H

#include <stdarg.h>

/* Call hook(arg, line) with a formatted line, cut at 1199 bytes. Nothing if hook is NULL. */
void hook_vline(void (*hook)(void *arg, const char *line), void *arg, const char *fmt, va_list ap);

#endif
