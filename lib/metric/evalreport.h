/* Computes the requested metrics between a reference set and samples, and writes them to a report. */
#ifndef DDM_METRIC_EVALREPORT_H
#define DDM_METRIC_EVALREPORT_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "file/stamp.h"
#include "metric/aesthetic.h"
#include "metric/evalmetrics.h"
#include "metric/evalset.h"
#include "metric/perceptual.h"

enum { KID_SUBSETS = 100, FIDELITY_SEED = 2020 }; /* defaults of torch-fidelity */

/* LPIPS and the sets whose pictures lpips and diversity read a second time. All borrowed. */
struct perceptual_work {
	struct lpips *net;
	const char *reference, *samples;
	const struct evalset_options *reading;
	enum perceptual_group by;
};

struct evalreport {
	struct evalset *reference, *samples;
	struct evalset *heldout; /* NULL: none */
	struct evalset *train;   /* training pictures, for memorised and authenticity; NULL: reference */
	unsigned metrics;        /* 1u << METRIC_...; 0: kd, fd, memorised */
	int asked;               /* 1: a metric that the sets do not allow is an error; 0: it is left out */
	enum protocol protocol;
	int axes;              /* principal axes of the reference for fd, at most its dimensions */
	int draws;             /* rounds of frechet_equal */
	int64_t subsets, size; /* subsets of kd, 0: all pairs; of kid, 0: KID_SUBSETS. size: samples in each */
	uint64_t seed;
	const float *captions; /* (captions_n, dims of the reference): embeddings in the reading order of the samples; borrowed, may be NULL */
	int64_t captions_n;
	const struct aesthetic *aesthetic;        /* borrowed, may be NULL */
	const struct perceptual_work *perceptual; /* for lpips and diversity; borrowed, may be NULL */
	struct pool *pool;
};

/* Add to st the numbers of samples and, with NAME the name of the features (evalset_features), for the metrics
 *   kd         kd-NAME kd-NAME-se                   samples to the reference
 *              kd-NAME-floor kd-NAME-floor-se       one half of the reference to the other
 *   fd         fd-NAME fd-NAME-se fd-NAME-full      along the axes, its standard error, and in all dimensions, between fd-n and fd-n
 *              fd-NAME-floor fd-NAME-full-floor     disjoint parts of the reference, fd-n and fd-n
 *   memorised  memorised memorised-of               fraction of the samples; number of pictures they were compared with
 * and, with a held-out set, the same with "-heldout" after NAME, where the floor is between reference and held-out set, and
 * memorised-floor, the fraction of the held-out pictures. The other metrics use the sets as they are:
 *   fid sfid is kid cmmd vendi authenticity     METRIC-NAME; is-NAME-sd, kid-NAME-sd
 *   aesthetic                                   aesthetic-NAME, -se
 *   pr dc clip                                  precision-NAME recall-NAME; density-NAME coverage-NAME; clip-score-NAME, -se
 *   lpips diversity, NAME that of the trunk     lpips-NAME, -se, lpips-pairs; lpips-diversity-NAME, -se, lpips-groups
 * A metric that the sets do not allow (statistics alone, vectors without pictures, sets too small to be halved) is left out, or
 * ERR_USAGE with r->asked. "notes" lists warnings about numbers that are easily misread. The sets must agree (evalset_agree). */
int evalreport_fill(struct stamp *st, const struct evalreport *r, struct err *e);

/* The metrics from fid on, for evalreport.c. Appends warnings to `notes`. */
int evalfield_fill(struct stamp *st, const struct evalreport *r, json_t *notes, struct err *e);

#endif
