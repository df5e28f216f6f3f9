/* ddm-train: trains one expert on one cluster, or the monolith on all clusters. */
#include "cmd/cmd.h"
#include "cmd/training.h"

static struct train_options request;

static const struct option_table tables[] = {{train_expert_options, &request}, {train_common_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-train",
    .about = "Train one diffusion expert on one cluster of a data set, or the monolith on all of it",
    .tables = tables,
    .options = training_options,
    .operands = "SHARDS",
};

int main(int argc, char **argv)
{
	struct err e = {0};

	request = train_defaults(NET_EXPERT);
	cmd_start(&program, argc, argv, 1, 1);
	request.program = program.name;
	request.shards = argv[1];
	training_run(&request, &e);
	return cmd_end_saved(&e); /* after a signal the state is saved */
}
