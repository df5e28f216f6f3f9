/* Computes a policy's weights of the experts for one sample. */
#ifndef DDM_DIFFUSION_ROUTE_H
#define DDM_DIFFUSION_ROUTE_H

#include <stdint.h>

#include "core/err.h"
#include "core/named.h"
#include "diffusion/policy.h"

/* The tables of weight sources and of selections, in the order of enum weight_kind and enum select_kind. */
extern const struct named_table weight_table, select_table;

/* What a sample may still spend, for SELECT_BUDGET. */
struct route_budget {
	double gflop;        /* left, for this evaluation and those after it */
	double weights;      /* GFLOP of computing the weights at one evaluation */
	const double *cost;  /* (k) GFLOP of one evaluation of each expert */
	double entropy;      /* of the weights at the sample's first evaluation; ignored there */
	int64_t total, left; /* evaluations of the sample in all, and those left, this one included */
};

/* What weights and selections are computed from, for one sample. Members that an entry does not use need not be set. */
struct route_input {
	int k;                        /* experts */
	const unsigned char *present; /* (k), at least one; absent experts get no weight */
	const float *logits;          /* (k) of the router, for WEIGHT_ROUTER; -l of the experts, for WEIGHT_UNCERTAINTY */
	const double *shares;         /* (k) of the clusters, need not sum to 1, or NULL: unknown; for WEIGHT_PRIOR */
	int chosen;                   /* for WEIGHT_ORACLE */
	const double *distance;       /* (k) squared distances to the centroids, for WEIGHT_DISTANCE; NULL: no prediction yet */
	const double *density;        /* (k) logarithms of share times density, for WEIGHT_DENSITY; -infinity: no weight */
	const double *confidence;     /* (k) inverse losses, for WEIGHT_CONFIDENCE; 0: no weight */
	double u;                     /* the draw in [0, 1) for SELECT_SAMPLE */
	const unsigned char *kept;    /* (k) the experts that the sample used at the evaluation before, for hysteresis; NULL: none */
	const struct route_budget *budget;
};

/* Compute prob (k) = the entry's weights before the selection, which sum to 1, and w (k) = the weights after it, which do so unless the entry is raw.
 * Equal weights rank by index. Returns the index of the heaviest weight. Returns -1 if there are no weights: a logit is NaN or +infinity, or all
 * are -infinity; no present expert has a share; the chosen expert is not present; a distance is not finite; a
 * density is not. prob is 0 for SELECT_EXPERT, which
 * takes none. */
int route_weights(const struct policy_entry *y, const struct route_input *in, double *prob, double *w);

/* GFLOP of the most expensive of the experts that are present: what a budget must hold for each evaluation. */
double route_dearest(int k, const double *cost, const unsigned char *present);

/* Whether the entry runs the router. */
int route_asks_router(const struct policy_entry *y);
/* Whether the entry runs the experts' learned uncertainties. */
int route_asks_uncertainty(const struct policy_entry *y);
/* Whether the entry's selection may drop experts and then scales the weights of the others. */
int route_may_drop(const struct policy_entry *y);
/* Whether a draw of the entry holds for the whole trajectory, because its weights do not change along it. */
int route_draws_once(const struct policy_entry *y);

/* The expert that a uniform draw u in [0, 1) selects in proportion to shares (k), among those present; -1 if none has a share. */
int route_draw(int k, const double *shares, const unsigned char *present, double u);

/* Entropy of prob (k), in nats. */
double route_entropy(int k, const double *prob);

#endif
