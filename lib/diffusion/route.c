/* Parses routing policies, and computes their weights from router logits. */
#include "diffusion/route.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/named.h"
#include "diffusion/layout.h"

static int softmax(int k, const float *logits, const unsigned char *present, double *prob)
{
	double top = -INFINITY, sum = 0;

	for (int i = 0; i < k; i++) {
		if (!present[i])
			continue;
		if (isnan(logits[i]) || logits[i] == INFINITY)
			return -1;
		top = fmax(top, logits[i]);
	}
	if (top == -INFINITY)
		return -1;
	for (int i = 0; i < k; i++)
		sum += prob[i] = present[i] ? exp(logits[i] - top) : 0;
	for (int i = 0; i < k; i++)
		prob[i] /= sum;
	return 0;
}

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

/* If nothing was dropped the sum is 1 up to rounding, and dividing by it would make top-K of all experts differ from full. */
static void renormalise(int k, const double *prob, double *w)
{
	double sum = 0;
	int dropped = 0;

	for (int i = 0; i < k; i++) {
		sum += w[i];
		dropped |= prob[i] > 0 && w[i] == 0;
	}
	for (int i = 0; dropped && i < k; i++)
		w[i] /= sum;
}

static void keep_heaviest(int k, const double *prob, double *w)
{
	keep_one(k, w, heaviest(k, prob));
}

/* Arguments of a policy. w (k) is the posterior on entry and the policy's weights on return. */
struct routing {
	const struct policy *policy;
	double t, u;
	int k;
	const double *prob;           /* (k) */
	const unsigned char *present; /* (k) */
	double *w;
};

static void weigh_full(const struct routing *r)
{
	(void)r;
}

static void weigh_top(const struct routing *r)
{
	if (r->policy->k == 1) {
		keep_heaviest(r->k, r->prob, r->w);
		return;
	}
	for (int i = 0; i < r->k; i++)
		if (rank_of(r->k, r->prob, i) >= r->policy->k)
			r->w[i] = 0;
	renormalise(r->k, r->prob, r->w);
}

static void weigh_threshold(const struct routing *r)
{
	if (!(r->prob[heaviest(r->k, r->prob)] >= r->policy->p)) {
		keep_heaviest(r->k, r->prob, r->w);
		return;
	}
	for (int i = 0; i < r->k; i++)
		if (r->prob[i] < r->policy->p)
			r->w[i] = 0;
	renormalise(r->k, r->prob, r->w);
}

/* nucleus:1 keeps every expert: rounding of the sum must not drop the last. */
static void weigh_nucleus(const struct routing *r)
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
	} while (sum < r->policy->p || r->policy->p == 1);
	renormalise(r->k, r->prob, r->w);
}

static void weigh_switch(const struct routing *r)
{
	if (r->t <= r->policy->p)
		keep_heaviest(r->k, r->prob, r->w);
}

static void weigh_sample(const struct routing *r)
{
	keep_one(r->k, r->w, route_draw(r->k, r->prob, r->present, r->u));
}

/* In the order of enum policy_kind. weigh NULL: the policy names one expert per trajectory, and needs no router. */
static const struct policy_def {
	struct named named;
	void (*weigh)(const struct routing *r);
} policies[] = {
    [POLICY_FULL] = {{.name = "full"}, weigh_full},
    [POLICY_TOP] = {{.name = "top", .numbers = "-K", .count = 1, .whole = 1, .number = {{1, 1, MAX_EXPERTS}}}, weigh_top},
    [POLICY_THRESHOLD] = {{.name = "threshold", .numbers = ":P", .count = 1, .number = {{0, 0, 1}}}, weigh_threshold},
    [POLICY_NUCLEUS] = {{.name = "nucleus", .numbers = ":P", .count = 1, .number = {{0, 0, 1}}}, weigh_nucleus},
    [POLICY_SWITCH] = {{.name = "switch", .numbers = ":T", .count = 1, .number = {{0, 0, 1}}}, weigh_switch},
    [POLICY_SAMPLE] = {{.name = "sample"}, weigh_sample},
    [POLICY_ORACLE] = {{.name = "oracle"}, NULL},
    [POLICY_PRIOR] = {{.name = "prior"}, NULL},
    [POLICY_EXPERT] = {{.name = "expert", .numbers = ":I", .count = 1, .whole = 1, .number = {{0, 0, MAX_EXPERTS - 1}}}, NULL},
};
static_assert(sizeof policies / sizeof *policies == POLICIES, "a policy has no function");

static const struct named_table policy_table = NAMED_TABLE(policies);

#define WORDS(kind, form, ...) __VA_ARGS__,
const char *const policy_words[] = {POLICY_LIST(WORDS) NULL};

int policy_parse(const char *text, struct policy *p, struct err *e)
{
	double number[NAMED_NUMBERS];
	int i = named_parse(&policy_table, text, number, e);

	memset(p, 0, sizeof *p);
	if (i < 0)
		return -1;
	p->kind = (enum policy_kind)i;
	if (policies[i].named.whole)
		p->k = (int)number[0];
	else
		p->p = number[0];
	return 0;
}

int policy_needs_router(const struct policy *p)
{
	return policies[p->kind].weigh != NULL;
}

int route_weights(const struct policy *p, double t, int k, const float *logits, const unsigned char *present, double u, double *prob, double *w)
{
	const struct routing r = {p, t, u, k, prob, present, w};
	int best;

	assert(policies[p->kind].weigh);
	if (softmax(k, logits, present, prob))
		return -1;
	memcpy(w, prob, (size_t)k * sizeof *w);
	policies[p->kind].weigh(&r);
	best = heaviest(k, prob);
	return w[best] > 0 ? best : heaviest(k, w);
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
