/* Where an ensemble's velocity leaves the optimum of its data: u - u* = sum_k w_k (v_k - v_k*) + sum_k (w_k - w_k*) v_k*.
 *
 * The first sum is the error of the experts, the second that of the weights: what the router gets wrong and what the policy does to
 * right weights. Stars are the optimum of a finite set (diffusion/finite.h). Everything is in double but what networks return. */
#ifndef DDM_DIFFUSION_BUDGET_H
#define DDM_DIFFUSION_BUDGET_H

#include <stdint.h>

#include "core/pool.h"
#include "diffusion/denoiser.h"
#include "diffusion/finite.h"
#include "diffusion/route.h"
#include "kernels/device.h"

struct budget_route {
	struct policy policy;
	int exact_router;  /* the policy's weights come from w* */
	int exact_experts; /* and the experts are the v_k*: u*, with POLICY_FULL */
};

/* A policy of route.h; "exact:POLICY", the same with the exact router; "optimum", u* itself. ERR_USAGE otherwise. Policies that fix
 * an expert for the whole trajectory, oracle and prior, take that of the state's own cluster: the states that it would meet. */
int budget_route_parse(const char *text, struct budget_route *r, struct err *e);

struct budget_plan {
	int k;                       /* experts, and clusters of the reference */
	int64_t d;
	const struct expert *expert; /* (k); velocity NULL where absent */
	const struct router *router; /* NULL: routes that need it are ERR_USAGE */
	struct finite *reference;
	const struct budget_route *route;
	int routes;
	uint64_t seed;               /* of POLICY_SAMPLE */
	struct pool *pool;
	struct device *device;       /* that experts and router compute on, borrowed; NULL: the host */
};

/* Sums over n states; squares are means over the d elements. total = expert + router + cross. */
struct budget_sum {
	int64_t n;
	double total;  /* |u - u*|^2 */
	double expert; /* |sum w_k (v_k - v_k*)|^2 */
	double router; /* |sum (w_k - w_k*) v_k*|^2 */
	double cross;  /* twice the product of both */
	double loss;   /* |u - target|^2 */
	double flow;   /* |u*|^2 */
};

/* Of the router (0) and of the exact one (1) on the same states; sums over n. */
enum { BUDGET_BINS = 10 };
struct budget_routing {
	int64_t n, right;
	double cross_entropy; /* -log of the own cluster's weight, nats */
	double entropy;
	double divergence;    /* of w from w*: sum w* log(w* / w) */
	double confidence[BUDGET_BINS], hits[BUDGET_BINS]; /* by the largest weight */
};

struct budget;

/* Borrows *p. ERR_USAGE where a route cannot be served, ERR_DATA where there is an expert but no sample of its cluster. Caller frees
 * with budget_free. */
struct budget *budget_new(const struct budget_plan *p, int64_t capacity, struct err *e);
void budget_free(struct budget *b);

/* Forget all sums. */
void budget_clear(struct budget *b);

/* Add n <= capacity states x (n, d) at one time t >= 1e-4 of the linear path, made from samples of `cluster` (n), whose conditional
 * velocity is target (n, d) = eps - x0; index (n) keys the draws of POLICY_SAMPLE. Sums do not depend on how states are batched. */
int budget_add(struct budget *b, float t, int64_t n, const float *x, const float *target, const int32_t *cluster,
               const int64_t *index, struct err *e);

/* Of one route over the states of one cluster, or of FINITE_ALL; weight (k), the sums of its weights, may be NULL. */
struct budget_sum budget_sum(const struct budget *b, int route, int cluster, double *weight);
struct budget_routing budget_routing(const struct budget *b, int exact);
/* Expected calibration error: how far confidence is from being right, over bins. */
double budget_calibration(const struct budget_routing *r);

#endif
