/* diffusion/policy, route: texts of policies, schedules, and the weights of sources and selections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/route.h"

static const unsigned char all[] = {1, 1, 1, 1, 1, 1};

/* Weights by the first entry of a policy. */
static int weigh(const char *policy, const struct route_input *in, double *prob, double *w)
{
	const struct policy p = policy_of(policy);

	return route_weights(&p.entry[0], in, prob, w);
}

static int weigh_logits(const char *policy, int k, const float *logits, const unsigned char *present, double *prob, double *w)
{
	return weigh(policy, &(struct route_input){.k = k, .present = present, .logits = logits}, prob, w);
}

static void absent_experts_are_masked(void **state)
{
	const float logits[] = {0, 3, 1, -INFINITY};
	const unsigned char present[] = {1, 0, 1, 1};
	double prob[4], w[4];

	(void)state;
	assert_int_equal(weigh_logits("full", 4, logits, present, prob, w), 2);
	assert_true(w[1] == 0 && w[3] == 0 && fabs(w[2] - 1 / (1 + exp(-1))) < 1e-15 && fabs(w[0] + w[2] - 1) < 1e-15);
	weigh_logits("top-1", 4, logits, present, prob, w);
	assert_true(w[0] == 0 && w[1] == 0 && w[2] == 1 && w[3] == 0);
	assert_int_equal(weigh_logits("top-1", 1, (float[]){NAN}, present, prob, w), -1);
	assert_int_equal(weigh_logits("top-1", 1, (float[]){INFINITY}, present, prob, w), -1);
	assert_int_equal(weigh_logits("top-1", 1, (float[]){-INFINITY}, present, prob, w), -1);
	assert_int_equal(route_draw(4, (double[]){1, 5, 3, 0}, present, .2), 0);
	assert_int_equal(route_draw(4, (double[]){1, 5, 3, 0}, present, .3), 2);
	assert_int_equal(route_draw(4, (double[]){1, 5, 3, 0}, present, 1 - 0x1p-53), 2);
	assert_int_equal(route_draw(2, (double[]){0, 5}, present, .3), -1);
}

static void thresholds_and_ties(void **state)
{
	const float logits[] = {logf(.5f), logf(.3f), logf(.15f), logf(.05f)}, equal[] = {1, 1, 1, 1};
	double prob[4], w[4];

	(void)state;
	weigh_logits("threshold:.1", 4, logits, all, prob, w);
	assert_true(fabs(w[0] - .5 / .95) < 1e-7 && fabs(w[2] - .15 / .95) < 1e-7 && w[3] == 0);
	assert_int_equal(weigh_logits("threshold:.6", 4, logits, all, prob, w), 0);
	assert_true(w[0] == 1 && w[1] == 0);
	weigh_logits("top-2", 4, equal, all, prob, w);
	assert_true(w[0] == .5 && w[1] == .5 && w[2] == 0 && w[3] == 0);
	assert_true(fabs(route_entropy(4, prob) - log(4)) < 1e-15);
	/* Of equal weights every selection takes the lower index. */
	assert_int_equal(weigh_logits("top-1", 4, equal, all, prob, w), 0);
	assert_int_equal(weigh_logits("nucleus:.4", 4, equal, all, prob, w), 0);
	assert_true(w[0] == .5 && w[1] == .5 && w[2] == 0 && w[3] == 0);
	assert_int_equal(weigh_logits("threshold:.26", 4, equal, all, prob, w), 0);
	assert_true(w[0] == 1 && w[1] == 0);
	weigh_logits("threshold:.25", 4, equal, all, prob, w);
	assert_true(w[0] == .25 && w[3] == .25);
}

