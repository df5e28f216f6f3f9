/* Spectral clustering on the graph of nearest neighbours (Shi & Malik 2000; von Luxburg 2007): k-means on the eigenvectors of the k smallest
 * eigenvalues of the normalised Laplacian I - D^(-1) A, where A holds the weights of the edges and D the degrees. */
#ifndef DDM_CLUSTER_SPECTRAL_H
#define DDM_CLUSTER_SPECTRAL_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

enum { SPECTRAL_CLUSTERS = 256 }; /* most clusters */
#define SPECTRAL_TOLERANCE 1e-7   /* residual of the eigenvectors at which the iteration ends */

struct spectral_options {
	int k, neighbours;
	int restarts, iterations; /* of k-means, as in struct kmeans_options */
	uint64_t seed;
	struct pool *pool;
	const struct progress *progress;
};

struct spectral_report {
	int64_t pieces;  /* connected pieces of the graph */
	int iterations;  /* of the eigenvectors; 0: none were needed, because the pieces are the clusters */
	double residual; /* of the eigenvectors; above SPECTRAL_TOLERANCE: they did not converge */
};

/* Cut x (n, d) into k clusters, 1 <= k <= n: cluster [n], numbered by the first point of each. ERR_USAGE: n - 1 is less than the neighbours, or k is
 * more than SPECTRAL_CLUSTERS; ERR_DATA: the graph falls into more than k pieces; errors of kmeans_fit. */
int spectral_cut(int32_t *cluster, struct spectral_report *report, const float *x, int64_t n, int64_t d, const struct spectral_options *o,
                 struct err *e);

#endif
