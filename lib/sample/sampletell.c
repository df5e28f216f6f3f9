/* Formats messages for the hooks of a sampling run. */
#include "sample/sampling.h"

#include <stdarg.h>

#include "core/hook.h"

void sampling_say(const struct sampling *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	hook_vline(r->hooks.say, r->hooks.arg, fmt, ap);
	va_end(ap);
}

void sampling_warn(const struct sampling *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	hook_vline(r->hooks.warn, r->hooks.arg, fmt, ap);
	va_end(ap);
}
