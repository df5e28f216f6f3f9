/* Pictures to a set of features, for evalread.c. */
#ifndef DDM_METRIC_EVALPICTURES_H
#define DDM_METRIC_EVALPICTURES_H

#include "core/err.h"
#include "data/samples.h"
#include "file/npy.h"
#include "metric/evalset.h"

/* Samples of any kind, through the cache where there is one. */
int evalpictures_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);

/* The samples that evalpictures_read would read, from the start and without telling what is bad: to look at them again. Caller closes. */
struct samples *evalpictures_open(const char *source, const struct evalset_options *o, struct err *e);

/* An array (n, h, w, 3) of NPY_U1, row-major. */
int evalpictures_array(struct evalset *s, const struct npy *a, const char *name, const struct evalset_options *o, struct err *e);

#endif
