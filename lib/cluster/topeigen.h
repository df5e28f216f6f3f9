/* The largest eigenvalues of a large symmetric matrix, and their eigenvectors, by subspace iteration with a Chebyshev filter (Zhou et al. 2006).
 * The matrix is known only by its products with blocks of vectors. */
#ifndef DDM_CLUSTER_TOPEIGEN_H
#define DDM_CLUSTER_TOPEIGEN_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

struct topeigen_matrix {
	int64_t n;
	/* Rows [from, to) of out = matrix * in; both (n, columns). Called from several threads. All eigenvalues lie in [-1, 1]. */
	void (*rows)(void *arg, double *out, const double *in, int columns, int64_t from, int64_t to);
	void *arg;
};

struct topeigen {
	int k, columns; /* wanted vectors; vectors of the block, k of them and some more */
	double *value;  /* [columns] descending; only the first k are accurate */
	double *vector; /* (n, columns) of length 1, orthogonal to each other; a value that occurs several times has no particular ones */
	int iterations;
	double residual; /* largest |matrix v - value v| of the first k */
};

/* Find the k largest eigenvalues, 1 <= k <= n, until the residual is at most `tolerance`, in at most `most` iterations. With more than that the call
 * succeeds, and out->residual tells. The start is random by the seed. ERR_NOMEM; ERR_FAIL: LAPACK failed; ERR_AGAIN: the progress said stop. Release
 * with topeigen_release, after a failure too. */
int topeigen_find(struct topeigen *out, const struct topeigen_matrix *m, int k, double tolerance, int most, uint64_t seed, struct pool *pool,
                  const struct progress *progress, struct err *e);
void topeigen_release(struct topeigen *t);

#endif
