/* Prints the progress of training. On a terminal, one line with step, loss, speed and remaining time is rewritten. Elsewhere only validations are
 * printed; train.jsonl holds the rest. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/training.h"

static struct {
	struct train_step line; /* the last line of the log; step -1: none yet */
	int64_t first;          /* first step reported; -1: none yet */
	double began, last;     /* times of that report and of the last line drawn */
	int quiet;              /* 1: only errors and warnings are printed */
	int open;               /* 1: the terminal's line is not complete, and will be erased */
} shown = {.line = {.step = -1}, .first = -1};

static void clear_line(void)
{
	if (shown.open)
		fprintf(stderr, "\r\033[K");
	shown.open = 0;
}

static void say(void *arg, const char *line)
{
	(void)arg;
	if (shown.quiet)
		return;
	clear_line();
	cmd_say("%s", line);
}

static void warn(void *arg, const char *line)
{
	(void)arg;
	clear_line();
	cmd_warn("%s", line);
}

/* Set text to ", ETA 1:02:03", from the mean speed of this process so far, including validations and checkpoints; "" if it is not known yet. */
static void put_eta(char text[40], int64_t step, int64_t steps)
{
	int64_t done = step - shown.first, s;

	text[0] = 0;
	if (shown.first < 0 || done < 1 || step >= steps)
		return;
	s = (int64_t)((clock_seconds() - shown.began) / (double)done * (double)(steps - step));
	snprintf(text, 40, ", ETA %" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
}

/* Print a line with the numbers of s and the count `step`, which may be later than s. complete: end the line, and show val_loss. */
static void put_line(const struct train_step *s, int64_t step, int terminal, int complete)
{
	char done[16] = "", val[40] = "", eta[40], headroom[64] = "";
	int tera = s->flops >= 1e13;

	if (terminal)
		snprintf(done, sizeof done, " (%d%%)", (int)(100 * step / s->steps));
	if (!isnan(s->val_loss) && complete)
		snprintf(val, sizeof val, ", val_loss %.5f", s->val_loss);
	if (s->memory.total)
		snprintf(headroom, sizeof headroom, ", %.1f of %.1f GB free", (double)s->memory.free * 1e-9, (double)s->memory.total * 1e-9);
	put_eta(eta, step, s->steps);
	clear_line();
	fprintf(stderr, "step %" PRId64 "/%" PRId64 "%s: loss %.5f%s, %.0f images/s, %.*f %cFLOP/s (%.0f%% of peak)%s%s%s", step, s->steps, done,
	        s->loss, val, s->images_per_s, tera, s->flops * (tera ? 1e-12 : 1e-9), tera ? 'T' : 'G', 100 * s->peak_fraction, eta, headroom,
	        complete ? "\n" : "");
	shown.open = !complete;
}

/* A new line of the log. */
static void tell(void *arg, const struct train_step *s)
{
	int terminal = isatty(STDERR_FILENO), validated = !isnan(s->val_loss);

	(void)arg;
	shown.line = *s;
	if (shown.quiet || (!terminal && !validated))
		return;
	shown.last = clock_seconds();
	put_line(s, s->step, terminal, !terminal || validated || s->step == s->steps);
}

/* Called after each step: redraws the terminal's line, at most six times a second. */
static void tick(void *arg, int64_t step, int64_t steps)
{
	double now = clock_seconds();
	char eta[40];

	(void)arg;
	if (shown.first < 0) {
		shown.first = step;
		shown.began = now;
	}
	if (shown.quiet || !isatty(STDERR_FILENO) || now - shown.last < 1. / 6 || step == steps)
		return;
	shown.last = now;
	if (shown.line.step >= 0) {
		put_line(&shown.line, step, 1, 0);
		return;
	}
	put_eta(eta, step, steps);
	clear_line();
	fprintf(stderr, "step %" PRId64 "/%" PRId64 " (%d%%)%s", step, steps, (int)(100 * step / steps), eta);
	shown.open = 1;
}

struct train_hooks training_hooks(int quiet)
{
	shown.quiet = quiet;
	return (struct train_hooks){
	    .step = tell, .tick = tick, .say = say, .warn = warn, .stop = &cmd_signal, .save = &training_save, .hung = training_hung};
}
