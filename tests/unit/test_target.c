/* train/frozen: targets of a router from the errors of experts. On a finite set the exact experts and the distribution of a sample given its noised
 * version are known, so the optimum of each loss is too: the gradient there is 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "net/netdef.h"
#include "net/trunkconfig.h"
#include "train/frozen.h"
#include "train/noised.h"

static void names(void **state)
{
	static const char *const good[] = {"cluster", "error:0.1", "regret", "variance", "mixture", "mixture:0.5", "uncertainty:7"};
	static const int kinds[] = {TARGET_CLUSTER, TARGET_ERROR, TARGET_REGRET, TARGET_VARIANCE, TARGET_MIXTURE, TARGET_MIXTURE, TARGET_UNCERTAINTY};
	static const char *const bad[] = {"",           "errors",     "error:0",  "error:-1",    "error:1,2",      "regret:1",
	                                  "variance:1", "mixture:-1", "mixture ", "uncertainty", "uncertainty:-1", "uncertainty:.5"};
	struct router_target t;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 7; i++) {
		char *text;

		assert_int_equal(target_parse(good[i], &t, &e), 0);
		assert_int_equal(t.kind, kinds[i]);
		text = target_text(&t);
		assert_string_equal(text, good[i]);
		mem_free(text);
	}
	assert_int_equal(target_parse("error", &t, &e), 0);
	assert_float_equal(t.temperature, .01, 0);
	assert_int_equal(target_parse("mixture:.5", &t, &e), 0);
	assert_float_equal(t.anchor, .5, 0);
	assert_int_equal(target_loss(&t), LOSS_ANCHORED);
	assert_int_equal(target_parse("mixture", &t, &e), 0);
	assert_float_equal(t.anchor, 0, 0);
	assert_int_equal(target_loss(&t), LOSS_MIXTURE);
	assert_int_equal(target_parse("uncertainty:7", &t, &e), 0);
	assert_int_equal(t.expert, 7);
	assert_int_equal(target_loss(&t), LOSS_VARIANCE);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e = (struct err){0};
		assert_int_equal(target_parse(bad[i], &t, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
}

/* Errors .3, .1, .2, by hand. */
static void by_hand(void **state)
{
	static const double gram[9] = {.3, .05, .01, .05, .1, -.02, .01, -.02, .2}, ties[4] = {.5, 0, 0, .5};
	double sum = exp(-3) + exp(-1) + exp(-2);
	struct router_target t = {.kind = TARGET_ERROR, .temperature = .1};
	float out[12];

	(void)state;
	assert_int_equal(target_of(&t, gram, 3, 2, out), 1);
	assert_float_equal(out[0], exp(-3) / sum, 1e-7);
	assert_float_equal(out[1], exp(-1) / sum, 1e-7);
	assert_float_equal(out[2], exp(-2) / sum, 1e-7);
	t.temperature = 1e-6; /* exp(-3e5) is 0 */
	target_of(&t, gram, 3, 2, out);
	assert_float_equal(out[1], 1, 0);
	t.kind = TARGET_REGRET;
	assert_int_equal(target_of(&t, gram, 3, 2, out), 1);
	assert_float_equal(out[0], 0, 0);
	assert_float_equal(out[1], .2, 1e-7);
	assert_float_equal(out[2], .1, 1e-7);
	t.kind = TARGET_MIXTURE;
	assert_int_equal(target_of(&t, gram, 3, 2, out), 1);
	for (int i = 0; i < 9; i++)
		assert_float_equal(out[i], gram[i], 1e-8);
	t.anchor = .25;
	target_of(&t, gram, 3, 2, out);
	assert_float_equal(out[8], .2, 1e-8);
	assert_float_equal(out[9] + out[10], 0, 0);
	assert_float_equal(out[11], .25, 0);
	t.kind = TARGET_VARIANCE;
	assert_int_equal(target_of(&t, gram, 3, 2, out), 1);
	for (int i = 0; i < 3; i++)
		assert_float_equal(out[i], gram[4 * i], 1e-8);
	assert_int_equal(target_of(&t, ties, 2, 0, out), 0);
}

/* ---- the optimum on a finite set ---- */

enum { POINTS = 6, D = 4, K = 3, SIDE = 2 };

static const double points[POINTS][D] = {{1, .2, -.5, .3},   {.6, -.4, .1, .9}, {-1, .5, .2, -.1},
                                         {-.3, .8, -.9, .4}, {.1, -1, .7, .2},  {.4, -.6, 1.1, -.8}};
