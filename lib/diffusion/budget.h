/* Splits the error of an ensemble's velocity against the optimum of its data: u - u* = sum_k w_k (v_k - v_k*) + sum_k (w_k - w_k*) v_k*.
 *
 * The first sum is the error of the experts. The second is the error of the weights: the router's mistakes and the policy's changes. Stars mark
 * the optimum of a law (diffusion/law.h). Everything is computed in double except the outputs of networks. */
#ifndef DDM_DIFFUSION_BUDGET_H
#define DDM_DIFFUSION_BUDGET_H

#include <stdint.h>

#include "core/pool.h"
#include "diffusion/denoiser.h"
#include "diffusion/law.h"
#include "diffusion/policy.h"
#include "kernels/device.h"

struct budget_route {
	struct policy policy;
	int exact_router;  /* the router is replaced by w* */
	int exact_experts; /* the experts are replaced by v_k*; with the policy full the result is u* */
};

/* Parse a policy (diffusion/policy.h); "exact:POLICY", the same with the exact router; or "optimum", u* itself. ERR_USAGE otherwise. The policies
 * oracle and prior, which fix one expert per trajectory, use the expert of the state's own cluster, because that expert would meet this state. */
int budget_route_parse(const char *text, struct budget_route *r, struct err *e);

struct budget_plan {
	int k; /* experts, and clusters of the reference */
	int64_t d;
	const struct expert *expert; /* (k); velocity NULL: absent */
	const struct router *router; /* NULL: routes that need it are ERR_USAGE */
	struct law *reference;
	/* 1: the experts' clusters are not the reference's. v_k* is then u* for every k, the second sum is 0, and routes that need the reference's
	 * clusters are ERR_USAGE, unless k is 1. 0: the reference has k clusters. */
	int whole;
	const struct budget_route *route;
	int routes;
	uint64_t seed; /* for draws of policies */
	struct pool *pool;
	struct device *device; /* device of the experts and the router, borrowed; NULL: the host */
};

/* Sums over n states; squares are means over the d elements. total = expert + router + cross. */
struct budget_sum {
	int64_t n;
	double total;  /* |u - u*|^2 */
	double expert; /* |sum w_k (v_k - v_k*)|^2 */
	double router; /* |sum (w_k - w_k*) v_k*|^2 */
	double cross;  /* twice the inner product of the two sums */
	double loss;   /* |u - target|^2 */
	double flow;   /* |u*|^2 */
	double least;  /* |u* - target|^2: of a law, whose states are new, loss - least has the same expectation as total: the excess risk */
	double total_squares, excess_squares; /* squares of total and of loss - least of each state, for standard errors */
};

/* The standard error of a mean over n states with these sums. */
double budget_error(double sum, double squares, int64_t n);

/* Quality of the router, or of the exact router, on the same states; sums over n. */
enum { BUDGET_BINS = 10 };
struct budget_routing {
	int64_t n, right;     /* states; states whose own cluster has the largest weight */
	double cross_entropy; /* -log of the weight of the state's own cluster, nats */
	double entropy;
	double divergence;                                 /* of w from w*: sum w* log(w* / w) */
	double confidence[BUDGET_BINS], hits[BUDGET_BINS]; /* binned by the largest weight */
};

struct budget;

/* Borrows *p. ERR_USAGE if a route needs a missing router or expert, ERR_DATA if an expert's cluster has no samples. Caller frees with
 * budget_free. */
struct budget *budget_new(const struct budget_plan *p, int64_t capacity, struct err *e);
void budget_free(struct budget *b);

/* Set all sums to 0. */
void budget_clear(struct budget *b);

/* Add n <= capacity states x (n, d) at one time t >= 1e-4 of the linear path, made from samples of `cluster` (n), whose conditional
 * velocity is target (n, d) = eps - x0; index (n) keys the draws of policies. Sums do not depend on how states are batched. */
int budget_add(struct budget *b, float t, int64_t n, const float *x, const float *target, const int32_t *cluster, const int64_t *index,
               struct err *e);

/* The sums of one route over the states of one cluster, or of all with LAW_ALL. weight (k), or NULL, receives the sums of the route's weights. */
struct budget_sum budget_sum(const struct budget *b, int route, int cluster, double *weight);
struct budget_routing budget_routing(const struct budget *b, int exact); /* exact: 0 for the router, 1 for the exact router */
/* Expected calibration error: the mean over states of |confidence - accuracy| of their bin. */
double budget_calibration(const struct budget_routing *r);

#endif
