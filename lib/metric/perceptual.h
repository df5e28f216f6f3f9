/* LPIPS of sets of pictures: the diversity within groups of samples, and the distance of samples to their references. */
#ifndef DDM_METRIC_PERCEPTUAL_H
#define DDM_METRIC_PERCEPTUAL_H

#include <stdint.h>

#include "core/err.h"
#include "metric/evalset.h"
#include "net/lpips.h"

/* Which samples belong together: all; those of a class (.cls), of a text (.txt); those whose keys have the same path before the name. */
enum perceptual_group { GROUP_NONE, GROUP_CLASS, GROUP_TEXT, GROUP_FOLDER };

extern const char *const perceptual_group_names[]; /* "none", "class", "text", "folder", NULL */

struct perceptual {
	double mean, se; /* over groups, or pairs; se 0: there is only one */
	int64_t n;       /* groups, or pairs */
};

/* The mean over groups of the mean distance of all pairs in a group; groups of one picture are left out. In one pass: the distances are
 * squared differences of vectors, whose mean over all pairs is twice their variance. A group holds a vector in double, so groups
 * times lpips_width may be much: ERR_NOMEM. ERR_USAGE: there is no pair; ERR_DATA: a sample does not say its group, pictures of unlike
 * size or smaller than LPIPS_LEAST. o: how samples are read and resized. */
int perceptual_diversity(struct perceptual *out, struct lpips *n, const char *source, enum perceptual_group by, const struct evalset_options *o,
                         struct err *e);

/* The mean distance of a's and b's pictures of the same key, which must come in the same order: ERR_DATA. */
int perceptual_pairs(struct perceptual *out, struct lpips *n, const char *a, const char *b, const struct evalset_options *o, struct err *e);

#endif