/* Against a plain computation: of all subsets of six experts with a mass of at least P, those of the fewest experts, and of these the heaviest. */
static void nucleus(void **state)
{
	enum { K6 = 6 };
	const unsigned char present[K6] = {1, 1, 1, 0, 1, 1};

	(void)state;
	for (uint64_t draw = 0; draw < 200; draw++) {
		float logits[K6];
		double prob[K6], w[K6], mass = 0, share = (double)(draw % 11) / 10;
		int best = -1, fewest = K6 + 1, heaviest;
		char text[32];

		snprintf(text, sizeof text, "nucleus:%g", share);
		rng_normal(logits, K6, 3, RNG_TEST, 0, draw);
		heaviest = weigh_logits(text, K6, logits, present, prob, w);
		for (int set = 1; set < 1 << K6; set++) {
			double sum = 0;
			int count = 0;

			for (int i = 0; i < K6; i++) {
				sum += set >> i & 1 ? prob[i] : 0;
				count += (set >> i & 1) && present[i];
			}
			/* The sum over all five is 1 within rounding. */
			if (sum > share - 1e-12 && count && (count < fewest || (count == fewest && sum > mass + 1e-12))) {
				best = set;
				fewest = count;
				mass = sum;
			}
		}
		for (int i = 0; i < K6; i++)
			assert_true(fabs(w[i] - (best >> i & 1 ? prob[i] / mass : 0)) < 1e-12);
		for (int i = 0; i < K6; i++)
			assert_true(w[heaviest] >= w[i]);
	}
}

/* Weights without a router, with an absent expert. */
static void other_sources(void **state)
{
	const unsigned char present[] = {1, 1, 0, 1};
	const double shares[] = {1, 6, 2, 3};
	struct route_input in = {.k = 4, .present = present, .shares = shares, .chosen = 3, .u = .05};
	double prob[4], w[4];

	(void)state;
	assert_int_equal(weigh("prior|full", &in, prob, w), 1);
	assert_true(w[0] == .1 && w[1] == .6 && w[2] == 0 && w[3] == .3);
	assert_int_equal(weigh("prior", &in, prob, w), 0);
	assert_true(w[0] == 1 && w[1] == 0);
	in.u = .1;
	assert_int_equal(weigh("prior|sample", &in, prob, w), 1);
	assert_int_equal(weigh("oracle", &in, prob, w), 3);
	assert_true(w[3] == 1 && w[0] == 0);
	in.chosen = 2;
	assert_int_equal(weigh("oracle", &in, prob, w), -1);
	in.chosen = -1;
	assert_int_equal(weigh("oracle|top-2", &in, prob, w), -1);
	in.chosen = 4;
	assert_int_equal(weigh("oracle", &in, prob, w), -1);
	assert_int_equal(weigh("uniform|full", &in, prob, w), 0);
	assert_true(w[0] == 1. / 3 && w[1] == 1. / 3 && w[2] == 0 && w[3] == 1. / 3);
	assert_int_equal(weigh("uniform|top-2", &in, prob, w), 0);
	assert_true(w[0] == .5 && w[1] == .5 && w[3] == 0);
	assert_int_equal(weigh("expert:3", &in, prob, w), 3);
	assert_true(w[3] == 1 && w[0] == 0 && w[1] == 0 && w[2] == 0);
	in.shares = (double[]){0, 0, 5, 0};
	assert_int_equal(weigh("prior", &in, prob, w), -1);
}

