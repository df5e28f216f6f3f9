/* Prints what ddm-forget did and what remains to be done: as a script for sh, or as JSON. */
#ifndef DDM_CMD_FORGETREPORT_H
#define DDM_CMD_FORGETREPORT_H

#include "data/forget.h"
#include "inspect/retrainplan.h"

struct forget_report {
	const char *shards, *out; /* the old and the new folder of shards */
	const char *from, *model; /* the old and the new folder of the model; from NULL: none was given */
	const struct forget_result *result;
	const struct lineage *lineage;
	const struct retrain_plan *plan;
};

/* A script that makes the new model, with what saw the samples as comments. */
void forgetreport_script(const struct forget_report *r);
void forgetreport_json(const struct forget_report *r);

/* What the clusters themselves owe to the samples, as one sentence. */
const char *forgetreport_partition(const struct forget_result *r);

#endif
