/* Counts of training samples by class and cluster: the shares by which a class draws its expert. */
#ifndef DDM_DIFFUSION_CLASSSIZES_H
#define DDM_DIFFUSION_CLASSSIZES_H

#include "core/err.h"

/* Read "class_cluster_sizes": [[per cluster] per class] from the router's config.json at `path` into *shares (classes, k). Without that key
 * *shares stays NULL. ERR_DATA if the lists have other sizes. Caller frees *shares with mem_free. */
int class_sizes_load(double **shares, const char *path, int classes, int k, struct err *e);

#endif
