/* Weights of the experts for one sample: sources of weights, and selections from them. */
#include "diffusion/route.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "diffusion/layout.h"

static int heaviest(int k, const double *p)
{
	int best = 0;

	for (int i = 1; i < k; i++)
		if (p[i] > p[best])
			best = i;
	return best;
}

/* The rank of i by decreasing weight, then index. */
static int rank_of(int k, const double *p, int i)
{
	int r = 0;

	for (int j = 0; j < k; j++)
		r += p[j] > p[i] || (p[j] == p[i] && j < i);
	return r;
}

static void keep_one(int k, double *w, int i)
{
	memset(w, 0, (size_t)k * sizeof *w);
	w[i] = 1;
}

/* Arguments of a selection. w (k) is prob on entry and the selected weights on return. */
struct routing {
	const struct policy_entry *policy;
	const struct route_input *in;
	int k;
	const double *prob; /* (k) */
	double *w;
};

/* Scales the selected weights to sum to 1. If nothing was dropped the sum is 1 up to rounding, and dividing by it would make top-K of all experts
 * differ from full. */
static void renormalise(const struct routing *r)
{
	double sum = 0;
	int dropped = 0;

	for (int i = 0; i < r->k; i++) {
		sum += r->w[i];
		dropped |= r->prob[i] > 0 && r->w[i] == 0;
	}
	for (int i = 0; dropped && !r->policy->raw && i < r->k; i++)
		r->w[i] /= sum;
}

static void keep_only(const struct routing *r, int i)
{
	keep_one(r->k, r->w, i);
	if (r->policy->raw)
		r->w[i] = r->prob[i];
}

static int by_router(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	double top = -INFINITY, sum = 0;

	for (int i = 0; i < in->k; i++) {
		if (!in->present[i])
			continue;
		if (isnan(in->logits[i]) || in->logits[i] == INFINITY)
			return -1;
		top = fmax(top, in->logits[i]);
	}
	if (top == -INFINITY)
		return -1;
	for (int i = 0; i < in->k; i++)
		sum += prob[i] = in->present[i] ? exp((in->logits[i] - top) / y->temperature) : 0;
	for (int i = 0; i < in->k; i++)
		prob[i] /= sum;
	return 0;
}

/* In proportion to `share` (k), to the power 1 / temperature. */
static int in_proportion(const struct policy_entry *y, const struct route_input *in, const double *share, double *prob)
{
	double sum = 0, top = 0;

	if (!share)
		return -1;
	for (int i = 0; i < in->k; i++)
		top = in->present[i] ? fmax(top, share[i]) : top;
	for (int i = 0; i < in->k; i++) {
		prob[i] = in->present[i] ? share[i] : 0;
		if (y->temperature != 1 && prob[i] > 0)
			prob[i] = pow(prob[i] / top, 1 / y->temperature);
		sum += prob[i];
	}
	if (!(sum > 0))
		return -1;
	for (int i = 0; i < in->k; i++)
		prob[i] /= sum;
	return 0;
}

static int by_shares(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	return in_proportion(y, in, in->shares, prob);
}

static int by_confidence(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	return in_proportion(y, in, in->confidence, prob);
}

static int by_reference(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	(void)y;
	if (in->chosen < 0 || in->chosen >= in->k || !in->present[in->chosen])
		return -1;
	keep_one(in->k, prob, in->chosen);
	return 0;
}

static int by_none(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	int n = 0;

	(void)y;
	for (int i = 0; i < in->k; i++)
		n += in->present[i] != 0;
	for (int i = 0; i < in->k; i++)
		prob[i] = in->present[i] ? 1. / n : 0;
	return 0;
}

static int by_distance(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	const struct policy_entry plain = {.temperature = 1};
	double least = INFINITY, sum = 0;

	if (!in->distance)
		return in->shares ? by_shares(&plain, in, prob) : by_none(&plain, in, prob);
	for (int i = 0; i < in->k; i++) {
		if (in->present[i] && !isfinite(in->distance[i]))
			return -1;
		least = in->present[i] ? fmin(least, in->distance[i]) : least;
	}
	for (int i = 0; i < in->k; i++)
		sum += prob[i] = in->present[i] ? exp((least - in->distance[i]) / y->temperature) : 0;
	for (int i = 0; i < in->k; i++)
		prob[i] /= sum;
	return 0;
}