/* Weights to the power 1/T: for T -> 0 those of top-1, for T -> infinity equal ones, for T = 1 the same bits as without a temperature. */
static void temperatures(void **state)
{
	const unsigned char present[] = {1, 1, 0, 1};
	const float logits[] = {logf(.2f), logf(.5f), 3, logf(.1f)};
	const double shares[] = {2, 5, 9, 1}, power[] = {sqrt(2), sqrt(5), 0, 1};
	static const char *const source[] = {"router", "prior"};
	double prob[4], w[4], plain[4], sum = sqrt(2) + sqrt(5) + 1;

	(void)state;
	for (int s = 0; s < 2; s++) {
		const struct route_input in = {.k = 4, .present = present, .logits = logits, .shares = shares};
		char text[64];

		snprintf(text, sizeof text, "%s|full", source[s]);
		weigh(text, &in, plain, w);
		snprintf(text, sizeof text, "%s:1|full", source[s]);
		assert_int_equal(weigh(text, &in, prob, w), 1);
		assert_memory_equal(plain, prob, sizeof prob);
		snprintf(text, sizeof text, "%s:2|full", source[s]);
		weigh(text, &in, prob, w);
		for (int i = 0; i < 4; i++)
			assert_true(fabs(w[i] - power[i] / sum) < 1e-7);
		snprintf(text, sizeof text, "%s:1e-6|full", source[s]);
		weigh(text, &in, prob, w);
		assert_true(w[0] == 0 && w[1] == 1 && w[2] == 0 && w[3] == 0);
		snprintf(text, sizeof text, "%s:1e6|full", source[s]);
		weigh(text, &in, prob, w);
		assert_true(fabs(w[0] - 1. / 3) < 1e-6 && fabs(w[1] - 1. / 3) < 1e-6 && w[2] == 0 && fabs(w[3] - 1. / 3) < 1e-6);
	}
	/* The limits hold for any logits; ties share the weight. */
	for (uint64_t draw = 0; draw < 50; draw++) {
		float x[6];
		double top[6], cold[6], p[6];

		rng_normal(x, 6, 4, RNG_TEST, 0, draw);
		assert_int_equal(weigh_logits("router:1e-6|full", 6, x, all, p, cold), weigh_logits("top-1", 6, x, all, p, top));
		assert_memory_equal(cold, top, sizeof top);
	}
	weigh_logits("router:1e-6|full", 3, (float[]){1, 2, 2}, all, prob, w);
	assert_true(w[0] == 0 && w[1] == .5 && w[2] == .5);
	/* A selection uses the weights at their temperature. */
	weigh_logits("router:1e6|threshold:.3", 3, (float[]){1, 2, 2}, all, prob, w);
	assert_true(w[0] > .3 && w[1] > .3 && w[2] > .3);
}

static void raw_weights(void **state)
{
	const float logits[] = {logf(.5f), logf(.3f), logf(.15f), logf(.05f)};
	double prob[4], w[4];

	(void)state;
	assert_int_equal(weigh_logits("router|top-2|raw", 4, logits, all, prob, w), 0);
	assert_true(w[0] == prob[0] && w[1] == prob[1] && w[2] == 0 && w[3] == 0 && fabs(w[0] - .5) < 1e-7);
	weigh_logits("router|top-1|raw", 4, logits, all, prob, w);
	assert_true(w[0] == prob[0] && w[1] == 0);
	weigh_logits("router|threshold:.1|raw", 4, logits, all, prob, w);
	assert_true(w[0] == prob[0] && w[1] == prob[1] && w[2] == prob[2] && w[3] == 0);
	weigh_logits("router|threshold:.9|raw", 4, logits, all, prob, w);
	assert_true(w[0] == prob[0] && w[1] == 0);
	weigh_logits("router|nucleus:.7|raw", 4, logits, all, prob, w);
	assert_true(w[0] == prob[0] && w[1] == prob[1] && w[2] == 0);
}

/* Two experts; the weight of the second rises and falls. The chosen one is kept until the other's weight exceeds its own by the margin. */
static void hysteresis(void **state)
{
	static const double second[] = {.4, .5, .58, .64, .55, .45, .38, .3, .5}, margin = .2;
	const struct policy p = policy_of("router|top-1|keep:.2");
	unsigned char kept[2];
	int was = -1;

	(void)state;
	for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
		const float logits[] = {(float)log(1 - second[i]), (float)log(second[i])};
		const struct route_input in = {.k = 2, .present = all, .logits = logits, .kept = was < 0 ? NULL : kept};
		double prob[2], w[2];
		int now = route_weights(&p.entry[0], &in, prob, w), best = second[i] > .5;

		assert_true(w[now] == 1 && w[!now] == 0);
		if (was < 0)
			assert_int_equal(now, best);
		else
			assert_int_equal(now, prob[!was] > prob[was] + margin ? !was : was);
		was = now;
		kept[now] = 1;
		kept[!now] = 0;
	}
	assert_int_equal(was, 0);
}

