/* Measures of how well clusters are separated, and how well two partitions agree. */
#ifndef DDM_CLUSTER_SEPARATION_H
#define DDM_CLUSTER_SEPARATION_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

enum { SEPARATION_CLUSTERS = 4096 }; /* most clusters of which the Davies-Bouldin index is computed: its time grows with their square */

struct separation {
	/* Mean over the clusters of the largest (s_i + s_j) / |c_i - c_j|, where s is the mean distance to the mean c of a cluster (Davies & Bouldin
	 * 1979); lower is better. NaN with more than SEPARATION_CLUSTERS. */
	double davies_bouldin;
	/* (sum of n_i |c_i - c|^2 / (k - 1)) / (sum of |x - c_i|^2 / (n - k)), c the mean of all (Calinski & Harabasz 1974); higher is better. */
	double calinski_harabasz;
};

/* Rate a partition of x (n, d) by cluster [n] in [0, k). Empty clusters do not count; both numbers are NaN if fewer than 2 clusters, or as many as
 * points, are left. Sums are in double; the result does not depend on the number of threads. ERR_NOMEM. */
int separation_rate(struct separation *s, const float *x, int64_t n, int64_t d, const int32_t *cluster, int k, struct pool *pool, struct err *e);

/* mean (k, d) = the means of the clusters of x (n, d), summed in the order of the points; zeros of an empty one. size [k] */
void separation_means(double *mean, int64_t *size, const float *x, int64_t n, int64_t d, const int32_t *cluster, int k, struct pool *pool);

struct agreement {
	double rand;        /* adjusted Rand index (Hubert & Arabie 1985): 1 if the partitions are the same, 0 on average by chance */
	double information; /* mutual information over the mean of the two entropies, in [0, 1]; 1 if both partitions are one cluster */
	int64_t n;          /* samples that both label */
};

/* Compare two partitions: a, b [n], where a negative number is no label and the sample does not count. */
struct agreement agreement_of(const int32_t *a, const int32_t *b, int64_t n);

#endif
