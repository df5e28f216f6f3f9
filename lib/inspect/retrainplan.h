/* The trainings that make a model forget samples: the networks whose weights depend on them, in an order in which each can be trained. */
#ifndef DDM_INSPECT_RETRAINPLAN_H
#define DDM_INSPECT_RETRAINPLAN_H

#include "inspect/lineage.h"

struct retrain_step {
	const struct lineage_network *x; /* borrowed */
	char *out;                       /* its new folder */
	json_t *words;                   /* the command (train/traincommand.h) */
	char *note;                      /* why the command is not the recorded run but for the samples; NULL: it is */
};

struct retrain_plan {
	struct retrain_step *v;
	int n;
};

/* Plan the trainings of all networks of `l` that saw the samples and are not to be kept. shards: the folder without the samples. beside:
 * the other shards of those that were trained on clips and pictures, or NULL. model: the new
 * model's folder, for the networks of the first model; those of model I > 0 go to MODEL-startI. What the experts started from is trained before
 * them, and the router last. ERR_DATA if a training has no stamp. Release with retrainplan_release, after an error too. */
int retrainplan_make(struct retrain_plan *p, const struct lineage *l, const char *shards, const char *beside, const char *model, struct err *e);
void retrainplan_release(struct retrain_plan *p);

/* The step that trains this network, or NULL. */
const struct retrain_step *retrainplan_find(const struct retrain_plan *p, const struct lineage_network *x);

/* Fill the new model's folder with what is not trained again: every expert, router and other file or folder of `from`, shared with it
 * (file/share.h). Each appears when it is complete; what is there already is left alone. ERR_EXISTS for a network with other weights. */
int retrainplan_share(const struct retrain_plan *p, const char *from, const char *model, struct err *e);

#endif
