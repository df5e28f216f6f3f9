/* Which experts a sample uses at one step, and with what weights. */
#ifndef DDM_DIFFUSION_ROUTE_H
#define DDM_DIFFUSION_ROUTE_H

#include "core/err.h"

/* Every policy once: ROW(kind, how it is written, words that a shell completes..); route.c has its function.
 *
 *   full         every expert by its posterior: exact with exact experts and router
 *   top-K        the K heaviest, renormalised
 *   threshold:P  those with p >= P, renormalised; the heaviest when there is none
 *   nucleus:P    the smallest set that has P of the mass, heaviest first, renormalised; at least one
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

/* What a shell completes; NULL at the end. */
extern const char *const policy_words[];

struct policy {
	enum policy_kind kind;
	int k;    /* POLICY_TOP: how many; POLICY_EXPERT: which */
	double p; /* the number of any other */
};

/* ERR_USAGE for what is none of them, or has a number out of range. */
int policy_parse(const char *text, struct policy *p, struct err *e);
/* Whether weights come from the router; the other policies name one expert per trajectory. */
int policy_needs_router(const struct policy *p);

/* prob (k) = softmax of logits (k) over the experts present (k, non-zero where there is one; at least one), w (k) = what the
 * policy makes of it at time t, summing to 1; u in [0, 1) is the draw of POLICY_SAMPLE. Only policies that need a router. Equal
 * logits rank by index. Returns the index of the heaviest weight. Logits must be finite or -infinity, not all -infinity:
 * otherwise -1. */
int route_weights(const struct policy *p, double t, int k, const float *logits, const unsigned char *present, double u,
                  double *prob, double *w);

/* The expert that a uniform draw u in [0, 1) selects from shares (k), absent ones left out; -1 when nothing is left. */
int route_draw(int k, const double *shares, const unsigned char *present, double u);

/* Entropy of prob (k), in nats. */
double route_entropy(int k, const double *prob);

#endif