static int by_density(const struct policy_entry *y, const struct route_input *in, double *prob)
{
	double top = -INFINITY, sum = 0;

	for (int i = 0; i < in->k; i++) {
		if (in->present[i] && (isnan(in->density[i]) || in->density[i] == INFINITY))
			return -1;
		top = in->present[i] ? fmax(top, in->density[i]) : top;
	}
	if (top == -INFINITY)
		return -1;
	for (int i = 0; i < in->k; i++)
		sum += prob[i] = in->present[i] ? exp((in->density[i] - top) / y->temperature) : 0;
	for (int i = 0; i < in->k; i++)
		prob[i] /= sum;
	return 0;
}

/* clang-format off */
#define TEMPERATURE .numbers = ":TEMP", .count = 1, .optional = 1, .number = {{1, 1e-6, 1e6}}
/* clang-format on */

/* constant: the weights do not change along a trajectory. */
static const struct weight_def {
	struct named named;
	int constant;
	int (*weigh)(const struct policy_entry *y, const struct route_input *in, double *prob);
} weights[] = {
    [WEIGHT_ROUTER] = {{.name = "router", TEMPERATURE}, 0, by_router},
    [WEIGHT_PRIOR] = {{.name = "prior", TEMPERATURE}, 1, by_shares},
    [WEIGHT_ORACLE] = {{.name = "oracle"}, 1, by_reference},
    [WEIGHT_UNIFORM] = {{.name = "uniform"}, 1, by_none},
    [WEIGHT_DISTANCE] = {{.name = "distance", TEMPERATURE}, 0, by_distance},
    [WEIGHT_DENSITY] = {{.name = "density", TEMPERATURE}, 0, by_density},
    [WEIGHT_CONFIDENCE] = {{.name = "confidence", TEMPERATURE}, 0, by_confidence},
    [WEIGHT_UNCERTAINTY] = {{.name = "uncertainty", TEMPERATURE}, 0, by_router},
    [WEIGHT_TIME] = {{.name = "time"}, 0, by_none},
};
static_assert(sizeof weights / sizeof *weights == WEIGHTS, "a source of weights has no function");

const struct named_table weight_table = NAMED_TABLE(weights);

static void select_full(const struct routing *r)
{
	(void)r;
}

/* An expert of weight 0 is not kept: raw weights would be all 0 with it, and others could not be scaled. */
static void select_top(const struct routing *r)
{
	double rank[r->k];

	for (int i = 0; i < r->k; i++)
		rank[i] = r->prob[i] + (r->in->kept && r->in->kept[i] && r->prob[i] > 0 ? r->policy->keep : 0);
	if (r->policy->number == 1) {
		keep_only(r, heaviest(r->k, rank));
		return;
	}
	for (int i = 0; i < r->k; i++)
		if (rank_of(r->k, rank, i) >= (int)r->policy->number)
			r->w[i] = 0;
	renormalise(r);
}

static void select_threshold(const struct routing *r)
{
	if (!(r->prob[heaviest(r->k, r->prob)] >= r->policy->number)) {
		keep_only(r, heaviest(r->k, r->prob));
		return;
	}
	for (int i = 0; i < r->k; i++)
		if (r->prob[i] < r->policy->number)
			r->w[i] = 0;
	renormalise(r);
}

/* nucleus:1 keeps every expert: rounding of the sum must not drop the last. */
static void select_nucleus(const struct routing *r)
{
	double sum = 0;

	memset(r->w, 0, (size_t)r->k * sizeof *r->w);
	do {
		int best = -1;

		for (int i = 0; i < r->k; i++)
			if (r->w[i] == 0 && r->prob[i] > 0 && (best < 0 || r->prob[i] > r->prob[best]))
				best = i;
		if (best < 0)
			break;
		sum += r->w[best] = r->prob[best];
	} while (sum < r->policy->number || r->policy->number == 1);
	renormalise(r);
}

static void select_sample(const struct routing *r)
{
	keep_one(r->k, r->w, route_draw(r->k, r->prob, r->in->present, r->in->u));
}

double route_dearest(int k, const double *cost, const unsigned char *present)
{
	double most = 0;

	for (int i = 0; i < k; i++)
		most = present[i] ? fmax(most, cost[i]) : most;
	return most;
}

/* What this evaluation should spend on experts, in GFLOP, and the most that it may. One expert is paid at every evaluation. What the budget holds
 * beyond that is shared out by entropy: this evaluation gets the part that its entropy has in the sum over those left, where a straight line from the
 * first evaluation's entropy down to 0 stands for the entropies that are not known yet. What is not spent stays for later. */