/* A set of several experts is kept in the same way; an expert without weight is never kept. */
static void hysteresis_of_several(void **state)
{
	const float logits[] = {logf(.4f), logf(.25f), logf(.2f), logf(.15f)}, gone[] = {0, -INFINITY, -INFINITY, 1};
	struct route_input in = {.k = 4, .present = all, .logits = logits, .kept = (unsigned char[]){0, 0, 1, 1}};
	double prob[4], w[4];

	(void)state;
	weigh("router|top-2", &in, prob, w);
	assert_true(w[0] > 0 && w[1] > 0 && w[2] == 0 && w[3] == 0);
	weigh("router|top-2|keep:.06", &in, prob, w);
	assert_true(w[0] > 0 && w[1] == 0 && w[2] > 0 && w[3] == 0 && fabs(w[0] - .4 / .6) < 1e-7);
	weigh("router|top-2|keep:.3", &in, prob, w);
	assert_true(w[0] == 0 && w[1] == 0 && fabs(w[2] - .2 / .35) < 1e-7 && w[3] > 0);
	weigh("router|top-2|raw|keep:.3", &in, prob, w);
	assert_true(w[2] == prob[2] && w[3] == prob[3]);
	in.logits = gone;
	in.kept = (unsigned char[]){0, 1, 1, 0};
	assert_int_equal(weigh("router|top-2|keep:1", &in, prob, w), 3);
	assert_true(w[0] > 0 && w[1] == 0 && w[2] == 0 && fabs(w[0] + w[3] - 1) < 1e-15);
	assert_int_equal(weigh("router|top-1|keep:1", &in, prob, w), 3);
	assert_true(w[3] == 1);
}

/* Allowances, computed by hand: the budget beyond one expert at every evaluation, times the entropy over its forecast. */
static void budgets(void **state)
{
	const float equal[] = {0, 0, 0, 0}, logits[] = {logf(.4f), logf(.3f), logf(.2f), logf(.1f)};
	const double cost[] = {10, 10, 10, 10}, unequal[] = {10, 40, 5, 10};
	struct route_budget b = {.gflop = 4 * 11, .weights = 1, .cost = cost, .total = 4, .left = 4};
	struct route_input in = {.k = 4, .present = all, .logits = equal, .budget = &b};
	double prob[4], w[4];

	(void)state;
	/* One expert at every evaluation and not more. */
	assert_int_equal(weigh("budget:44", &in, prob, w), 0);
	assert_true(w[0] == 1 && w[1] == 0);
	/* Enough for all experts at every evaluation: the bits of full. */
	b.gflop = 4 * 41;
	in.logits = logits;
	weigh("budget:164", &in, prob, w);
	assert_memory_equal(w, prob, sizeof w);
	/* Of 30 GFLOP beyond the minimum the first of four evaluations gets H / (H (4 + 3 + 2 + 1) / 4) = .4, which pays one more expert. */
	b.gflop = 4 * 11 + 30;
	weigh("budget:74", &in, prob, w);
	assert_true(fabs(w[0] - .4 / .7) < 1e-7 && w[1] > 0 && w[2] == 0 && w[3] == 0);
	in.logits = equal;
	weigh("budget:74", &in, prob, w);
	assert_true(w[0] == .5 && w[1] == .5 && w[2] == 0);
	/* 4 pays less than half an expert; 5 pays half of one. */
	b.gflop = 4 * 11 + 10;
	weigh("budget:54", &in, prob, w);
	assert_true(w[0] == 1);
	b.gflop = 4 * 11 + 12.5 + 1e-9;
	weigh("budget:56.5", &in, prob, w);
	assert_true(w[0] == .5 && w[1] == .5);
	/* At the last of four evaluations the forecast is a quarter of the first entropy. Above that the whole rest is spent, as far as it pays
	 * experts. */
	b = (struct route_budget){.gflop = 11 + 29, .weights = 1, .cost = cost, .entropy = log(4), .total = 4, .left = 1};
	weigh("budget:74", &in, prob, w);
	assert_true(w[0] > 0 && w[1] > 0 && w[2] > 0 && w[3] == 0);
	/* A router that is certain spends nothing. */
	in.logits = (float[]){0, 20, 0, 0};
	b.gflop = 11 + 29;
	assert_int_equal(weigh("budget:74", &in, prob, w), 1);
	assert_true(w[1] == 1);
	/* With unequal costs, the most expensive expert is reserved for every evaluation. An expert that is too expensive is skipped for the next
	 * one. */
	in.logits = logits;
	b = (struct route_budget){.gflop = 41 + 15, .weights = 1, .cost = unequal, .entropy = log(4), .total = 4, .left = 1};
	weigh("budget:200", &in, prob, w);
	assert_true(w[0] > 0 && w[1] > 0 && w[2] > 0 && w[3] == 0);
	b.gflop = 41;
	weigh("budget:200", &in, prob, w);
	assert_true(w[0] > 0 && w[1] == 0 && w[2] > 0 && w[3] > 0);
	weigh("router|budget:200|raw", &in, prob, w);
	assert_true(w[0] == prob[0] && w[1] == 0 && w[2] == prob[2]);
}

