/* Formats messages for the hooks of a sampling. */
#include "sample/sampling.h"

#include <stdarg.h>
#include <stdio.h>

static void tell_line(const struct sampling *r, void (*tell)(void *arg, const char *line), const char *fmt, va_list ap)
{
	char line[1200];

	vsnprintf(line, sizeof line, fmt, ap);
	tell(r->hooks.arg, line);
}

void sampling_say(const struct sampling *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->hooks.say)
		return;
	va_start(ap, fmt);
	tell_line(r, r->hooks.say, fmt, ap);
	va_end(ap);
}

void sampling_warn(const struct sampling *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->hooks.warn)
		return;
	va_start(ap, fmt);
	tell_line(r, r->hooks.warn, fmt, ap);
	va_end(ap);
}
