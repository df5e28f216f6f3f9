/* Solvers of discrete time in a mixture, on the experts' own path: routing, mixing and guidance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/sampler.h"
#include "diffusion/solverchoice.h"
#include "tests/unit/exact.h"

/* Four Gaussians of three dimensions in three clusters. */
enum { D = 3, K = 3, ROWS = 6 };
static const float means[4 * D] = {1, -1, .5f, -.8f, .6f, .2f, .1f, 1.2f, -1, -.3f, -.4f, .9f};
static const double weights[4] = {.4, .1, .3, .2};
static const int32_t clusters[4] = {0, 1, 1, 2};
static const struct exact gauss = {.n = 4, .d = D, .clusters = K, .mean = means, .weight = weights, .cluster = clusters, .std = .3};
static const struct betas linear = {1000, 1e-4, .02, NULL};

struct own {
	const struct schedule *s;
	int cluster; /* or EXACT_ALL */
};

/* The optimal prediction of the noise, on the path itself. */
static int predict(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	const struct own *o = arg;

	(void)c;
	(void)e;
	for (int64_t i = 0; i < n; i++) {
		double eps[D];

		exact_moments(&gauss, &o->s->path, t[i], o->cluster, x + i * D, NULL, eps);
		for (int j = 0; j < D; j++)
			v[i * D + j] = (float)eps[j];
	}
	return 0;
}

static void sample(const struct schedule *s, const char *solver, int k, const char *route, int64_t batch, float *x)
{
	struct own own[K];
	struct expert expert[K];
	struct router router = {exact_router_run, (void *)(uintptr_t)&gauss, ROWS, 0};
	struct mixture m = {.k = k, .d = D, .expert = expert, .router = k > 1 ? &router : NULL, .cfg = 1, .own = &s->path};
	struct solver_choice c;
	struct sampler sm = {
	    .mixture = &m, .solver = {SOLVER_EULER, 25, 1, 0}, .discrete = &c.how, .schedule = s, .kind = PREDICT_EPSILON, .seed = 4, .batch = batch};
	struct sampler_state *st;
	struct err e = {0};

	for (int i = 0; i < k; i++) {
		own[i] = (struct own){s, k > 1 ? i : EXACT_ALL};
		expert[i] = (struct expert){.velocity = predict, .arg = &own[i], .capacity = ROWS};
	}
	assert_int_equal(solver_parse(solver, &c, &e), 0);
	assert_int_equal(policy_parse(route, &m.policy, &e), 0);
	st = sampler_new(&sm, &e);
	assert_non_null(st);
	assert_int_equal(sampler_evaluations(&sm), 25);
	for (int64_t i = 0; i < ROWS; i += batch) {
		int64_t index[ROWS] = {i, i + 1, i + 2, i + 3, i + 4, i + 5};
		struct sampler_call call = {.n = batch, .index = index};

		assert_int_equal(sampler_run(st, x + i * D, &call, NULL, NULL, &e), 0);
	}
	sampler_free(st);
}

/* sum_k p(k | x, t) eps_k = eps on any path, so the ensemble follows the trajectory of a single expert of all data, if the router, which is on the
 * linear path, is evaluated at the same noise. Tolerance: float rounding of the sums of 25 steps. Another batch size changes no bit. */
static void mixture_is_the_whole(void **state)
{
	static const char *const solvers[] = {"ddim",    "ddim,eta=1", "ddpm",          "ddpm,variance=large,spacing=respaced",
	                                      "dpm++2m", "dpm++3s",    "euler-discrete"};
	struct schedule s;

	(void)state;
	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
		float mixed[ROWS * D], whole[ROWS * D], pairs[ROWS * D], top[ROWS * D];
		int differs = 0;

		sample(&s, solvers[i], K, "full", ROWS, mixed);
		sample(&s, solvers[i], K, "full", 2, pairs);
		sample(&s, solvers[i], 1, "expert:0", ROWS, whole);
		sample(&s, solvers[i], K, "top-1", ROWS, top);
		assert_memory_equal(mixed, pairs, sizeof mixed);
		for (int j = 0; j < ROWS * D; j++) {
			assert_true(fabsf(mixed[j] - whole[j]) < 2e-4f);
			differs |= fabsf(mixed[j] - top[j]) > 2e-4f;
		}
		assert_true(differs);
	}
	schedule_release(&s);
}

