/* Opens a weaker model that guides another one (autoguidance, arXiv 2406.02507): each expert is led away from what the guide predicts for the same
 * sample and condition. Good guides are weak in the same way: an earlier checkpoint, a smaller network, or one trained for less time. */
#ifndef DDM_DIFFUSION_ENSEMBLEGUIDE_H
#define DDM_DIFFUSION_ENSEMBLEGUIDE_H

#include "diffusion/ensemble.h"

struct ensemble_guide {
	struct ensemble model;
	struct expert *expert; /* (k of the guided model) for struct mixture; absent where the guided model's expert is */
	int single;            /* the guide is one network, which guides every expert */
};

/* Open `dir` as the guide of `guided`, which was opened with options *o but for `step`. A folder that is one network guides every expert; else expert
 * k guides expert k. Its router is not opened. ERR_USAGE if the guide differs from the guided model in what a prediction depends on: the size of
 * samples, the classes or the text; unless it is one network, in the partition, the number of clusters, or the times of the experts; with
 * o->own, in the path or the kind of prediction. Other errors as by ensemble_open. On a device with its own memory the two share what is free.
 * Release with ensemble_guide_release, before `guided` and after failure too. */
int ensemble_guide_open(struct ensemble_guide *g, struct ensemble *guided, const char *dir, const struct ensemble_options *o, struct err *e);
/* As ensemble_order, for the guides of these experts of the guided model. arg is the struct ensemble_guide. */
void ensemble_guide_order(void *arg, const int *expert, int n);
void ensemble_guide_release(struct ensemble_guide *g);

#endif
