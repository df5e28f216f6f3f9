/* ddm-diagnose: measures the errors of an ensemble's parts. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"

static const struct diagnosis *const diagnoses[] = {&diagnose_budget};
enum { COUNT = sizeof diagnoses / sizeof *diagnoses };

/* The command that an argument names; options may precede it. If there is none, the first command, whose help lists it. */
static const struct diagnosis *find(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		for (int d = 0; d < COUNT; d++)
			if (!strcmp(argv[i], diagnoses[d]->name))
				return diagnoses[d];
	return diagnoses[0];
}

int main(int argc, char **argv)
{
	const struct diagnosis *d = find(argc, argv);
	struct err e = {0};

	cmd_start(d->program, argc, argv, 1 + d->operands, 1 + d->operands);
	if (strcmp(argv[1], d->name)) {
		err_set(&e, ERR_USAGE, "unknown diagnosis '%s'; expected %s", argv[1], d->name);
		cmd_die(&e);
	}
	cmd_catch_signals();
	d->run(argv + 2, &e);
	return cmd_end(&e);
}
