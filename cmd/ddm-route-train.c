/* Trains the router: which cluster a noisy sample came from. */
#include "cmd/cmd.h"
#include "cmd/training.h"

static int last;

static const struct opt options[] = {
    OPT_GROUP("What to train"),
    {"--last", 0, OPT_FLAG, &last, 0, 0, NULL, "keep the last weights, not those of the best held-out cross-entropy", NULL, NULL},
    TRAINING_OPTIONS,
    {0},
};

static const struct program program = {
    "ddm-route-train",
    "[--last] " TRAINING_SYNOPSIS "-o DIR SHARDS",
    "Train the router, which tells the cluster from the noisy sample, on a whole data set",
    options,
};

int main(int argc, char **argv)
{
	struct err e = {0};

	training_defaults(NET_CLASSIFIER, program.name);
	training.model = "dit-s/8";
	cmd_start(&program, argc, argv, 1, 1);
	training.o.keep_best = !last;
	training_run(argv[1], &e);
	return cmd_end_saved(&e); /* what a signal leaves is saved */
}
