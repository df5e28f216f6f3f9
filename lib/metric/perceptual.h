/* LPIPS of sets of pictures: diversity within groups of samples, and distances of samples to their references. */
#ifndef DDM_METRIC_PERCEPTUAL_H
#define DDM_METRIC_PERCEPTUAL_H

#include <stdint.h>

#include "core/err.h"
#include "metric/evalset.h"
#include "net/lpips.h"

/* How samples are grouped: all in one; by class (.cls); by text (.txt); by folder, the path of the key before the name. */
enum perceptual_group { GROUP_NONE, GROUP_CLASS, GROUP_TEXT, GROUP_FOLDER };

extern const char *const perceptual_group_names[]; /* "none", "class", "text", "folder", NULL */

struct perceptual {
	double mean, se; /* over groups, or pairs; se is 0 if there is only one */
	int64_t n;       /* groups, or pairs */
};

/* The mean over groups of the mean LPIPS distance of all pairs in a group; groups of one picture are left out. One pass suffices: distances are
 * squared differences of vectors, and the mean of those over all pairs is twice the variance. Every group keeps a vector of lpips_width doubles, so
 * many groups may be ERR_NOMEM. ERR_USAGE: there is no pair, or `source` is standard input; ERR_DATA: a sample lacks the member that names its group,
 * or pictures differ in size or are smaller than LPIPS_LEAST. o: how samples are read and resized. */
int perceptual_diversity(struct perceptual *out, struct lpips *n, const char *source, enum perceptual_group by, const struct evalset_options *o,
                         struct err *e);

/* The mean distance between pictures of a and b with equal keys. ERR_DATA if the keys do not come in the same order; otherwise errors as above. */
int perceptual_pairs(struct perceptual *out, struct lpips *n, const char *a, const char *b, const struct evalset_options *o, struct err *e);

#endif
