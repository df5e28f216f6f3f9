/* Routing policies: parsing, and weights from router logits. */
#include "diffusion/route.h"

#include <math.h>
#include <string.h>

#include "core/meant.h"
#include "core/str.h"

enum { MAX_EXPERTS = 4096 };

static int count_after(const char *text, const char *prefix, int64_t lo, int *out)
{
	size_t n = strlen(prefix);
	int64_t v;

	if (strncmp(text, prefix, n) || parse_i64(text + n, lo, MAX_EXPERTS, &v))
		return 0;
	*out = (int)v;
	return 1;
}

static int real_after(const char *text, const char *prefix, double *out)
{
	size_t n = strlen(prefix);

	return !strncmp(text, prefix, n) && !parse_f64(text + n, 0, 1, out);
}

int policy_parse(const char *text, struct policy *p, struct err *e)
{
	static const struct {
		const char *name;
		enum policy_kind kind;
	} plain[] = {{"full", POLICY_FULL}, {"sample", POLICY_SAMPLE}, {"oracle", POLICY_ORACLE}, {"prior", POLICY_PRIOR}};

	static const char *const words[] = {"full", "sample", "oracle", "prior", "top-1", "top-2", "threshold:", "switch:", "expert:", NULL};
	char meant[WORD_MEANT];

	memset(p, 0, sizeof *p);
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (!strcmp(text, plain[i].name)) {
			p->kind = plain[i].kind;
			return 0;
		}
	if (count_after(text, "top-", 1, &p->k))
		p->kind = POLICY_TOP;
	else if (count_after(text, "expert:", 0, &p->k))
		p->kind = POLICY_EXPERT;
	else if (real_after(text, "threshold:", &p->p))
		p->kind = POLICY_THRESHOLD;
	else if (real_after(text, "switch:", &p->p))
		p->kind = POLICY_SWITCH;
	else
		return err_set(e, ERR_USAGE, "route '%s' is none of top-K, full, threshold:P, switch:T, sample, oracle, prior, expert:I%s", text,
		               word_meant(meant, text, words));
	return 0;
}

int policy_needs_router(const struct policy *p)
{
	return p->kind != POLICY_ORACLE && p->kind != POLICY_PRIOR && p->kind != POLICY_EXPERT;
}

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

/* How many weights come before i in the order by weight, then index. */
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

/* Where nothing was dropped the sum is 1 only up to rounding; dividing by it then would make top-K differ from full. */
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

int route_weights(const struct policy *p, double t, int k, const float *logits, const unsigned char *present, double u,
                  double *prob, double *w)
{
	int best;

	if (softmax(k, logits, present, prob))
		return -1;
	best = heaviest(k, prob);
	memcpy(w, prob, (size_t)k * sizeof *w);
	if (p->kind == POLICY_TOP && p->k > 1) {
		for (int i = 0; i < k; i++)
			if (rank_of(k, prob, i) >= p->k)
				w[i] = 0;
		renormalise(k, prob, w);
	} else if (p->kind == POLICY_THRESHOLD && prob[best] >= p->p) {
		for (int i = 0; i < k; i++)
			if (prob[i] < p->p)
				w[i] = 0;
		renormalise(k, prob, w);
	} else if (p->kind == POLICY_SAMPLE) {
		best = route_draw(k, prob, present, u);
		keep_one(k, w, best);
	} else if (p->kind == POLICY_TOP || p->kind == POLICY_THRESHOLD || (p->kind == POLICY_SWITCH && t <= p->p)) {
		keep_one(k, w, best);
	}
	return best;
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
