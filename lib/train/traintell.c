/* Lines to the hooks of a training. */
#include <stdarg.h>
#include <stdio.h>

#include "train/run.h"

void train_say(const struct trainer *r, const char *fmt, ...)
{
	char line[1200];
	va_list ap;

	if (!r->hooks || !r->hooks->say)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	r->hooks->say(r->hooks->arg, line);
}

void train_warn(const struct trainer *r, const char *line)
{
	if (r->hooks && r->hooks->warn)
		r->hooks->warn(r->hooks->arg, line);
}
