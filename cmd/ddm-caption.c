/* ddm-caption: gives samples captions, from a column of theirs or from a command that looks at them. */
#include <stdlib.h>

#include "cmd/captioncommand.h"
#include "cmd/cmd.h"

static struct caption_request request;
static int quiet;

static const struct option_table tables[] = {{caption_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Reading"),
    {"--quiet", 'q', .type = OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-caption",
    .operands = "SAMPLES...",
    .about = "Give samples captions, from a column of theirs or from a command that looks at them",
    .tables = tables,
    .options = options,
};

static void say_report(const struct caption_report *p)
{
	cmd_say("%s: %lld samples, %lld got a caption, %lld keep theirs, %lld have none", program.name, (long long)p->samples,
	        (long long)p->captioned, (long long)p->kept, (long long)p->without);
	if (p->skipped)
		cmd_say("%lld damaged samples skipped", (long long)p->skipped);
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct caption_report report = {0};
	struct err e = {0};

	request = caption_defaults();
	request.nsources = cmd_start(&program, argc, argv, 1, -1);
	request.sources = (const char *const *)(argv + 1);
	request.spool = getenv("TMPDIR");
	request.progress = &progress;
	request.run = captioncommand_run;
	request.bad = cmd_skipped;
	cmd_catch_signals();
	if (!cmd_binary(request.out, "-o FILE.tar or a pipe", &e))
		caption_make(&request, &report, &e);
	if (report.there && !quiet)
		cmd_say("%s: exists already", request.out);
	else if ((!e.code || e.code == ERR_SKIPPED) && !quiet)
		say_report(&report);
	return cmd_end_over(&e);
}