/* A budget is never exceeded, for any entropies. */
static void budgets_hold(void **state)
{
	enum { N = 20 };
	double spent_least = 1e300, spent_most = 0;

	(void)state;
	for (uint64_t draw = 0; draw < 300; draw++) {
		double cost[5], prob[5], w[5], dear = 0, gflop, spent = 0, first = 0;
		char text[32];

		for (int i = 0; i < 5; i++)
			cost[i] = 1 + 9 * rng_uniform(1, RNG_TEST, draw, (uint64_t)i, 0);
		dear = route_dearest(5, cost, all);
		gflop = N * (.5 + dear) * (1 + rng_uniform(1, RNG_TEST, draw, 9, 0));
		snprintf(text, sizeof text, "budget:%.17g", gflop);
		for (int e = 0; e < N; e++) {
			const struct route_budget b = {gflop - spent, .5, cost, first, N, N - e};
			float logits[5];

			rng_normal(logits, 5, 7, RNG_TEST, draw, (uint64_t)e);
			for (int i = 0; i < 5; i++)
				logits[i] *= (float)(10 * rng_uniform(1, RNG_TEST, draw, 10 + (uint64_t)e, 0));
			weigh(text, &(struct route_input){.k = 5, .present = all, .logits = logits, .budget = &b}, prob, w);
			first = e ? first : route_entropy(5, prob);
			spent += .5;
			for (int i = 0; i < 5; i++)
				spent += w[i] > 0 ? cost[i] : 0;
		}
		assert_true(spent <= gflop * (1 + 1e-8));
		spent_least = fmin(spent_least, spent / gflop);
		spent_most = fmax(spent_most, spent / gflop);
	}
	assert_true(spent_least > .3 && spent_most > .9);
}

