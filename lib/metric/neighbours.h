/* Precision, recall, density and coverage, from nearest neighbours. The ball of an element reaches to its k-th nearest other element of its own set
 * (exact copies count as neighbours at distance 0). */
#ifndef DDM_METRIC_NEIGHBOURS_H
#define DDM_METRIC_NEIGHBOURS_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct neighbours {
	double precision;    /* share of fakes inside or on the ball of some real: Kynkaanniemi et al. 2019 */
	double recall;       /* share of reals inside or on the ball of some fake */
	double density;      /* how many balls of reals a fake lies strictly inside, over k, on average: Naeem et al. 2020; above 1 is possible */
	double coverage;     /* share of reals with a fake strictly inside their ball */
	double authenticity; /* share of fakes farther from their nearest real than that one is from its own nearest: Alaa et al. 2022 */
};

/* real (n, d) against fake (m, d): precision and recall with balls of pr_k (3 by custom), density and coverage with dc_k (5). All decisions are
 * those of squared distances in double (distances.h): the same numbers for any pool. n and m above pr_k, n above dc_k, else ERR_USAGE.
 * Memory: 2 bytes for each real and 256 fakes beyond the features. */
int neighbours_measure(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                       int dc_k, struct err *e);

#endif
