/* Formats lines for the hooks that programs give to the library. */
#include "core/hook.h"

#include <stdio.h>

void hook_vline(void (*hook)(void *arg, const char *line), void *arg, const char *fmt, va_list ap)
{
	char line[1200];

	if (!hook)
		return;
	vsnprintf(line, sizeof line, fmt, ap);
	hook(arg, line);
}
