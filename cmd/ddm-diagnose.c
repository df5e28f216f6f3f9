/* ddm-diagnose: measures the errors of an ensemble's parts. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "core/str.h"

static const struct diagnosis *const diagnoses[] = {&diagnose_budget, &diagnose_loss};
enum { COUNT = sizeof diagnoses / sizeof *diagnoses };

/* All commands, for -h and completion; main fills the list. */
static const struct program *programs[COUNT + 1];
static const struct program overview = {.name = "ddm-diagnose", .operands = "COMMAND MODEL SHARDS|LAW", .commands = programs};

/* The command that an argument names; options may precede it. NULL: none. */
static const struct diagnosis *find(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		for (int d = 0; d < COUNT; d++)
			if (!strcmp(argv[i], diagnoses[d]->name))
				return diagnoses[d];
	return NULL;
}

static void refuse(const char *command)
{
	struct str known = {0};
	struct err e = {0};

	for (int i = 0; i < COUNT; i++)
		str_printf(&known, "%s%s", i ? ", " : "", diagnoses[i]->name);
	err_set(&e, ERR_USAGE, "unknown diagnosis '%s'; expected one of %s", command, str_text(&known));
	cmd_die(&e);
}

int main(int argc, char **argv)
{
	const struct diagnosis *d = find(argc, argv);
	struct err e = {0};

	for (int i = 0; i < COUNT; i++)
		programs[i] = diagnoses[i]->program;
	if (d)
		cmd_start(d->program, argc, argv, 1 + d->operands, 1 + d->operands);
	else
		cmd_start(&overview, argc, argv, 1, -1);
	if (!d || strcmp(argv[1], d->name) != 0)
		refuse(argv[1]);
	cmd_catch_signals();
	d->run(argv + 2, &e);
	return cmd_end(&e);
}