static double allowance(const struct routing *r, double *most)
{
	const struct route_budget *b = r->in->budget;
	double one = route_dearest(r->k, b->cost, r->in->present), all = 0, n = (double)b->left, total = (double)b->total;
	double entropy = route_entropy(r->k, r->prob), first = b->left == b->total ? entropy : b->entropy;
	double forecast = first / total * n * (n + 1) / 2, extra = b->gflop - n * (b->weights + one);

	for (int i = 0; i < r->k; i++)
		all += r->in->present[i] ? b->cost[i] : 0;
	/* Sums of costs are rounded: what is short by so little is paid. */
	*most = one + extra + 1e-9 * b->gflop;
	if (b->gflop * (1 + 1e-9) >= n * (b->weights + all))
		return all;
	return one + (forecast > 0 ? extra * fmin(1, entropy / forecast) : 0);
}

/* The heaviest expert, and then by weight those of whose cost the allowance still pays half: rounded to whole experts. */
static void select_budget(const struct routing *r)
{
	const double *cost = r->in->budget->cost;
	double most, left = allowance(r, &most);
	unsigned char seen[r->k];

	memset(seen, 0, sizeof seen);
	memset(r->w, 0, (size_t)r->k * sizeof *r->w);
	for (int n = 0; n < r->k; n++) {
		int best = -1;

		for (int i = 0; i < r->k; i++)
			if (!seen[i] && r->prob[i] > 0 && (best < 0 || r->prob[i] > r->prob[best]))
				best = i;
		if (best < 0)
			break;
		seen[best] = 1;
		if (n && (cost[best] / 2 > left || cost[best] > most))
			continue;
		r->w[best] = r->prob[best];
		left -= cost[best];
		most -= cost[best];
	}
	renormalise(r);
}

/* drops: the selection may drop experts, and then scales the weights of the others. */
static const struct select_def {
	struct named named;
	int drops;
	void (*select)(const struct routing *r); /* NULL: expert:I */
} selects[] = {
    [SELECT_FULL] = {{.name = "full"}, 0, select_full},
    [SELECT_TOP] = {{.name = "top", .numbers = "-K", .count = 1, .whole = 1, .number = {{1, 1, MAX_EXPERTS}}}, 1, select_top},
    [SELECT_THRESHOLD] = {{.name = "threshold", .numbers = ":P", .count = 1, .number = {{0, 0, 1}}}, 1, select_threshold},
    [SELECT_NUCLEUS] = {{.name = "nucleus", .numbers = ":P", .count = 1, .number = {{0, 0, 1}}}, 1, select_nucleus},
    [SELECT_SAMPLE] = {{.name = "sample"}, 0, select_sample},
    [SELECT_EXPERT] = {{.name = "expert", .numbers = ":I", .count = 1, .whole = 1, .number = {{0, 0, MAX_EXPERTS - 1}}}, 0, NULL},
    [SELECT_BUDGET] = {{.name = "budget", .numbers = ":GFLOP", .count = 1, .number = {{0, 0, 1e15}}}, 1, select_budget},
};
static_assert(sizeof selects / sizeof *selects == SELECTS, "a selection has no function");

const struct named_table select_table = NAMED_TABLE(selects);

int route_asks_router(const struct policy_entry *y)
{
	return y->weights == WEIGHT_ROUTER && y->select != SELECT_EXPERT;
}

int route_asks_uncertainty(const struct policy_entry *y)
{
	return y->weights == WEIGHT_UNCERTAINTY && y->select != SELECT_EXPERT;
}

int route_may_drop(const struct policy_entry *y)
{
	return selects[y->select].drops;
}

int route_draws_once(const struct policy_entry *y)
{
	return weights[y->weights].constant;
}

int route_weights(const struct policy_entry *y, const struct route_input *in, double *prob, double *w)
{
	const struct routing r = {y, in, in->k, prob, w};
	int best;

	if (!selects[y->select].select) {
		memset(prob, 0, (size_t)in->k * sizeof *prob);
		keep_one(in->k, w, (int)y->number);
		return (int)y->number;
	}
	if (weights[y->weights].weigh(y, in, prob))
		return -1;
	memcpy(w, prob, (size_t)in->k * sizeof *w);
	selects[y->select].select(&r);
	best = heaviest(in->k, prob);
	return w[best] > 0 ? best : heaviest(in->k, w);
}

int route_draw(int k, const double *shares, const unsigned char *present, double u)
{
	double sum = 0, below = 0;
	int last = -1;

	for (int i = 0; i < k; i++)
		sum += present[i] ? shares[i] : 0;
	for (int i = 0; i < k; i++) {
		if (!present[i] || !(shares[i] > 0))
			continue;
		last = i;
		below += shares[i];
		if (u * sum < below)
			break;
	}
	return last;
}

double route_entropy(int k, const double *prob)
{
	double h = 0;

	for (int i = 0; i < k; i++)
		if (prob[i] > 0)
			h -= prob[i] * log(prob[i]);
	return h;
}
