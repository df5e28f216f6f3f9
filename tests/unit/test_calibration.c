/* train/calibrate: the temperature in closed form; train/noised: the targets of label smoothing and their loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "net/netdef.h"
#include "net/trunkconfig.h"
#include "train/calibrate.h"

/* A logit difference of a that is right in a share p of the cases: softmax(a / T) = p at T = a / log(p / (1 - p)). Here p is 3/4 or 9/10. */
static void two_clusters(void **state)
{
	enum { N = 20 };
	static const struct {
		double a;
		int right;
	} cases[] = {{5, 15}, {.2, 15}, {-3, 18}, {1.0986123, 15}};
	float logits[N * 2], targets[N * 2];

	(void)state;
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		double p = cases[c].right / (double)N, a = fabs(cases[c].a);

		for (int i = 0; i < N; i++) {
			int label = (i < cases[c].right) == (cases[c].a < 0);

			logits[2 * i] = (float)cases[c].a;
			logits[2 * i + 1] = 0;
			targets[2 * i] = label == 0;
			targets[2 * i + 1] = label == 1;
		}
		/* Logits are floats (6e-8), and the last interval of log temperature is 2e-11 wide. */
		assert_float_equal(calibrate_temperature(logits, targets, N, 2), a / log(p / (1 - p)), 1e-6 * a);
	}
}

/* Logits that are T log p of soft targets p, plus a constant, have temperature T, whatever the sum of a row's targets. */
static void many_clusters(void **state)
{
	enum { N = 50, K = 7 };
	static const double temperatures[] = {.3, 1, 4};
	float logits[N * K], targets[N * K];

	(void)state;
	for (int c = 0; c < 3; c++) {
		for (int i = 0; i < N; i++) {
			double p[K], sum = 0;

			for (int k = 0; k < K; k++)
				sum += p[k] = .01 + rng_uniform(1, RNG_TEST, 0, (uint64_t)i, (uint32_t)k);
			for (int k = 0; k < K; k++) {
				logits[i * K + k] = (float)(temperatures[c] * log(p[k] / sum) + i);
				targets[i * K + k] = (float)(p[k] / sum * (1 + i % 3));
			}
		}
		/* The constant makes the rounding of logits up to 2e-6. */
		assert_float_equal(calibrate_temperature(logits, targets, N, K), temperatures[c], 2e-5 * temperatures[c]);
	}
}

/* Logits that are never wrong, and logits that are always wrong. */
static void bounds(void **state)
{
	const float logits[4] = {1, 0, 0, 1}, right[4] = {1, 0, 0, 1}, wrong[4] = {0, 1, 1, 0};

	(void)state;
	assert_float_equal(calibrate_temperature(logits, right, 2, 2), CALIBRATE_LEAST, 1e-9);
	assert_float_equal(calibrate_temperature(logits, wrong, 2, 2), CALIBRATE_MOST, 1e-6);
}

enum { SIDE = 4, BATCH = 3, K = 5 };

/* The loss of a router with drawn weights is the cross-entropy of the smoothed targets; validation smooths none. */
static void smoothing(void **state)
{
	struct net_config c;
	struct device *d = device_cpu(NULL, DT_F32);
	struct objective o = {.path = &path_linear, .d = SIDE * SIDE, .smoothing = .3, .def.loss = LOSS_SOFT};
	struct params p = {0};
	struct loss_tape l;
	struct noised z;
	struct err e = {0};
	float x0[BATCH * SIDE * SIDE], logits[BATCH * K], loss[BATCH], *values;
	const int32_t cluster[BATCH] = {0, 4, 2};
	const struct clean clean = {.x0 = x0, .label = cluster, .cluster = cluster};

	(void)state;
	net_init(&c, &net_router);
	c.channels = 1;
	c.size = SIDE;
	c.clusters = K;
	*trunk_edit(&c) = (struct trunk_config){.patch = 2, .hidden = 8, .depth = 1, .heads = 2, .mlp_ratio = 2};
	rng_normal(x0, BATCH * SIDE * SIDE, 1, RNG_TEST, 1, 0);
	loss_record(&l, &c, LOSS_SOFT, &p, DT_F32, BATCH, 0, 0);
	tape_layout(l.tape, d, NULL);
	if (tape_allocate(l.tape, &e) || noised_init(&z, d, BATCH, &c, LOSS_SOFT, &e))
		fail_msg("%s", e.msg);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, 1, RNG_TEST, 2, 0);
	tape_bind_params(l.tape, values, NULL);
	loss_bind(&l, &z);
	for (int validates = 0; validates < 2; validates++) {
		double share = validates ? 0 : .3;

		if (validates)
			objective_validate(&o, &z, &l, BATCH, &clean, 0, BATCH);
		else
			objective_noise(&o, &z, &l, BATCH, &clean, 7, 3, 0);
		tape_run(l.tape, BATCH, 0, l.forward_end);
		memcpy(logits, tape_data(l.tape, l.out), sizeof logits);
		memcpy(loss, tape_data(l.tape, l.loss), sizeof loss);
		for (int i = 0; i < BATCH; i++) {
			double sum = 0, want = 0;

			for (int k = 0; k < K; k++)
				sum += exp(logits[i * K + k]);
			for (int k = 0; k < K; k++)
				want += (share / K + (k == cluster[i]) * (1 - share)) * (log(sum) - logits[i * K + k]);
			assert_float_equal(loss[i], want, 2e-6 * (1 + fabs(want)));
			assert_true(want > .01);
		}
	}
	tape_free(l.tape);
	noised_release(&z);
	params_release(&p);
	device_free(d);
	mem_free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_clusters),
	    cmocka_unit_test(many_clusters),
	    cmocka_unit_test(bounds),
	    cmocka_unit_test(smoothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