static void distances(void **state)
{
	const unsigned char present[] = {1, 1, 0, 1};
	const double d[] = {3, 1, 0, 1.5}, shares[] = {5, 3, 2, 2};
	struct route_input in = {.k = 4, .present = present, .distance = d};
	double prob[4], w[4], sum = exp(-3) + exp(-1) + exp(-1.5);

	(void)state;
	assert_int_equal(weigh("distance|full", &in, prob, w), 1);
	assert_true(fabs(w[0] - exp(-3) / sum) < 1e-15 && fabs(w[1] - exp(-1) / sum) < 1e-15 && w[2] == 0 && fabs(w[3] - exp(-1.5) / sum) < 1e-15);
	sum = exp(-6) + exp(-2) + exp(-3);
	weigh("distance:.5|full", &in, prob, w);
	assert_true(fabs(w[0] - exp(-6) / sum) < 1e-15 && fabs(w[1] - exp(-2) / sum) < 1e-15);
	weigh("distance:1e-6|full", &in, prob, w);
	assert_true(w[0] == 0 && w[1] == 1 && w[3] == 0);
	weigh("distance:1e6|full", &in, prob, w);
	assert_true(fabs(w[0] - 1. / 3) < 1e-6 && fabs(w[3] - 1. / 3) < 1e-6);
	assert_int_equal(weigh("distance|top-1", &in, prob, w), 1);
	in.distance = (double[]){2, 2, 0, 2};
	assert_int_equal(weigh("distance|top-1", &in, prob, w), 0);
	in.distance = (double[]){2, NAN, 0, 2};
	assert_int_equal(weigh("distance|top-1", &in, prob, w), -1);
	in.distance = (double[]){2, 1, NAN, 2};
	assert_int_equal(weigh("distance|top-1", &in, prob, w), 1);
	/* Without a prediction the weights are the shares, or equal. */
	in.distance = NULL;
	weigh("distance:.5|full", &in, prob, w);
	assert_true(w[0] == 1. / 3 && w[1] == 1. / 3 && w[2] == 0);
	in.shares = shares;
	weigh("distance:.5|full", &in, prob, w);
	assert_true(w[0] == .5 && w[1] == .3 && w[2] == 0 && w[3] == .2);
}

static void same_text(const char *given, const char *canonical)
{
	struct policy p = policy_of(given), again;
	char *text = policy_text(&p), *twice;

	assert_string_equal(text, canonical);
	again = policy_of(text);
	twice = policy_text(&again);
	assert_string_equal(twice, canonical);
	mem_free(text);
	mem_free(twice);
}

static void canonical_texts(void **state)
{
	static const char *const shorts[] = {"full",   "top-1",  "top-12", "threshold:.25", "nucleus:.9", "switch:.8",
	                                     "sample", "oracle", "prior",  "expert:0",      "threshold:1"};

	(void)state;
	for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++) {
		assert_false(policy_is_long(shorts[i]));
		same_text(shorts[i], shorts[i]);
	}
	same_text("router|full", "full");
	same_text("router|top-2@1", "top-2");
	same_text("router|nucleus:0.90", "nucleus:.9");
	same_text("router|threshold:1e-7", "threshold:1e-07");
	same_text("prior|sample", "prior");
	same_text("prior|full", "prior|full");
	same_text("oracle|full", "oracle");
	same_text("time|full", "time");
	same_text("oracle|top-1", "oracle|top-1");
	same_text("uniform|expert:3", "expert:3");
	same_text("router|expert:3", "expert:3");
	same_text("uniform|top-2", "uniform|top-2");
	same_text("router|full@1,router|top-1@.8", "switch:.8");
	same_text("full,top-1@0.80", "switch:.8");
	same_text("router|full@1,uniform|full@.75,prior@.5,top-1@0", "full@1,uniform|full@.75,prior@.5,top-1@0");
	same_text("router:1|top-2", "top-2");
	same_text("router:0.5|top-2", "router:.5|top-2");
	same_text("prior:1|sample", "prior");
	same_text("prior:2|sample", "prior:2|sample");
	same_text("router:3|expert:1", "expert:1");
	same_text("router|top-2|keep:0", "top-2");
	same_text("router|top-1|keep:.10|raw", "router|top-1|raw|keep:.1");
	same_text("distance:1|top-1", "distance|top-1");
	same_text("distance:0.10|full", "distance:.1|full");
	same_text("router|budget:1500", "budget:1500");
	same_text("prior:2|budget:0.25|raw", "prior:2|budget:.25|raw");
	same_text("router|full@1,router|top-1|raw@.5", "full@1,router|top-1|raw@.5");
	same_text("router:2|full@1,top-1@.5", "router:2|full@1,top-1@.5");
	assert_true(policy_is_long("router|full") && policy_is_long("full@1"));
}

