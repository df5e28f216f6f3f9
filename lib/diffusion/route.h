/* Which experts a sample uses at one step, and with what weights. */
#ifndef DDM_DIFFUSION_ROUTE_H
#define DDM_DIFFUSION_ROUTE_H

#include <stdint.h>

#include "core/err.h"

enum policy_kind {
	POLICY_FULL,      /* every expert by its posterior: exact with exact experts and router */
	POLICY_TOP,       /* the k heaviest, renormalised */
	POLICY_THRESHOLD, /* those with p >= P, renormalised; the heaviest when there is none */
	POLICY_SWITCH,    /* full while t > P, then top-1 */
	POLICY_SAMPLE,    /* one expert drawn from the posterior at every evaluation */
	POLICY_ORACLE,    /* one given expert per trajectory: the cluster of a reference item */
	POLICY_PRIOR,     /* one expert per trajectory, drawn from the cluster shares */
	POLICY_EXPERT     /* one fixed expert */
};

struct policy {
	enum policy_kind kind;
	int k;    /* POLICY_TOP: how many; POLICY_EXPERT: which */
	double p; /* POLICY_THRESHOLD, POLICY_SWITCH */
};

/* "full", "top-K" (K >= 1), "threshold:P", "switch:T", "sample", "oracle", "prior", "expert:I"; ERR_USAGE otherwise. */
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
