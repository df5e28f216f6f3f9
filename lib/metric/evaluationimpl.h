/* Shared by evaluation*.c: the request with its defaults resolved, and its stamp. */
#ifndef DDM_METRIC_EVALUATIONIMPL_H
#define DDM_METRIC_EVALUATIONIMPL_H

#include "file/stamp.h"
#include "metric/evaluation.h"

/* The request with its defaults resolved, and the facts found while reading: everything that determines the numbers. Texts are borrowed; members that
 * are NULL or 0 are left out of the stamp. */
struct eval_settled {
	struct eval_request asked;
	const char *features, *features_hash, *input; /* the recipe of the sets (metric/evalset.h) */
	int dims, width, height;
	const char *resize, *colour, *copies;
	const char *captions_hash, *aesthetic_hash, *lpips_hash;
	int64_t kid_subsets, subset_size; /* the values in use */
	int frames, draws;                /* of clips; 0: pictures */
	double fps;
	const char *motion_hash, *clip_score, *fvd, *i3d_hash;
};

/* Put "recipe" and "seed" into the stamp. */
void evaluation_stamp(struct stamp *s, const struct eval_settled *settled);

#endif
