/* Routing policies by name: which experts a sample uses at a time t, and with which weights.
 *
 * A selection may be followed by modifiers: "router:.5|top-2|raw". A policy is a schedule of entries WEIGHTS|SELECTION@T with commas between:
 * "router|full@1,router|top-1@.8". Each entry holds from its time T down to that of the next, and the first from t = 1. A policy of one entry
 * needs no @T. */
#ifndef DDM_DIFFUSION_POLICY_H
#define DDM_DIFFUSION_POLICY_H

#include <stddef.h>

#include "core/err.h"

/* Sources of weights: ROW(kind, syntax); route.c has the table with their functions.
 *
 *   router    the posterior of the router
 *   prior     the shares of the clusters, or those of the picture's class
 *   oracle    1 for the cluster of a reference item
 *   uniform   the same for every expert
 *   distance  exp(-D / TEMP), scaled to sum to 1; D: squared distance of the sample that the evaluation before predicted to the cluster's centroid.
 *             At the first evaluation the shares of the clusters, or if they are unknown the same for every expert
 *   density   each cluster's share times the density that its expert gives the sample, by the steps so far (diffusion/logdensity.h), scaled to
 *             sum to 1. All experts run at every evaluation, whatever is selected
 *   confidence  1 / the loss that was measured of the expert at this time (diffusion/confidence.h), scaled to sum to 1: the same for all samples
 *   uncertainty  exp(-l_k), scaled to sum to 1, with l_k the logarithm of the squared error that expert k expects of itself at this state: a small
 *             network of each expert, trained on its own cluster alone (struct ensemble)
 *   time      1 for the only expert of this time (diffusion/owners.h)
 *
 * Every source weighs only the experts of the time.
 *
 * TEMP is a temperature: weights to the power 1/TEMP, scaled to sum to 1. Towards 0 the heaviest expert has all the weight. */
#define WEIGHT_LIST(ROW) \
	ROW(ROUTER, "router[:TEMP]") \
	ROW(PRIOR, "prior[:TEMP]") \
	ROW(ORACLE, "oracle") \
	ROW(UNIFORM, "uniform") \
	ROW(DISTANCE, "distance[:TEMP]") \
	ROW(DENSITY, "density[:TEMP]") \
	ROW(CONFIDENCE, "confidence[:TEMP]") \
	ROW(UNCERTAINTY, "uncertainty[:TEMP]") \
	ROW(TIME, "time")

/* Selections: ROW(kind, syntax, words for shell completion..); route.c has the table with their functions.
 *
 *   full         every expert; with the router optimal if experts and router are
 *   top-K        the K heaviest experts, renormalised
 *   threshold:P  experts with a weight >= P, renormalised; the heaviest if there is none
 *   nucleus:P    the smallest set of heaviest experts with a mass of at least P, renormalised; at least one
 *   sample       one expert drawn by the weights: at every evaluation, or once per trajectory if the weights do not change along it
 *   expert:I     expert I, whatever the weights
 *   budget:G     as many of the heaviest experts as G GFLOP per picture pay for, renormalised; more where the weights have more entropy */
#define SELECT_LIST(ROW) \
	ROW(FULL, "full", "full") \
	ROW(TOP, "top-K", "top-1", "top-2") \
	ROW(THRESHOLD, "threshold:P", "threshold:") \
	ROW(NUCLEUS, "nucleus:P", "nucleus:") \
	ROW(SAMPLE, "sample", "sample") \
	ROW(EXPERT, "expert:I", "expert:") \
	ROW(BUDGET, "budget:GFLOP", "budget:")

#define WEIGHT_KIND(kind, form) WEIGHT_##kind,
enum weight_kind { WEIGHT_LIST(WEIGHT_KIND) WEIGHTS };
#define SELECT_KIND(kind, form, ...) SELECT_##kind,
enum select_kind { SELECT_LIST(SELECT_KIND) SELECTS };

/* For help and messages: what a policy may be. A selection alone takes its weights from the router. */
#define WEIGHT_FORM(kind, form) " " form
#define SELECT_FORM(kind, form, ...) form ", "
#define POLICY_FORMS SELECT_LIST(SELECT_FORM) "switch:T, oracle, prior, time, or WEIGHTS|SELECTION[@T],.. with the weights" WEIGHT_LIST(WEIGHT_FORM)

/* Words for shell completion; NULL at the end. */
extern const char *const policy_words[];

struct policy_entry {
	double from; /* holds at times t <= from, down to the next entry's */
	enum weight_kind weights;
	double temperature; /* TEMP of the weights; 1 changes nothing */
	enum select_kind select;
	double number; /* K, P, I or GFLOP of the selection */
	int raw;       /* the selected weights are not scaled to sum to 1 */
	double keep;   /* hysteresis: the experts of the evaluation before count as heavier by this in the selection */
};

enum { POLICY_ENTRIES = 16 };
struct policy {
	int entries;
	struct policy_entry entry[POLICY_ENTRIES]; /* by decreasing time; the first from 1 */
};

/* Parse a policy, or one of the short forms: a selection (router|SELECTION; expert:I is uniform|expert:I), "oracle" (oracle|full), "prior"
 * (prior|sample), "time" (time|full), "switch:T" (router|full@1,router|top-1@T). ERR_USAGE names what is wrong and the words that exist. */
int policy_parse(const char *text, struct policy *p, struct err *e);
/* The same for a text that is known to be a policy. */
struct policy policy_of(const char *text);
/* The canonical text of a policy: the short form if there is one. Caller frees with mem_free. */
char *policy_text(const struct policy *p);
/* Whether a text is written as WEIGHTS|SELECTION or as a schedule, and not as a short form. */
int policy_is_long(const char *text);
/* The length of the first policy of a list with commas between. An entry that begins below t = 1 belongs to the policy before it. */
size_t policy_span(const char *list);

/* The entry that holds at time t of the linear path. */
const struct policy_entry *policy_at(const struct policy *p, double t);
/* Whether some entry takes its weights from this source. */
int policy_uses(const struct policy *p, enum weight_kind source);
/* Whether weights from this source are used at time t or below. */
int policy_uses_from(const struct policy *p, enum weight_kind source, double t);
/* Whether the entry weighs every noised sample by the sample's own cluster. `prior|sample` does: it draws one expert for a whole trajectory, so that
 * expert meets only states of its own cluster. */
int policy_entry_own(const struct policy_entry *y);
/* Whether some entry needs the evaluations before it on a trajectory (distance, density, keep:MARGIN, budget:GFLOP), so that it cannot be measured
 * on single noised samples. */
int policy_needs_trajectory(const struct policy *p);
/* Whether some entry may select expert k. */
int policy_may_select(const struct policy *p, int k);
/* ERR_USAGE if an entry selects more than the k experts that a model has, or one that is not `present` (k). */
int policy_check(const struct policy *p, int k, const unsigned char *present, struct err *e);

#endif
