/* Extracts the features of a set of pictures, for evalread.c. */
#ifndef DDM_METRIC_EVALPICTURES_H
#define DDM_METRIC_EVALPICTURES_H

#include "core/err.h"
#include "data/samples.h"
#include "file/npy.h"
#include "metric/evalset.h"

/* Read samples of any kind (data/samples.h) and compute their features, or load these from the cache (o->cache). Errors as evalset_read. */
int evalpictures_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);

/* Open the same samples again from the start, for a second look at the pictures; bad samples are skipped or fail as before but are not reported. NULL
 * on failure. Caller closes with samples_close. */
struct samples *evalpictures_open(const char *source, const struct evalset_options *o, struct err *e);

/* out (th, tw, 3): the means of p over boxes, rounded. p has 3 channels and is at least tw x th. */
void picture_thumbnail(uint8_t *out, const struct picture *p, int tw, int th);

/* Split "SHARDS:holdout" into the folder and the part; a path that exists under the whole name, and one without such an ending, is all of it, and
 * *part SAMPLES_TRAIN. Caller frees with mem_free. */
char *evalpictures_split(const char *source, enum samples_part *part);
/* For shards, set s->partition to the features by which they were clustered, if they say so; do nothing for other sources. */
int evalpictures_partition(struct evalset *s, const char *path, struct err *e);

/* Compute the features of an array of pictures (n, h, w, 3), NPY_U1, row-major. ERR_DATA if a picture is too small for the extractor. */
int evalpictures_array(struct evalset *s, const struct npy *a, const char *name, const struct evalset_options *o, struct err *e);

#endif
