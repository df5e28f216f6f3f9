/* The hooks of a training run: messages, and the request to stop. */
#include <stdarg.h>

#include "core/hook.h"
#include "train/run.h"

int trainer_is_stopped(const struct trainer *r)
{
	return r->hooks && r->hooks->stop && *r->hooks->stop;
}

void train_say(const struct trainer *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->hooks)
		return;
	va_start(ap, fmt);
	hook_vline(r->hooks->say, r->hooks->arg, fmt, ap);
	va_end(ap);
}

void train_warn(const struct trainer *r, const char *line)
{
	if (r->hooks && r->hooks->warn)
		r->hooks->warn(r->hooks->arg, line);
}