/* A generator for `of` pictures, of which ROWS - 2 are made from `first` on, `batch` at a time. */
static void by_torch(const struct schedule *s, int64_t steps, int64_t first, int64_t of, int64_t batch, float *x)
{
	struct own own = {s, EXACT_ALL};
	struct expert expert = {.velocity = predict, .arg = &own, .capacity = ROWS};
	struct mixture m = {.k = 1, .d = D, .expert = &expert, .cfg = 1, .own = &s->path};
	struct solver_choice c;
	struct sampler sm = {.mixture = &m,
	                     .solver = {SOLVER_EULER, steps, 1, 0},
	                     .discrete = &c.how,
	                     .schedule = s,
	                     .kind = PREDICT_EPSILON,
	                     .seed = 4,
	                     .batch = batch,
	                     .torch = 1};
	struct sampler_state *st;
	struct err e = {0};

	assert_int_equal(solver_parse("ddim,eta=1", &c, &e), 0);
	assert_int_equal(policy_parse("expert:0", &m.policy, &e), 0);
	st = sampler_new(&sm, &e);
	assert_non_null(st);
	for (int64_t i = 0; i < ROWS - 2; i += batch) {
		int64_t index[ROWS], many[ROWS];
		struct sampler_call call = {.n = batch, .index = index, .of = many};

		for (int64_t k = 0; k < batch; k++) {
			index[k] = first + i + k;
			many[k] = of;
		}
		assert_int_equal(sampler_run(st, x + i * D, &call, NULL, NULL, &e), 0);
	}
	sampler_free(st);
}

/* The numbers of torch.randn for one generator of n pictures: their initial noise, then the noise of each step for each picture. They depend on n,
 * not on the batches. A picture alone differs, because its steps use the numbers of the next pictures. */
static void one_generator_of_many(void **state)
{
	enum { N = ROWS - 2 };
	float all[N * D], pairs[N * D], ones[N * D], more[N * D];
	struct schedule s;

	(void)state;
	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	/* The last step adds no noise, so of two steps one does, directly after the initial noise. */
	for (int64_t steps = 2; steps < 4; steps++) {
		by_torch(&s, steps, 0, N, N, all);
		by_torch(&s, steps, 0, N, 2, pairs);
		by_torch(&s, steps, 0, N, 1, ones);
		assert_memory_equal(all, pairs, sizeof all);
		assert_memory_equal(all, ones, sizeof all);
		by_torch(&s, steps, 0, N + 1, N, more);
		assert_memory_not_equal(all, more, sizeof all);
		by_torch(&s, steps, 1, N + 1, 1, ones);
		assert_memory_equal(more + D, ones, sizeof all - D * sizeof *all);
	}
	schedule_release(&s);
}

/* Four columns: two of the prediction, two of a variance. The output is the label in all columns, and 10 for the null label 5. */
static int labelled(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)arg;
	(void)x;
	(void)t;
	(void)e;
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < 4; j++)
			v[4 * i + j] = c->label[i] == 5 ? 10 : (float)c->label[i];
	return 0;
}

static void guided_columns(void **state)
{
	static const float want[3][4] = {{-5, 2, 2, 2}, {-5, -5, 2, 2}, {-5, -5, -5, 2}}; /* 10 + 1.875 (2 - 10) */
	struct expert expert = {.velocity = labelled, .capacity = 8, .classes = 5};
	const float x[4] = {0};
	const int32_t label[2] = {2, 2};

	(void)state;
	for (int g = 0; g < 4; g++) {
		struct mixture m = {.k = 1, .d = 2, .expert = &expert, .policy = policy_of("expert:0"), .cfg = 1.875, .out = 4, .guided = g};
		struct mixture_call c = {.n = 2, .t = .5, .x = x, .label = label};
		struct err e = {0};
		struct mixer *mixer = mixer_new(&m, 2, &e);
		float v[8];

		assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
		assert_memory_equal(v, want[g ? g - 1 : 1], sizeof *want);
		assert_memory_equal(v + 4, want[g ? g - 1 : 1], sizeof *want);
		mixer_free(mixer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(mixture_is_the_whole), cmocka_unit_test(one_generator_of_many),
	                                   cmocka_unit_test(guided_columns)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
