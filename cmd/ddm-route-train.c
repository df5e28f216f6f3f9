/* ddm-route-train: trains the router, which predicts the cluster that a noisy sample came from. */
#include "cmd/cmd.h"
#include "cmd/training.h"

static struct train_options request;

static const struct option_table tables[] = {{train_router_options, &request}, {train_common_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-route-train",
    .about = "Train the router, which predicts the cluster of a noisy sample, on a whole data set",
    .tables = tables,
    .options = training_options,
    .operands = "SHARDS",
};

int main(int argc, char **argv)
{
	struct err e = {0};

	request = train_defaults(NET_CLASSIFIER);
	cmd_start(&program, argc, argv, 1, 1);
	request.program = program.name;
	request.shards = argv[1];
	training_run(&request, &e);
	return cmd_end_saved(&e); /* after a signal the state is saved */
}
