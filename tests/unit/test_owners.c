/* diffusion/owners: which experts own a time, and which policies can choose among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/mixture.h"

enum { K = 5 };
static const unsigned char all[K] = {1, 1, 1, 1, 1};

/* Clusters 0 and 1 own [0, .5), cluster 2 owns [0, .25), cluster 0 alone [.5, .875), and a monolith the rest. The experts are in no order. */
static struct owner experts[K] = {{{.875, 1}, -1}, {{0, .5}, 1}, {{0, .5}, 0}, {{0, .25}, 2}, {{.5, .875}, 0}};
static const struct owners some = {experts, NULL};

static void owners_of_a_time(void **state)
{
	static const unsigned char few[K] = {1, 1, 0, 1, 0};
	int owner[K];

	(void)state;
	assert_int_equal(owners_at(&some, K, all, 0, owner), 3);
	assert_true(owner[0] == 2 && owner[1] == 1 && owner[2] == 3);
	assert_int_equal(owners_at(&some, K, all, .25, owner), 2);
	assert_true(owner[0] == 2 && owner[1] == 1);
	assert_int_equal(owners_at(&some, K, all, nextafter(.5, 0), owner), 2);
	assert_int_equal(owners_at(&some, K, all, .5, owner), 1);
	assert_int_equal(owner[0], 4);
	assert_int_equal(owners_at(&some, K, all, .875, owner), 1);
	assert_int_equal(owner[0], 0);
	assert_int_equal(owners_at(&some, K, all, 1, owner), 1);
	assert_int_equal(owner[0], 0);
	assert_int_equal(owners_at(&some, K, few, .3, owner), 1);
	assert_int_equal(owners_at(&some, K, few, .6, owner), 0);
}

static int refused(const struct owners *o, int k, const char *route, const char *words)
{
	const struct policy p = policy_of(route);
	struct err e = {0};
	int rc = owners_check(o, k, all, &p, &e);

	if (!words)
		return rc == 0;
	return rc == -1 && e.code == ERR_USAGE && strstr(e.msg, words) != NULL;
}

static void checks(void **state)
{
	static struct owner gap[] = {{{0, .25}, -1}, {{.5, 1}, -1}}, over[] = {{{0, .6}, 0}, {{.5, 1}, 0}}, mixed[] = {{{0, 1}, -1}, {{0, 1}, 1}};
	const struct owners g = {gap, NULL}, v = {over, NULL}, x = {mixed, NULL}, none = {NULL, NULL};

	(void)state;
	assert_true(refused(&some, K, "full", NULL) && refused(&some, K, "prior", NULL) && refused(&some, K, "uniform|full", NULL));
	assert_true(refused(&some, K, "time", "expert_2 (times 0..0.5) and expert_1 (times 0..0.5) are both for t = 0"));
	assert_true(refused(&some, K, "time@1,full@.5", NULL)); /* time while one expert owns t */
	assert_true(refused(&some, K, "time@1,full@.4", "are both for t = 0.25"));
	assert_true(refused(&some, K, "budget:1", "for different times"));
	assert_true(refused(&g, 2, "full", "from 0.25 to 0.5: expert_0 ends at 0.25, expert_1 begins at 0.5"));
	assert_true(refused(&g, 2, "expert:0", NULL) && refused(&g, 2, "time@1,expert:0@.5", NULL));
	assert_true(refused(&v, 2, "full", "are both for t = 0.5") && refused(&v, 2, "oracle", "different clusters"));
	assert_true(refused(&v, 2, "uniform|full", NULL));
	assert_true(refused(&x, 2, "full", "the first is of all clusters") && refused(&x, 2, "uniform|top-1", NULL));
	assert_true(refused(&none, 2, "time", "are both for t = 0") && refused(&none, 1, "time", NULL) && refused(&none, 2, "budget:1", NULL));
}

/* The router is needed only if some time has several owners. */
static void sources(void **state)
{
	static struct owner two[] = {{{0, .5}, -1}, {{.5, 1}, -1}};
	const struct owners t = {two, NULL};
	const struct policy full = policy_of("full"), late = policy_of("full@1,uniform|full@.5"), noisy = policy_of("uniform|full@1,full@.3");

	(void)state;
	assert_true(owners_weigh(&some, K, all, &full, WEIGHT_ROUTER) && !owners_weigh(&t, 2, all, &full, WEIGHT_ROUTER));
	assert_true(!owners_weigh(&some, K, all, &late, WEIGHT_ROUTER) && owners_weigh(&some, K, all, &noisy, WEIGHT_ROUTER));
	assert_false(owners_weigh(&some, K, all, &full, WEIGHT_PRIOR));
}

/* t of another path is that of equal log-SNR. */
static void other_paths(void **state)
{
	const struct owners o = {experts, &path_gvp};

	(void)state;
	for (double t = .05; t < 1; t += .05)
		assert_true(fabs(tan(owners_time(&o, t) * acos(-1) / 2) - t / (1 - t)) < 1e-9 * (1 + t / (1 - t)));
	assert_true(owners_time(&some, .3) == .3);
}

static int velocity(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)x;
	(void)t;
	(void)c;
	(void)e;
	for (int64_t i = 0; i < n; i++)
		v[i] = *(const float *)arg;
	return 0;
}

static const float logits[3] = {0, 1, 3};
static int calls;

static int route(void *arg, int64_t n, const float *x, const float *t, float *out, struct err *e)
{
	(void)arg;
	(void)x;
	(void)t;
	(void)e;
	calls++;
	for (int64_t i = 0; i < n; i++)
		memcpy(out + 3 * i, logits, sizeof logits);
	return 0;
}

/* A mixture of the experts above: weights are the softmax of the owners' clusters, and the router is not asked where one expert owns t. */
static void mixtures(void **state)
{
	static float value[K] = {1, 2, 3, 4, 5};
	static const double times[] = {.1, .3, .6, .9};
	const double want[][K] = {{0, exp(1), 1, exp(3), 0}, {0, exp(1), 1, 0, 0}, {0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}};
	struct expert expert[K];
	struct router router = {route, NULL, 2, 0};
	struct mixture m = {
	    .k = K, .d = 1, .expert = expert, .owners = some, .clusters = 3, .router = &router, .policy = policy_of("full"), .cfg = 1};
	struct mixer *x;

	(void)state;
	for (int k = 0; k < K; k++)
		expert[k] = (struct expert){.velocity = velocity, .arg = &value[k], .capacity = 2};
	x = mixer_new(&m, 2, NULL);
	assert_non_null(x);
	for (int i = 0; i < 4; i++) {
		struct mixture_call c = {.n = 2, .x = (const float[2]){0, 0}, .t = times[i]};
		double sum = 0, mean = 0;
		float v[2];

		calls = 0;
		for (int k = 0; k < K; k++)
			sum += want[i][k];
		assert_int_equal(mixer_velocity(x, v, &c, NULL, NULL), 0);
		for (int k = 0; k < K; k++) {
			mean += want[i][k] / sum * value[k];
			assert_true(fabs(mixer_weights(x)[K + k] - want[i][k] / sum) < 1e-12);
		}
		assert_true(fabs(v[1] - mean) < 1e-6 && v[0] == v[1]);
		assert_int_equal(calls, i < 2);
	}
	mixer_free(x);
	m.router = NULL;
	assert_null(mixer_new(&m, 2, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(owners_of_a_time), cmocka_unit_test(checks),   cmocka_unit_test(sources),
	    cmocka_unit_test(other_paths),      cmocka_unit_test(mixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
