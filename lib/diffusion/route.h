/* Routing policies: the experts that a sample uses at a step, and their weights. */
#ifndef DDM_DIFFUSION_ROUTE_H
#define DDM_DIFFUSION_ROUTE_H

#include "core/err.h"

/* Every policy once: ROW(kind, syntax, words for shell completion..); route.c has its function.
 *
 *   full         every expert, weighted by the posterior; optimal with optimal experts and router
 *   top-K        the K heaviest experts, renormalised
 *   threshold:P  experts with p >= P, renormalised; the heaviest if there is none
 *   nucleus:P    the smallest set of heaviest experts with a mass of at least P, renormalised; at least one
 *   switch:T     full while t > T, then top-1
 *   sample       one expert drawn from the posterior at every evaluation
 *   oracle       one given expert per trajectory: the cluster of a reference item
 *   prior        one expert per trajectory, drawn from the cluster shares
 *   expert:I     one fixed expert */
#define POLICY_LIST(ROW) \
	ROW(FULL, "full", "full") \
	ROW(TOP, "top-K", "top-1", "top-2") \
	ROW(THRESHOLD, "threshold:P", "threshold:") \
	ROW(NUCLEUS, "nucleus:P", "nucleus:") \
	ROW(SWITCH, "switch:T", "switch:") \
	ROW(SAMPLE, "sample", "sample") \
	ROW(ORACLE, "oracle", "oracle") \
	ROW(PRIOR, "prior", "prior") \
	ROW(EXPERT, "expert:I", "expert:")

#define POLICY_KIND(kind, form, ...) POLICY_##kind,
enum policy_kind { POLICY_LIST(POLICY_KIND) POLICIES };

/* "full, top-K, ..", for help and messages. */
#define POLICY_FORM(kind, form, ...) ", " form
#define POLICY_FORMS (&(POLICY_LIST(POLICY_FORM))[2])

/* Words for shell completion; NULL at the end. */
extern const char *const policy_words[];

struct policy {
	enum policy_kind kind;
	int k;    /* POLICY_TOP: number of experts; POLICY_EXPERT: the expert */
	double p; /* P or T of the other policies */
};

/* ERR_USAGE for an unknown policy or a number out of range. */
int policy_parse(const char *text, struct policy *p, struct err *e);
/* Whether the weights come from the router; the other policies fix one expert per trajectory. */
int policy_needs_router(const struct policy *p);

/* Compute prob (k) = the softmax of logits (k) over the experts with a non-zero `present` (k), at least one, and w (k) = the policy's weights at time
 * t, which sum to 1. u in [0, 1) is the draw for POLICY_SAMPLE. Only for policies that need a router. Equal logits rank by index. Returns the
 * index of the heaviest weight, or -1 if a logit is NaN or +infinity, or all are -infinity. */
int route_weights(const struct policy *p, double t, int k, const float *logits, const unsigned char *present, double u, double *prob, double *w);

/* The expert that a uniform draw u in [0, 1) selects in proportion to shares (k), among those present; -1 if none has a share. */
int route_draw(int k, const double *shares, const unsigned char *present, double u);

/* Entropy of prob (k), in nats. */
double route_entropy(int k, const double *prob);

#endif
