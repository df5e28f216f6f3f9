/* ddm-status: shows the state of trainings. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cmd/clean.h"
#include "cmd/cmd.h"
#include "cmd/statuspage.h"
#include "cmd/statustable.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "file/claim.h"
#include "file/standing.h"

static struct run_limits limits;
static double cost_per_hour, interval;
static int64_t experts;
static int watch, json;
static const char *html;

static const struct option options[] = {
    OPTION_GROUP("Trainings"),
    {.name = "--experts",
     .type = OPTION_INT,
     .value = &experts,
     .lo = 1,
     .hi = 9999,
     .arg = "K",
     .help = "the number of experts that a folder is to have: missing ones are shown",
     .said = "default: up to the highest one there",
     OPTION_ALWAYS},
    OPTION_GROUP("What is named"),
    {.name = "--stale",
     .type = OPTION_DURATION,
     .value = &limits.stale,
     .arg = "TIME",
     .help = "age of the log from which a running training is stale",
     .said = "default: 10m, or three times the longest time between its last lines",
     OPTION_ALWAYS},
    {.name = "--straggler",
     .type = OPTION_REAL,
     .value = &limits.straggler,
     .lo = 0,
     .hi = 1,
     .arg = "SHARE",
     .preset = "0.7",
     .help = "an expert whose rate is below this share of the median is named",
     OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {.name = "--cost-per-hour",
     .type = OPTION_REAL,
     .value = &cost_per_hour,
     .lo = 0,
     .hi = 1e9,
     .arg = "PRICE",
     .help = "price of an hour of one training: also show the cost so far",
     .said = "default: not shown",
     OPTION_ALWAYS},
    {.name = "--watch",
     .letter = 'w',
     .type = OPTION_FLAG,
     .value = &watch,
     .help = "show it again and again, until all are finished",
     OPTION_ALWAYS},
    {.name = "--interval",
     .type = OPTION_DURATION,
     .value = &interval,
     .arg = "TIME",
     .help = "time between two looks of --watch, and after which a browser loads the page again",
     .preset = "5s",
     .when = {{USE_NEEDS, "--watch --html"}}},
    {.name = "--json", .value = &json, .help = "print one JSON object in place of the table", .when = {{USE_AGAINST, "--html"}}},
    {.name = "--html",
     .type = OPTION_TEXT,
     .value = &html,
     .arg = "FILE",
     .help = "write a page with charts to FILE in place of the table; a browser loads it again by itself",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-status",
    .operands = "RUN...",
    .about = "Show the state of trainings: step, rate, remaining time, loss, checkpoint, node, cost. RUN is a training's folder, or a folder of "
	     "them, such as a model with its experts and router.",
    .options = options,
};

static double time_of_day(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Show the state once. */
static int show(const struct runs *r, double now, struct err *e)
{
	const int live = watch && isatty(STDOUT_FILENO);
	const struct status_style style = {.cost_per_hour = cost_per_hour, .utf8 = clean_utf8(), .errors = watch};
	struct str text = {0};

	if (html)
		return status_page(html, r, &style, program.name, now, interval < 1 ? 1 : (int)ceil(interval), e);
	if (json) {
		json_t *o = runs_json(r, now, cost_per_hour);
		char *line = jsonio_line(o);

		printf("%s\n", line);
		mem_free(line);
		json_decref(o);
	} else {
		status_table(&text, r, &style);
		if (live)
			status_redraw(str_text(&text));
		else
			printf("%s%s", str_text(&text), watch ? "\n" : "");
	}
	str_release(&text);
	return fflush(stdout) ? err_errno(e, "standard output") : 0;
}

/* Wait for the interval, or until a signal comes. Signals are blocked between the look at cmd_signal and the wait, so that none is missed. */
static void wait_interval(void)
{
	struct timespec t = {.tv_sec = (time_t)interval, .tv_nsec = (long)(fmod(interval, 1) * 1e9)};
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	if (!cmd_signal)
		pselect(0, NULL, NULL, NULL, &t, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void show_until_finished(struct runs *r, struct err *e)
{
	cmd_catch_signals();
	if (isatty(STDOUT_FILENO) && !json && !html)
		fputs("\033[2J", stdout);
	for (;;) {
		double now = time_of_day();
		int finished;

		runs_update(r, now, &limits);
		finished = runs_count(r, RUN_FINISHED);
		if (show(r, now, e) || finished == r->n)
			return;
		wait_interval();
		if (cmd_signal) {
			err_set(e, ERR_AGAIN, "interrupted: %d of %d trainings are not finished", r->n - finished, r->n);
			return;
		}
	}
}

static void show_once(struct runs *r, struct err *e)
{
	double now = time_of_day();

	runs_update(r, now, &limits);
	if (!show(r, now, e))
		status_errors(r, e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct runs r = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	if (!claim_take(&html, 1, &e) && !(html && standing_view(html, program.name, NULL, &e)) && !runs_find(&r, argv + 1, n, experts, &e)) {
		if (watch)
			show_until_finished(&r, &e);
		else
			show_once(&r, &e);
	}
	runs_release(&r);
	return cmd_end_saved(&e);
}
