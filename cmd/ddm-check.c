/* Whether files and folders are sound, for cron: silent where they are, a line for each problem where not. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "train/verify.h"

static int complete, verbose;

static const struct opt options[] = {
    {.name = "--complete", .letter = 'c', .value = &complete, .help = "what is absent or not finished is a problem too"},
    {.name = "--verbose", .letter = 'v', .value = &verbose, .help = "print the name of everything that is sound"},
    {0},
};

static const struct program program = {
    .name = "ddm-check",
    .synopsis = "[-cv] FILE...",
    .about = "Read everything, verify it, and tell every problem.",
    .options = options,
};

/* The status is the first problem's. */
static void problem(void *arg, const struct err *e)
{
	int *code = arg;

	*code = *code ? *code : e->code;
	cmd_warn("%s", e->msg);
}

static void sound(void *arg, const char *path)
{
	(void)arg;
	printf("%s\n", path);
}

int main(int argc, char **argv)
{
	int code = 0, n = cmd_start(&program, argc, argv, 1, -1), status;
	struct verify_options o = {.complete = complete, .problem = problem, .sound = verbose ? sound : NULL, .arg = &code};
	struct err e = {0};

	for (int i = 1; i <= n; i++)
		verify_path(argv[i], &o);
	status = cmd_end(&e);
	return status ? status : code;
}
