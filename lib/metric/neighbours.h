/* Precision, recall, density and coverage of samples, from nearest neighbours. The ball around an element reaches to its k-th nearest other element
 * of the same set; an exact copy counts as a neighbour at distance 0. */
#ifndef DDM_METRIC_NEIGHBOURS_H
#define DDM_METRIC_NEIGHBOURS_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct neighbours {
	double precision;    /* share of fakes inside or on the ball of some real: Kynkaanniemi et al. 2019 */
	double recall;       /* share of reals inside or on the ball of some fake */
	double density;      /* mean number of balls of reals that a fake lies strictly inside, over k: Naeem et al. 2020; may exceed 1 */
	double coverage;     /* share of reals with a fake strictly inside their ball */
	double authenticity; /* share of fakes farther from their nearest real than that real is from its nearest other real: Alaa et al. 2022 */
};

/* Compare real (n, d) and fake (m, d): precision and recall with balls of k = pr_k (usually 3), density and coverage with dc_k (usually 5). All
 * decisions equal those of squared distances in double (distances.h), so the results do not depend on the pool. ERR_USAGE unless n > pr_k, n > dc_k
 * and m > pr_k. Memory beyond the features and the radii: 2 bytes per real for every 256 fakes, and for many vectors their sketches (sketch.h), at
 * most a third of the features; while the second set's are ordered, twice its own. */
int neighbours_measure(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                       int dc_k, struct err *e);

/* The same with sketches of `axes` axes: 0 none, or AXES_AUTO (sketch.h), which neighbours_measure uses. No number changes, only the time. */
int neighbours_measure_along(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                             int dc_k, int axes, struct err *e);

#endif
