/* ddm-diagnose: measures the loss of a model, the errors of an ensemble's parts, the stability of its trajectories, and what of it goes with the
 * quality of samples. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"

static const struct program program = {
    .name = "ddm-diagnose",
    .operands = "COMMAND MODEL|TABLE [SHARDS|LAW|QUALITY]",
    .about = "Measure a model. COMMAND is loss, which measures the loss of its velocity on samples of SHARDS; budget, which splits the error of its "
	     "velocity, against the optimum of SHARDS or LAW, into the error of the experts and of their weights; trajectories, which measures how "
	     "stable sampling is under each routing policy and how well the chosen experts fit; correlation, which compares a TABLE of trajectories "
	     "with the QUALITY of each policy's samples; times, which divides the times between experts by a TABLE or a result of loss; or "
	     "uncertainty, which measures how well the learned "
	     "uncertainties of experts tell samples of their own cluster from others.",
    .options = diagnose_options,
};

static const struct diagnosis *const diagnoses[] = {&diagnose_loss,        &diagnose_budget,        &diagnose_trajectories,
                                                    &diagnose_correlation, &diagnose_times_command, &diagnose_uncertainty};
enum { COUNT = sizeof diagnoses / sizeof *diagnoses };

static const struct diagnosis *find(const char *name, struct err *e)
{
	for (int d = 0; d < COUNT; d++)
		if (!strcmp(name, diagnoses[d]->name))
			return diagnoses[d];
	err_set(e, ERR_USAGE, "unknown command '%s'; expected loss, budget, trajectories, correlation, times or uncertainty", name);
	return NULL;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	int n = cmd_start(&program, argc, argv, 2, 3) - 1;
	const struct diagnosis *d = find(argv[1], &e);

	if (d && (n < d->least || n > d->most))
		err_set(&e, ERR_USAGE, "%s takes %s", d->name, d->operands);
	if (e.code)
		cmd_die(&e);
	if (!diagnose_request.count)
		diagnose_request.count = d->count;
	cmd_catch_signals();
	d->run(n, argv + 2, &e);
	return cmd_end(&e);
}