static const double x[D] = {.3, .1, -.2, .4};

/* p (POINTS): of each point given x at time t; posterior (K) of the clusters, of which point i is in i / 2; gram (POINTS, K, K) of exact experts. */
static void exact(double t, double *p, double *posterior, double *gram)
{
	double sum = 0, v[K][D] = {{0}};

	memset(posterior, 0, K * sizeof *posterior);
	for (int i = 0; i < POINTS; i++) {
		double far = 0;

		for (int c = 0; c < D; c++)
			far += pow(x[c] - (1 - t) * points[i][c], 2);
		sum += p[i] = exp(-far / (2 * t * t));
	}
	for (int i = 0; i < POINTS; i++) {
		p[i] /= sum;
		posterior[i / 2] += p[i];
	}
	for (int k = 0; k < K; k++)
		for (int c = 0; c < D; c++)
			v[k][c] = (x[c] - (p[2 * k] * points[2 * k][c] + p[2 * k + 1] * points[2 * k + 1][c]) / posterior[k]) / t;
	for (int i = 0; i < POINTS; i++)
		for (int j = 0; j < K; j++)
			for (int k = 0; k < K; k++) {
				double g = 0;

				for (int c = 0; c < D; c++) {
					double y = (x[c] - points[i][c]) / t;

					g += (v[j][c] - y) * (v[k][c] - y);
				}
				gram[(i * K + j) * K + k] = g / D;
			}
}

/* The expected loss of a router whose logits are `bias` at every state, and its gradient (K), by the tape of training in double: one row for each
 * point, weighted by its probability. */
static double loss_at(enum loss_kind kind, const double *target, int64_t numbers, const double *p, const double *bias, double *gradient)
{
	struct net_config c;
	struct device *d = device_cpu(NULL, DT_F64);
	struct params params = {0};
	struct loss_tape l;
	struct err e = {0};
	double ones[POINTS], x0[POINTS * D] = {0}, loss[POINTS], sum = 0, *values, *grads;
	int at;

	net_init(&c, &net_router);
	c.channels = 1;
	c.size = SIDE;
	c.clusters = K;
	*trunk_edit(&c) = (struct trunk_config){.patch = 1, .hidden = 4, .depth = 1, .heads = 1, .mlp_ratio = 1};
	loss_record(&l, &c, kind, &params, DT_F64, POINTS, 1, 0);
	tape_layout(l.tape, d, NULL);
	if (tape_allocate(l.tape, &e))
		fail_msg("%s", e.msg);
	values = mem_zalloc((size_t)params.total, sizeof *values);
	grads = mem_zalloc((size_t)params.total, sizeof *grads);
	at = params_find(&params, "head.4.bias");
	assert_true(at >= 0);
	memcpy(values + params.v[at].offset, bias, K * sizeof *bias);
	for (int i = 0; i < POINTS; i++)
		ones[i] = 1;
	tape_bind_params(l.tape, values, grads);
	struct tensor *const vectors[] = {l.alpha, l.sigma, l.t, l.from_x0, l.from_eps};
	for (int i = 0; i < 5; i++)
		tape_bind(l.tape, vectors[i], ones);
	tape_bind(l.tape, l.x0, x0);
	assert_int_equal(l.target->shape[1] * (l.target->rank == 3 ? l.target->shape[2] : 1), numbers);
	tape_bind(l.tape, l.target, (double *)(uintptr_t)target);
	tape_bind(l.tape, l.dloss, (double *)(uintptr_t)p);
	tape_seed(l.tape, &(struct run_keys){0});
	tape_run(l.tape, POINTS, 0, l.end);
	memcpy(loss, tape_data(l.tape, l.loss), sizeof loss);
	memcpy(gradient, grads + params.v[at].offset, K * sizeof *gradient);
	for (int i = 0; i < POINTS; i++)
		sum += p[i] * loss[i];
	tape_free(l.tape);
	params_release(&params);
	device_free(d);
	mem_free(values);
	mem_free(grads);
	return sum;
}

static double largest(const double *a)
{
	return fmax(fabs(a[0]), fmax(fabs(a[1]), fabs(a[2])));
}

/* At the optimum in closed form the gradient is 0, and the loss is less than beside it. bias (K): the logits. The numbers of a target are floats,
 * with an error of 6e-8 of the largest. */
