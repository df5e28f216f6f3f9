/* ddm-check: verifies files and folders. Prints a line for each problem, and nothing if there is none, as cron jobs need. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "inspect/pin.h"
#include "inspect/verify.h"

static int complete, pinned, verbose;

static const struct option options[] = {
    {.name = "--complete",
     .letter = 'c',
     .value = &complete,
     .help = "report absent and unfinished parts as problems, too",
     .when = {{USE_AGAINST, "--pinned"}}},
    {.name = "--pinned", .value = &pinned, .help = "FILE is a table of ddm-info --pin: report everything that is not what it pins", OPTION_ALWAYS},
    {.name = "--verbose", .letter = 'v', .value = &verbose, .help = "also print the name of everything without a problem", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-check",
    .operands = "FILE...",
    .about = "Read everything, verify it, and report every problem.",
    .options = options,
};

/* Report a problem. Each message is printed when the next one comes, the last by cmd_end. The exit status is that of the first problem. */
static void problem(void *arg, const struct err *e)
{
	struct err *first = arg;

	if (e->code == ERR_NOMEM) { /* later files would fail for the same reason */
		if (first->code)
			cmd_warn("%s", first->msg);
		cmd_exit(e);
	}
	if (first->code) {
		cmd_warn("%s", first->msg);
		memcpy(first->msg, e->msg, sizeof first->msg);
	} else {
		*first = *e;
	}
}

static void sound(void *arg, const char *path)
{
	(void)arg;
	printf("%s\n", path);
}

int main(int argc, char **argv)
{
	int n = cmd_start(&program, argc, argv, 1, -1);
	struct err first = {0};
	struct progress show = cmd_progress();
	struct verify_options o = {
	    .complete = complete, .problem = problem, .sound = verbose ? sound : NULL, .arg = &first, .progress = verbose ? NULL : &show};

	for (int i = 1; i <= n; i++)
		pinned ? pin_verify(argv[i], &o) : verify_path(argv[i], &o);
	return cmd_end(&first);
}
