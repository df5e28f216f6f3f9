/* How many training samples of each class each cluster has: the shares by which a class chooses its experts. */
#ifndef DDM_DIFFUSION_CLASSSIZES_H
#define DDM_DIFFUSION_CLASSSIZES_H

#include "core/err.h"

/* "class_cluster_sizes": [[per cluster] per class] of the router's config.json at `path` into *shares (classes, k), which the caller frees
 * with mem_free; it stays NULL where the key is not there. ERR_DATA for a list of another size. */
int class_sizes_load(double **shares, const char *path, int classes, int k, struct err *e);

#endif
