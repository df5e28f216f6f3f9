/* Trains one expert on one cluster, or the monolith on all. */
#include <string.h>

#include "cmd/clusterarg.h"
#include "cmd/cmd.h"
#include "cmd/training.h"
#include "core/str.h"
#include "data/dataset.h"

static const char *cluster = "";
static const char *const conditions[] = {"none", "class", "cluster", NULL};
static int predict, condition;
static double class_dropout = -1, text_drop = .1;
static int64_t text_tokens;
static const char *null_text, *from, *weighting;

static const struct opt options[] = {
    OPT_GROUP("What to train"),
    {"--cluster", 0, OPT_TEXT, &cluster, 0, 0, "K|all",
     "the cluster to train on, by number from 0 or name; all: the monolith", NULL, NULL},
    {"--predict", 0, OPT_CHOICE, &predict, 0, 0, "WHAT", "what the network predicts (default velocity)", prediction_names, NULL},
    {"--weighting", 0, OPT_TEXT, &weighting, 0, 0, "HOW",
     "of the loss: none, velocity, min-snr[:GAMMA], edm[:STD], sigmoid[:BIAS] (default: velocity for x0, else none)", NULL, NULL},
    {"--condition", 0, OPT_CHOICE, &condition, 0, 0, "WHAT",
     "none, class or cluster: what the network is told (default none)", conditions, NULL},
    {"--class-dropout", 0, OPT_REAL, &class_dropout, 0, .999, "P",
     "how often the class or cluster is withheld (default: class .1, cluster 0)", NULL, NULL},
    {"--text-tokens", 0, OPT_INT, &text_tokens, 1, 65536, "N",
     "most tokens of a text (default: those of the first sample; pixart: 120)", NULL, NULL},
    {"--text-drop", 0, OPT_REAL, &text_drop, 0, .999, "P",
     "how often the text is withheld, for guidance (default .1)", NULL, NULL},
    {"--null-text", 0, OPT_TEXT, &null_text, 0, 0, "FILE",
     "features of the empty text (default SHARDS/null-text.npy)", NULL, NULL},
    {"--pretrained", 0, OPT_TEXT, &from, 0, 0, "DIR",
     "start from a network of another prediction, size or condition", NULL, NULL},
    TRAINING_OPTIONS,
    {0},
};

static const struct program program = {
    "ddm-train",
    "--cluster K|all [--predict WHAT] [--weighting HOW] [--condition WHAT] [--class-dropout P] [--text-tokens N] [--text-drop P] [--null-text FILE] "
    "[--pretrained DIR] " TRAINING_SYNOPSIS "-o DIR SHARDS",
    "Train one diffusion expert on one cluster of a data set, or the monolith on all of it",
    options,
};

int main(int argc, char **argv)
{
	struct err e = {0};
	int64_t k = DATASET_ALL;

	training_defaults(NET_EXPERT, program.name);
	cmd_start(&program, argc, argv, 1, 1);
	if (!*cluster)
		err_set(&e, ERR_USAGE, "--cluster is missing: a number from 0, or all");
	else
		cluster_argument(cluster, argv[1], &k, &e);
	if (e.code || (weighting && weighting_parse(weighting, &training.o.objective.weighting, &e)))
		cmd_die(&e);
	training.o.cluster = (int)k;
	training.o.objective.prediction = (enum prediction)predict;
	training.o.condition = (enum condition_kind)condition;
	training.o.class_dropout = class_dropout >= 0 ? class_dropout : condition == CONDITION_CLUSTER ? 0 : .1;
	training.o.net.text_tokens = text_tokens;
	training.o.text_drop = text_drop;
	training.o.null_text = null_text;
	training.o.from = from;
	training_run(argv[1], &e);
	return cmd_end_saved(&e); /* what a signal leaves is saved */
}
