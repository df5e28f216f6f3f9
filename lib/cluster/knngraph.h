/* The symmetric graph of nearest neighbours of a set of points. */
#ifndef DDM_CLUSTER_KNNGRAPH_H
#define DDM_CLUSTER_KNNGRAPH_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"

/* The edges of point i are [start[i], start[i + 1]), in ascending order of the other point. An edge weighs 1 if each point is among the nearest
 * neighbours of the other, and 1/2 if one is. */
struct knngraph {
	int64_t n;
	int64_t *start; /* [n + 1] */
	int32_t *to;    /* [start[n]] the other point */
	float *weight;  /* [start[n]] */
	double *degree; /* [n] sum of the weights at a point; above 0 */
};

/* Connect every point of x (n, d) with its `neighbours` nearest other points, 1 <= neighbours < n; of equally near ones the first. O(n^2 d) time.
 * ERR_AGAIN: the progress said stop. Release with knngraph_release; on failure *g is empty. */
int knngraph_make(struct knngraph *g, const float *x, int64_t n, int64_t d, int neighbours, struct pool *pool, const struct progress *progress,
                  struct err *e);
void knngraph_release(struct knngraph *g); /* a zeroed one is allowed */

/* The number of connected pieces. piece [n], or NULL: the piece of each point, numbered by its first point. */
int64_t knngraph_pieces(const struct knngraph *g, int32_t *piece);

#endif
