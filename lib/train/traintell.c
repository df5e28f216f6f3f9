/* The hooks of a training run: messages, and the request to stop. */
#include <inttypes.h>
#include <stdarg.h>

#include "core/hook.h"
#include "core/mem.h"
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

void train_say_what_is_left(const struct trainer *r, struct err *e)
{
	int n;
	int64_t *steps;
	struct err was = *e;

	*e = (struct err){0};
	checkpoint_steps(r->train_dir, &steps, &n, NULL);
	if (n)
		err_set(e, was.code, "%.800s; step %" PRId64 " is saved: run the same command again", was.msg, steps[0]);
	else
		err_set(e, was.code, "%.800s; no step is saved yet: run the same command again", was.msg);
	mem_free(steps);
}
