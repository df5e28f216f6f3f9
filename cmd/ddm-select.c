/* ddm-select: keeps the samples for which a condition on their columns holds. */
#include <stdlib.h>
#include <string.h>

#include "cmd/clean.h"
#include "cmd/cmd.h"
#include "data/selection.h"
#include "plot/rulechart.h"

static struct select_request request;
static int quiet;

static const struct option_table tables[] = {{select_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Reading"),
    {"--quiet", 'q', .type = OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-select",
    .operands = "CONDITION SAMPLES...",
    .about = "Keep the samples for which a condition on their columns holds",
    .tables = tables,
    .options = options,
};

static int draw(void *arg, const struct select_report *report, const char *stamp, struct err *e)
{
	(void)arg;
	return rulechart_write(request.chart, report, stamp, e);
}

/* The table of rules. A sample that several rules drop counts in each `alone`. */
static void say_report(const struct select_report *p)
{
	char text[400];

	cmd_say("%s: kept %lld of %lld samples", program.name, (long long)p->kept, (long long)p->samples);
	if (p->skipped)
		cmd_say("%lld damaged samples skipped", (long long)p->skipped);
	cmd_say("%10s %10s %10s  rule", "drops", "in order", "only this");
	for (int i = 0; i < p->rules; i++) {
		const struct select_rule *r = &p->rule[i];

		cmd_say("%10lld %10lld %10lld  %s", (long long)r->alone, (long long)r->in_order, (long long)r->only,
		        clean_output(text, sizeof text, r->text));
		if (r->undefined)
			cmd_say("%34s%lld comparisons with a result that is not finite", "", (long long)r->undefined);
	}
	for (int i = 0; i < p->columns; i++)
		if (p->column[i].lacking)
			cmd_say("%lld samples have no '%s'", (long long)p->column[i].lacking, clean_output(text, sizeof text, p->column[i].name));
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct select_report report = {0};
	struct err e = {0};

	request = select_defaults();
	request.nsources = cmd_start(&program, argc, argv, 2, -1) - 1;
	request.condition = argv[1];
	request.sources = (const char *const *)(argv + 2);
	request.spool = getenv("TMPDIR");
	request.progress = &progress;
	request.bad = cmd_skipped;
	request.draw = draw;
	cmd_catch_signals();
	if (request.table || request.list || !cmd_binary(request.out, "-o FILE.tar or a pipe", &e))
		select_make(&request, &report, &e);
	if (report.there && !quiet)
		cmd_say("%s: exists already", request.out);
	if (report.judged && !quiet)
		say_report(&report);
	select_report_release(&report);
	return cmd_end_over(&e);
}
