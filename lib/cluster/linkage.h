/* Agglomerative clustering: every point begins as a cluster, and the two nearest clusters are merged until k are left.
 *
 * Merges are found along chains of nearest neighbours (Murtagh 1983; Muellner 2011), O(n^2) time, with the distances of all pairs in memory,
 * LINKAGE_BYTES(n). Sums are in double, so the result does not depend on the number of threads. */
#ifndef DDM_CLUSTER_LINKAGE_H
#define DDM_CLUSTER_LINKAGE_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

enum linkage_kind {
	LINKAGE_WARD,   /* sqrt(2 a b / (a + b)) |c - c'|: centroids c, c' and weights a, b. Merges raise the inertia least (Ward 1963) */
	LINKAGE_AVERAGE /* mean distance between the points of one and the points of the other (Sokal & Michener 1958) */
};

#define LINKAGE_BYTES(n) ((double)(n) * (double)((n)-1) / 2 * (double)sizeof(double))

/* Cut x (n, d) into k clusters, 1 <= k <= n: cluster [n], numbered by the first point of each. weight [n] counts the samples that a point stands
 * for; NULL: one each. height [n - 1] receives the distances at which clusters were merged, ascending; NULL: not wanted. Of equal distances the pair
 * found first is merged first. ERR_DATA: fewer distinct points than k; ERR_NOMEM; ERR_AGAIN: the progress said stop. */
int linkage_cut(int32_t *cluster, double *height, enum linkage_kind kind, const float *x, const double *weight, int64_t n, int64_t d, int k,
                struct pool *pool, const struct progress *progress, struct err *e);

#endif
