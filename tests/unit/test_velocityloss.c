/* diffusion/velocityloss: linear experts on single states, against sums in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "diffusion/velocityloss.h"

enum { N = 37, D = 6, K = 2 };

/* Expert k: v = (k + 1) x / 2 - t. */
static int linear(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	float a = .5f * (float)(*(const int *)arg + 1);

	(void)c, (void)e;
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < D; j++)
			v[i * D + j] = a * x[i * D + j] - t[i];
	return 0;
}

static int nowhere(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	linear(arg, n, x, t, c, v, e);
	v[0] = NAN;
	return 0;
}

static int number[K] = {0, 1};
static const struct expert experts[K] = {{.velocity = linear, .arg = &number[0], .capacity = 8, .flops = 10},
                                         {.velocity = linear, .arg = &number[1], .capacity = 5, .flops = 10}};

struct set {
	float x0[N * D];
	uint64_t id[N];
	int64_t index[N];
	int32_t cluster[N];
};

static void make(struct set *s)
{
	rng_normal(s->x0, N * D, 3, RNG_TEST, 0, 0);
	for (int i = 0; i < N; i++) {
		s->id[i] = (uint64_t)i * 1000003 % 4096;
		s->index[i] = i;
		s->cluster[i] = i % K;
	}
}

/* The loss of sample i under v = a x - t, from the definition. */
static double expected(const struct set *s, int i, double a, double t, uint64_t seed)
{
	float eps[D], f = (float)t;
	uint32_t bits;
	double sum = 0;

	memcpy(&bits, &f, sizeof bits);
	rng_normal(eps, D, seed, RNG_METRIC, bits, s->id[i]);
	for (int j = 0; j < D; j++) {
		double x0 = s->x0[i * D + j], x = (1 - t) * x0 + t * eps[j], r = a * x - t - (eps[j] - x0);

		sum += r * r / D;
	}
	return sum;
}

static struct velocity_samples part(const struct set *s, int first, int n)
{
	return (struct velocity_samples){
	    .n = n, .x0 = s->x0 + first * D, .id = s->id + first, .index = s->index + first, .cluster = s->cluster + first};
}

static void check(const char *route, const double *a, struct pool *pool)
{
	struct mixture m = {.k = K, .d = D, .expert = experts, .policy = policy_of(route), .cfg = 1};
	struct velocity_loss *l;
	struct mixture_stats stats;
	struct set s;
	double all[N], each[N];
	struct err e = {0};

	make(&s);
	mixture_stats_init(&stats, K, 1);
	assert_non_null(l = velocity_loss_new(&m, N, pool, &e));
	for (double t = .125; t <= 1; t += .4375) {
		struct velocity_samples whole = part(&s, 0, N);

		assert_int_equal(velocity_loss(l, &whole, t, 7, all, &stats, &e), 0);
		for (int i = 0; i < N; i++) {
			double want = expected(&s, i, a[i % K], t, 7);

			assert_true(fabs(all[i] - want) < 2e-6 * (1 + want));
		}
		for (int first = 0; first < N; first += 10) {
			struct velocity_samples some = part(&s, first, N - first < 10 ? N - first : 10);

			assert_int_equal(velocity_loss(l, &some, t, 7, each + first, &stats, &e), 0);
		}
		assert_memory_equal(all, each, sizeof all);
	}
	assert_int_equal(stats.evaluations, 3 * 2 * N);
	mixture_stats_release(&stats);
	velocity_loss_free(l);
}

static void matches_the_definition(void **state)
{
	struct err e = {0};
	struct pool *pool = pool_new(2, &e);

	(void)state;
	check("expert:0", (double[]){.5, .5}, pool);
	check("expert:1", (double[]){1, 1}, pool);
	check("uniform|full", (double[]){.75, .75}, pool);
	check("oracle", (double[]){.5, 1}, NULL);
	pool_free(pool);
}

static void refuses_what_needs_a_trajectory(void **state)
{
	static const char *const route[] = {"prior", "uniform|top-1|keep:.1", "uniform|budget:1", "distance|top-1"};
	const double shares[K] = {1, 1};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct mixture m = {.k = K, .d = D, .expert = experts, .policy = policy_of(route[i]), .cfg = 1, .shares = shares};
		struct err e = {0};

		assert_null(velocity_loss_new(&m, N, NULL, &e));
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, "single states"));
	}
}

static void reports_what_is_not_finite(void **state)
{
	const struct expert bad = {.velocity = nowhere, .arg = &number[0], .capacity = 8, .flops = 10};
	struct mixture m = {.k = 1, .d = D, .expert = &bad, .policy = policy_of("expert:0"), .cfg = 1};
	struct velocity_loss *l;
	struct set s;
	struct velocity_samples whole;
	double loss[N];
	struct err e = {0};

	(void)state;
	make(&s);
	whole = part(&s, 0, N);
	assert_non_null(l = velocity_loss_new(&m, N, NULL, &e));
	assert_int_equal(velocity_loss(l, &whole, .5, 0, loss, NULL, &e), -1);
	assert_int_equal(e.code, ERR_FAIL);
	velocity_loss_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(matches_the_definition),
	    cmocka_unit_test(refuses_what_needs_a_trajectory),
	    cmocka_unit_test(reports_what_is_not_finite),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