/* An entry holds at its own time, the entry before it above that time. */
static void schedules(void **state)
{
	const struct policy p = policy_of("router|full@1,uniform|top-2@.8,expert:1@.5,top-1@0");
	const struct policy flip = policy_of("switch:.8");
	static const struct {
		double t;
		int entry;
	} at[] = {{1.2, 0}, {1, 0}, {.8 + 1e-12, 0}, {.8, 1}, {.6, 1}, {.5 + 1e-12, 1}, {.5, 2}, {1e-300, 2}, {0, 3}};

	(void)state;
	assert_int_equal(p.entries, 4);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		assert_ptr_equal(policy_at(&p, at[i].t), &p.entry[at[i].entry]);
	assert_true(policy_uses(&p, WEIGHT_ROUTER) && policy_uses(&p, WEIGHT_UNIFORM) && !policy_uses(&p, WEIGHT_PRIOR));
	assert_int_equal(policy_at(&flip, .8 + 1e-12)->select, SELECT_FULL);
	assert_int_equal(policy_at(&flip, .8)->select, SELECT_TOP);
	assert_true(policy_at(&flip, .1)->number == 1);
}

static void needs_of_policies(void **state)
{
	struct policy p = policy_of("expert:1@1,expert:3@.5");
	const unsigned char present[] = {1, 1, 0, 1};
	struct err e = {0};

	(void)state;
	assert_false(policy_uses(&p, WEIGHT_UNIFORM));
	assert_true(!policy_may_select(&p, 0) && policy_may_select(&p, 1) && policy_may_select(&p, 3));
	assert_int_equal(policy_check(&p, 4, present, &e), 0);
	p = policy_of("router|expert:2");
	assert_false(policy_uses(&p, WEIGHT_ROUTER));
	assert_int_equal(policy_check(&p, 4, present, &e), -1);
	assert_string_equal(e.msg, "route expert:2: the model has no expert_2");
	p = policy_of("full@1,top-5@.5");
	e.code = 0;
	assert_int_equal(policy_check(&p, 4, present, &e), -1);
	assert_string_equal(e.msg, "route top-5: the model has only 4 experts");
	assert_true(policy_may_select(&p, 0));
}

/* The policies of a list, as in ddm-diagnose --routes. */
static void lists(void **state)
{
	const char *list = "full,router|full@1,top-1@.5,expert:0@.2,top-2,full@1.0,exact:full,top-1@.25";
	static const char *const parts[] = {"full", "router|full@1,top-1@.5,expert:0@.2", "top-2", "full@1.0", "exact:full,top-1@.25"};

	(void)state;
	for (int i = 0; i < 5; i++) {
		size_t n = policy_span(list);

		assert_int_equal(n, strlen(parts[i]));
		assert_memory_equal(list, parts[i], n);
		list += n + (list[n] == ',');
	}
	assert_int_equal(*list, 0);
	assert_int_equal(policy_span(""), 0);
}

