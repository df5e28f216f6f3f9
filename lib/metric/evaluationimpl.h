/* Shared by evaluation*.c: the request with its defaults resolved, and its stamp. */
#ifndef DDM_METRIC_EVALUATIONIMPL_H
#define DDM_METRIC_EVALUATIONIMPL_H

#include "file/stamp.h"
#include "metric/evaluation.h"

/* The request as it is carried out, and what was found for it: all that determines the numbers. Texts are borrowed; NULL and 0 are left out of the
 * stamp. */
struct eval_settled {
	struct eval_request asked;
	const char *features, *features_hash, *input; /* the recipe of the sets: metric/evalset.h */
	int dims, width, height;
	const char *resize, *colour, *copies;
	const char *captions_hash, *aesthetic_hash, *lpips_hash;
	int64_t kid_subsets, subset_size; /* those that are in use */
};

/* Puts "recipe" and "seed". */
void evaluation_stamp(struct stamp *s, const struct eval_settled *settled);

#endif
