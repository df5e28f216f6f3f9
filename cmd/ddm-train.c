/* Trains one expert on one cluster, or the monolith on all. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/training.h"
#include "core/str.h"
#include "data/dataset.h"

static const char *cluster = "";
static const char *const predictions[] = {"v", "x0", NULL}, *const conditions[] = {"none", "class", "cluster", NULL};
static int predict, condition;
static double class_dropout = .1;

static const struct opt options[] = {
    {"--cluster", 0, OPT_TEXT, &cluster, 0, 0, "K|all",
     "the cluster to train on, counted from 0; all: the monolith", NULL, NULL},
    {"--predict", 0, OPT_CHOICE, &predict, 0, 0, "v|x0",
     "what the network predicts: velocity or data (default v)", predictions, NULL},
    {"--condition", 0, OPT_CHOICE, &condition, 0, 0, "WHAT",
     "none, class or cluster: what the network is told (default none)", conditions, NULL},
    {"--class-dropout", 0, OPT_REAL, &class_dropout, 0, .999, "P",
     "how often the class is withheld, for guidance (default .1)", NULL, NULL},
    TRAINING_OPTIONS,
    {0},
};

static const struct program program = {
    "ddm-train",
    "--cluster K|all [--predict v|x0] [--condition WHAT] [--class-dropout P] " TRAINING_SYNOPSIS "-o DIR SHARDS",
    "Train one diffusion expert on one cluster of a data set, or the monolith on all of it",
    options,
};

int main(int argc, char **argv)
{
	struct err e = {0};
	int64_t k = DATASET_ALL;

	training_defaults(NET_DIT, program.name);
	cmd_start(&program, argc, argv, 1, 1);
	if (!*cluster)
		err_set(&e, ERR_USAGE, "--cluster is missing: a number from 0, or all");
	else if (strcmp(cluster, "all") && parse_i64(cluster, 0, INT32_MAX, &k))
		err_set(&e, ERR_USAGE, "--cluster: \"%s\" is neither a number from 0 nor all", cluster);
	if (e.code)
		cmd_die(&e);
	training.o.cluster = (int)k;
	training.o.prediction = predict ? PREDICT_X0 : PREDICT_VELOCITY;
	training.o.condition = (enum condition_kind)condition;
	training.o.class_dropout = class_dropout;
	training_run(argv[1], &e);
	return cmd_end(&e);
}
