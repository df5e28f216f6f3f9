/* One evaluation: every distance between a reference and samples, with what it takes to read them. */
#ifndef DDM_METRIC_EVALREPORT_H
#define DDM_METRIC_EVALREPORT_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "file/stamp.h"
#include "metric/evalset.h"

struct evalreport {
	struct evalset *reference, *samples;
	struct evalset *heldout; /* NULL: none */
	struct evalset *train;   /* what samples may be copies of; NULL: reference */
	int axes;                /* principal axes of the reference for fd; cut to its dimensions */
	int draws;               /* rounds of frechet_equal */
	int64_t subsets, size;   /* subsets > 0: kd_subsets, else kd_whole */
	uint64_t seed;
	struct pool *pool;
};

/* Adds to st the counts and, NAME being the features:
 *   kd-NAME kd-NAME-se                   samples to the reference
 *   kd-NAME-floor kd-NAME-floor-se       one half of the reference to the other
 *   fd-NAME fd-NAME-full                 along the axes and in all dimensions, between fd-n and fd-n
 *   fd-NAME-floor fd-NAME-full-floor     disjoint parts of the reference, fd-n and fd-n
 *   memorised memorised-of               fraction of the samples; pictures they were compared with
 * and, with a held-out set, the same with "-heldout" after NAME, where the floor is reference to held-out, and
 * memorised-floor, the fraction of the held-out pictures. What the sets do not allow (statistics alone, vectors without
 * pictures, sets too small to be halved) is left out. The sets must agree (evalset_agree). */
int evalreport_fill(struct stamp *st, const struct evalreport *r, struct err *e);

#endif