static void refused(const char *text, const char *message)
{
	struct policy p;
	struct err e = {0};

	assert_int_equal(policy_parse(text, &p, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	if (message)
		assert_string_equal(e.msg, message);
}

static void refusals(void **state)
{
	static const char *const bad[] = {"",
	                                  "top-",
	                                  "top-x",
	                                  "top--1",
	                                  "threshold:",
	                                  "threshold:1.5",
	                                  "threshold:nan",
	                                  "expert:",
	                                  "expert:-1",
	                                  "full ",
	                                  "Full",
	                                  "switch:2",
	                                  "nucleus",
	                                  "router",
	                                  "|",
	                                  "router|",
	                                  "|full",
	                                  "router||full",
	                                  "full@",
	                                  "full@x",
	                                  "full,",
	                                  ",full",
	                                  "full@nan",
	                                  "full@-1",
	                                  "full@1@.5",
	                                  "full@1,top-1@1",
	                                  "full@1,top-1@.5,full@.5",
	                                  "full@1,switch:.5@.5",
	                                  "switch:.5,full@.2",
	                                  "full|router",
	                                  "router:|full",
	                                  "router:0|full",
	                                  "router:-1|full",
	                                  "uniform:2|full",
	                                  "oracle:2|full",
	                                  "router|top-1|",
	                                  "router|top-1|raw:1",
	                                  "router|top-1|keep",
	                                  "router|top-1|keep:2",
	                                  "router|threshold:.1|keep:.1"};
	char many[400] = "full@1";

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refused(bad[i], NULL);
	refused("nucleus:1.5", "'nucleus:1.5' is not nucleus:P with P a number from 0 to 1");
	refused("switch", "'switch' is not switch:T with T a number from 0 to 1");
	refused("top-0", "'top-0' is not top-K with K an integer from 1 to 4096");
	refused("full:1", "'full:1' is not full, which takes no number");
	refused("best", "'best' is not one of full, top-K, threshold:P, nucleus:P, sample, expert:I, budget:GFLOP, oracle, prior, time, switch:T");
	refused("uniform", "'uniform' names weights alone: add a selection, as in 'uniform|full'");
	refused("ruter|full", "weights: 'ruter' is not one of router[:TEMP], prior[:TEMP], oracle, uniform, distance[:TEMP], density[:TEMP], "
	                      "confidence[:TEMP], uncertainty[:TEMP], time; "
	                      "did you mean router");
	refused("router|most", "selection: 'most' is not one of full, top-K, threshold:P, nucleus:P, sample, expert:I, budget:GFLOP");
	refused("router|top-2|row", "modifier: 'row' is not one of raw, keep:MARGIN; did you mean raw");
	refused("router|full|raw", "'raw' does nothing with full: it is for selections that drop experts and scale the weights of the others");
	refused("router|nucleus:.5|keep:.1", "'keep:.1' does nothing with nucleus: it is for top-K");
	refused("router:0|full", "weights: 'router:0' is not router[:TEMP] with TEMP a number from 1e-06 to 1000000");
	refused("full@1,budget:5@.5", "budget:GFLOP shares its GFLOP out over all steps: it stands alone, not in a schedule");
	refused("budget:-1", "'budget:-1' is not budget:GFLOP with GFLOP a number from 0 to 1e+15");
	refused("full@.8", "'full@.8': the first entry of a schedule holds from t = 1: write full@1");
	refused("full,top-1", "'top-1' needs the time from which it holds, as in 'top-1@.5'");
	refused("full@1,top-2@.5,top-1@.6", "'top-1@.6': t runs from 1 down to 0, so the time must be below the 0.5 of the entry before");
	refused("full@1.5", "'@1.5' is not @T with T a number from 0 to 1");
	for (int i = 1; i <= POLICY_ENTRIES; i++) {

		snprintf(many + strlen(many), sizeof many - strlen(many), ",full@.%d", 99 - i);
	}
	refused(many, "a schedule of more than 16 entries");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(absent_experts_are_masked),
	    cmocka_unit_test(thresholds_and_ties),
	    cmocka_unit_test(nucleus),
	    cmocka_unit_test(other_sources),
	    cmocka_unit_test(temperatures),
	    cmocka_unit_test(raw_weights),
	    cmocka_unit_test(hysteresis),
	    cmocka_unit_test(hysteresis_of_several),
	    cmocka_unit_test(budgets),
	    cmocka_unit_test(budgets_hold),
	    cmocka_unit_test(distances),
	    cmocka_unit_test(canonical_texts),
	    cmocka_unit_test(schedules),
	    cmocka_unit_test(needs_of_policies),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
