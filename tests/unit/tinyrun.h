/* Options of a training run that takes seconds, for tests. */
#ifndef DDM_TESTS_TINYRUN_H
#define DDM_TESTS_TINYRUN_H

#include "data/dataset.h"
#include "net/trunkconfig.h"
#include "train/trainer.h"

/* Nine steps with batches of six, and a checkpoint after every fourth step. data (the folder of shards) and out are borrowed. */
static inline struct train_options tiny_run(const struct net_def *def, const char *data, const char *out)
{
	struct train_options o = train_defaults(def->role);

	o.net.def = def;
	trunk_edit(&o.net)->patch = 2;
	trunk_edit(&o.net)->hidden = 16;
	trunk_edit(&o.net)->depth = 2;
	trunk_edit(&o.net)->heads = 2;
	trunk_edit(&o.net)->mlp_ratio = 2;
	o.shards = data;
	o.out = out;
	o.cluster = def == &net_router ? DATASET_ALL : 0;
	o.steps = 9;
	o.batch = 6;
	o.optimizer = OPTIMIZER_ADAMW;
	o.lr = 5e-3;
	o.warmup = 0;
	o.schedule = SCHEDULE_CONSTANT;
	o.precision = PRECISION_F32;
	o.seed = 7;
	o.program = "test";
	o.checkpoint.seconds = 0;
	o.checkpoint.steps = 4;
	return o;
}

#endif
