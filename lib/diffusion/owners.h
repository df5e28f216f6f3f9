/* Which experts may be used at which times: an expert that was trained on a range of times (net/timerange.h) owns it.
 *
 * At a time t the weights of a policy are those of the owners of t alone, scaled to sum to 1. Where one expert owns t its weight is 1, whatever the
 * source of weights, and neither router nor shares are needed. */
#ifndef DDM_DIFFUSION_OWNERS_H
#define DDM_DIFFUSION_OWNERS_H

#include "core/err.h"
#include "diffusion/path.h"
#include "diffusion/policy.h"
#include "net/timerange.h"

struct owners {
	struct owner {
		struct time_range range;
		int cluster;     /* column of the router's logits, shares and distances; -1: of all clusters */
	} * expert;              /* (k); NULL: every expert owns all times, and expert i is of cluster i */
	const struct path *path; /* the ranges' t is of this path; NULL: of the linear path */
};

/* The time of the ranges at time t of the linear path, by equal log-SNR. */
double owners_time(const struct owners *o, double t);
/* The present experts that own time t (of owners_time), by cluster and then by number. Fills owner (k) and returns how many. */
int owners_at(const struct owners *o, int k, const unsigned char *present, double t, int *owner);
/* Whether the policy takes weights from `source` at some time that several experts own; without `expert`: policy_uses. */
int owners_weigh(const struct owners *o, int k, const unsigned char *present, const struct policy *p, enum weight_kind source);
/* ERR_USAGE if at some time the policy cannot choose: no expert owns the time; several do with weights `time`; or with weights by cluster, two owners
 * are of one cluster, or one of several is of all. Also for SELECT_BUDGET with ranges. Entries that select expert:I are not checked. */
int owners_check(const struct owners *o, int k, const unsigned char *present, const struct policy *p, struct err *e);

#endif