static void check_optimum(const struct router_target *t, const double *p, const double *gram, double *bias)
{
	int64_t rows = t->kind == TARGET_MIXTURE ? K + (t->anchor > 0) : 1, numbers = rows * K;
	double target[POINTS * (K + 1) * K], gradient[K], least;
	float out[(K + 1) * K];

	for (int i = 0; i < POINTS; i++) {
		target_of(t, gram + i * K * K, K, i / 2, out);
		for (int j = 0; j < numbers; j++)
			target[i * numbers + j] = out[j];
	}
	least = loss_at(target_loss(t), target, numbers, p, bias, gradient);
	assert_true(largest(gradient) < 1e-6);
	for (int k = 0; k < K; k++) {
		bias[k] += .3;
		assert_true(loss_at(target_loss(t), target, numbers, p, bias, gradient) > least + 1e-5);
		assert_true(largest(gradient) > 1e-4);
		bias[k] -= .3;
	}
}

/* The same for logits whose softmax is w. */
static void check_weights(const struct router_target *t, const double *p, const double *gram, const double *w)
{
	double bias[K];

	for (int k = 0; k < K; k++)
		bias[k] = log(w[k]) + 3;
	check_optimum(t, p, gram, bias);
}

static void optimum(void **state)
{
	static const double times[] = {.4, .7};

	(void)state;
	for (int n = 0; n < 2; n++) {
		double p[POINTS], posterior[K], gram[POINTS * K * K], soft[K] = {0}, regret[K] = {0}, mean[K] = {0};
		const struct router_target error = {TARGET_ERROR, .5, 0, 0}, regretful = {TARGET_REGRET, 0, 0, 0},
					   variance = {TARGET_VARIANCE, 0, 0, 0}, mixture = {TARGET_MIXTURE, 0, 0, 0},
					   anchored = {TARGET_MIXTURE, 0, 1, 0};
		double logits[K];
		int best = 0, heaviest = 0;

		exact(times[n], p, posterior, gram);
		for (int i = 0; i < POINTS; i++) {
			double e[K], worst = 0, sum = 0;

			for (int k = 0; k < K; k++) {
				e[k] = gram[(i * K + k) * K + k];
				worst = fmax(worst, e[k]);
				sum += exp(-e[k] / .5);
			}
			for (int k = 0; k < K; k++) {
				soft[k] += p[i] * exp(-e[k] / .5) / sum;
				regret[k] += p[i] * (worst - e[k]);
				mean[k] += p[i] * e[k];
			}
		}
		for (int k = 0; k < K; k++)
			logits[k] = -log(mean[k]);
		check_weights(&error, p, gram, soft);
		check_weights(&regretful, p, gram, regret);
		check_optimum(&variance, p, gram, logits);
		check_weights(&anchored, p, gram, posterior); /* where the mixture's error is least, so is the cross-entropy */
		check_weights(&mixture, p, gram, posterior);  /* SUM p(k | x) v_k is the velocity of the whole set */
		for (int k = 1; k < K; k++) {
			best = mean[k] < mean[best] ? k : best;
			heaviest = regret[k] > regret[heaviest] ? k : heaviest;
		}
		assert_int_equal(best, heaviest);
	}
}

/* Experts that agree: the mixture's loss is the same for all weights, and the anchor alone decides, for the shares of the clusters. */
static void agreeing(void **state)
{
	const struct router_target mixture = {TARGET_MIXTURE, 0, 0, 0}, anchored = {TARGET_MIXTURE, 0, .1, 0};
	double gram[POINTS * K * K], p[POINTS], bias[K] = {1, -2, 0}, gradient[K], target[POINTS * K * K], even[K] = {1. / 3, 1. / 3, 1. / 3};
	float out[(K + 1) * K];

	(void)state;
	for (int i = 0; i < POINTS * K * K; i++)
		gram[i] = .5;
	for (int i = 0; i < POINTS; i++) {
		p[i] = 1. / POINTS;
		target_of(&mixture, gram + i * K * K, K, i / 2, out);
		for (int j = 0; j < K * K; j++)
			target[i * K * K + j] = out[j];
	}
	assert_float_equal(loss_at(LOSS_MIXTURE, target, K * K, p, bias, gradient), .5, 1e-12);
	assert_true(largest(gradient) < 1e-12);
	check_weights(&anchored, p, gram, even);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(by_hand),
	    cmocka_unit_test(optimum),
	    cmocka_unit_test(agreeing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
