/* diffusion/budget: experts and a router with known errors, against the sums of diffusion/exact. */
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
#include "diffusion/budget.h"
#include "diffusion/finite.h"
#include "tests/unit/exact.h"

enum { N = 60, D = 5, K = 3, ROWS = 40 };
static const int64_t first[K + 1] = {0, 30, 50, N};
static float points[N * D];
static int32_t cluster[N];
static const struct exact all = {N, D, K, points, NULL, cluster, 0};
static struct exact_expert arg[K] = {{&all, 0}, {&all, 1}, {&all, 2}};

static int make(void **state)
{
	(void)state;
	rng_normal(points, N * D, 1, RNG_TEST, 0, 0);
	for (int k = 0; k < K; k++)
		for (int64_t j = first[k]; j < first[k + 1]; j++)
			cluster[j] = k;
	return 0;
}

/* The error that expert k adds to element j of its optimum. */
static float bias(int k, int j)
{
	return .25f * (float)(k + 1) - .125f * (float)j;
}

static int biased_run(void *a, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	const struct exact_expert *ex = a;

	exact_expert_run(a, n, x, t, c, v, e);
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < D; j++)
			v[i * D + j] += bias(ex->cluster, j);
	return 0;
}

/* A router with half the right temperature and a bias towards cluster 2. */
static int wrong_router(void *a, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	exact_router_run(a, n, x, t, logits, e);
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < K; k++)
			logits[i * K + k] = 2 * logits[i * K + k] + (k == 2);
	return 0;
}

struct states {
	float x[ROWS * D], target[ROWS * D];
	int32_t own[ROWS];
	int64_t index[ROWS];
};

static void make_states(struct states *s, float t)
{
	struct path_point p = path_at(&path_linear, t);

	for (int i = 0; i < ROWS; i++) {
		float eps[D];
		int j = i * 7 % N;

		rng_normal(eps, D, 2, RNG_TEST, 0, (uint64_t)i);
		path_noise(&p, s->x + i * D, points + j * D, eps, D);
		path_target(&p, PREDICT_VELOCITY, s->target + i * D, points + j * D, eps, D);
		s->own[i] = cluster[j];
		s->index[i] = i;
	}
}

static const char *const names[] = {"optimum", "full",   "top-1", "top-2",    "threshold:.3", "switch:.6",
                                    "sample",  "oracle", "prior", "expert:1", "exact:full",   "exact:top-1"};
enum { ROUTES = sizeof names / sizeof *names };

struct model {
	struct law *reference;
	struct expert expert[K];
	struct router router;
	struct budget_route route[ROUTES];
	struct budget_plan plan;
};

/* wrong: with a bias and a temperature; else the optimum, rounded to float. */
static void model_init(struct model *m, int wrong, struct pool *pool)
{
	static const struct finite_set set = {N, D, points, 0, K, first, NULL};
	struct err e = {0};

	memset(m, 0, sizeof *m);
	m->reference = finite_new(&set, pool, &e);
	for (int k = 0; k < K; k++)
		m->expert[k] = (struct expert){.velocity = wrong ? biased_run : exact_expert_run, .arg = &arg[k], .capacity = 16, .flops = 1};
	m->router = (struct router){wrong ? wrong_router : exact_router_run, (void *)&all, 9, 1};
	for (int r = 0; r < ROUTES; r++)
		assert_int_equal(budget_route_parse(names[r], &m->route[r], &e), 0);
	m->plan = (struct budget_plan){K, D, m->expert, &m->router, m->reference, 0, m->route, ROUTES, 5, pool, NULL};
}

static void close_to(double a, double b, double bound)
{
	if (!(fabs(a - b) <= bound))
		fail_msg("%.17g is not %.17g within %g", a, b, bound);
}

/* total = expert + router + cross in double: 1e-12 of the terms. The weights of every route sum to the states. */
static void the_parts_add_up(void **state)
{
	static struct states s;
	struct err e = {0};
	struct model m;
	struct budget *b;

	(void)state;
	model_init(&m, 1, NULL);
	b = budget_new(&m.plan, ROWS, &e);
	for (int step = 1; step <= 20; step++) {
		make_states(&s, .05f * (float)step);
		budget_clear(b);
		assert_int_equal(budget_add(b, .05f * (float)step, ROWS, s.x, s.target, s.own, s.index, &e), 0);
		for (int r = 0; r < ROUTES; r++) {
			double w[K];
			struct budget_sum y = budget_sum(b, r, LAW_ALL, w);
			int64_t rows = 0;

			close_to(y.total, y.expert + y.router + y.cross, 1e-12 * (y.expert + y.router + y.flow));
			close_to(w[0] + w[1] + w[2], ROWS, 1e-12 * ROWS);
			for (int k = 0; k < K; k++)
				rows += budget_sum(b, r, k, NULL).n;
			assert_int_equal(rows, ROWS);
			assert_int_equal(y.n, ROWS);
			if (r) /* every route has an error at some state, the optimum has none */
				assert_true(y.total > 1e-6);
			else
				assert_true(y.total == 0 && y.expert == 0 && y.router == 0);
		}
	}
	budget_free(b);
	law_free(m.reference);
}

/* The parts of `full` and of `oracle` from exact_velocity and exact_logits. Networks compute in float: 1e-6 of |v|^2. */
static void known_errors(void **state)
{
	static struct states s;
	const float t = .5f;
	double expert[2] = {0}, router[2] = {0}, loss = 0, flow = 0;
	struct budget_sum full, oracle;
	struct err e = {0};
	struct budget *b;
	struct model m;

	(void)state;
	model_init(&m, 1, NULL);
	b = budget_new(&m.plan, ROWS, &e);
	make_states(&s, t);
	assert_int_equal(budget_add(b, t, ROWS, s.x, s.target, s.own, s.index, &e), 0);
	for (int i = 0; i < ROWS; i++) {
		double v[K][D], l[K], w[K], best[K], top, sum = 0, total = 0;

		exact_logits(&all, t, s.x + i * D, l);
		top = fmax(l[0], fmax(l[1], l[2]));
		for (int k = 0; k < K; k++) {
			exact_velocity(&all, t, k, s.x + i * D, v[k]);
			total += best[k] = exp(l[k] - top);
			sum += w[k] = exp(2 * (l[k] - top) + (k == 2));
		}
		for (int j = 0; j < D; j++) {
			double a = 0, c = 0, u = 0, star = 0;

			for (int k = 0; k < K; k++) {
				a += w[k] / sum * bias(k, j);
				c += (w[k] / sum - best[k] / total) * v[k][j];
				star += best[k] / total * v[k][j];
				u += w[k] / sum * (v[k][j] + bias(k, j));
			}
			expert[0] += a * a / D;
			router[0] += c * c / D;
			flow += star * star / D;
			loss += (u - s.target[i * D + j]) * (u - s.target[i * D + j]) / D;
			expert[1] += bias(s.own[i], j) * bias(s.own[i], j) / D;
			router[1] += (v[s.own[i]][j] - star) * (v[s.own[i]][j] - star) / D;
		}
	}
	full = budget_sum(b, 1, LAW_ALL, NULL);
	oracle = budget_sum(b, 7, LAW_ALL, NULL);
	close_to(full.expert, expert[0], 1e-6 * flow);
	close_to(full.router, router[0], 1e-6 * flow);
	close_to(full.loss, loss, 1e-6 * loss);
	close_to(full.flow, flow, 1e-11 * flow);
	close_to(oracle.expert, expert[1], 1e-6 * flow);
	close_to(oracle.router, router[1], 1e-6 * flow);
	assert_true(budget_sum(b, 10, LAW_ALL, NULL).router < 1e-12 * flow); /* exact:full */
	for (int k = 0; k < K; k++) {
		int64_t rows = 0;
		double bias2 = 0;

		for (int i = 0; i < ROWS; i++)
			rows += s.own[i] == k;
		for (int j = 0; j < D; j++)
			bias2 += bias(k, j) * bias(k, j) / D;
		assert_int_equal(budget_sum(b, 7, k, NULL).n, rows);
		close_to(budget_sum(b, 7, k, NULL).expert, (double)rows * bias2, 1e-6 * flow);
	}
	budget_free(b);
	law_free(m.reference);
}

/* Optimal experts and router: the remaining errors are the rounding of their outputs to float, 1e-13 of |v|^2, and the experts that a policy
 * leaves out. */
static void the_optimum_has_no_error(void **state)
{
	static struct states s;
	struct budget_routing y;
	struct err e = {0};
	struct budget *b;
	struct model m;

	(void)state;
	model_init(&m, 0, NULL);
	b = budget_new(&m.plan, ROWS, &e);
	make_states(&s, .6f);
	assert_int_equal(budget_add(b, .6f, ROWS, s.x, s.target, s.own, s.index, &e), 0);
	assert_true(budget_sum(b, 1, LAW_ALL, NULL).total < 1e-13 * budget_sum(b, 1, LAW_ALL, NULL).flow);
	assert_true(budget_sum(b, 2, LAW_ALL, NULL).router > 1e-3);
	close_to(budget_sum(b, 2, LAW_ALL, NULL).router, budget_sum(b, 11, LAW_ALL, NULL).router, 1e-6);
	y = budget_routing(b, 0);
	assert_true(y.divergence < 1e-10 && y.n == ROWS);
	y = budget_routing(b, 1);
	assert_true(fabs(y.divergence) < 1e-12);
	budget_free(b);
	law_free(m.reference);
	model_init(&m, 1, NULL);
	b = budget_new(&m.plan, ROWS, &e);
	assert_int_equal(budget_add(b, .6f, ROWS, s.x, s.target, s.own, s.index, &e), 0);
	y = budget_routing(b, 0);
	assert_true(y.divergence > .01 * ROWS);
	assert_true(y.cross_entropy > budget_routing(b, 1).cross_entropy);
	budget_free(b);
	law_free(m.reference);

	/* An absent expert does not count as an error of the router. */
	model_init(&m, 1, NULL);
	m.expert[1].velocity = NULL;
	m.plan.routes = 2;
	b = budget_new(&m.plan, ROWS, &e);
	assert_int_equal(budget_add(b, .6f, ROWS, s.x, s.target, s.own, s.index, &e), 0);
	assert_true(budget_routing(b, 0).cross_entropy == y.cross_entropy);
	assert_true(budget_sum(b, 1, 1, NULL).router > 0);
	budget_free(b);
	law_free(m.reference);
}

/* With a confidence of .75 and an accuracy of one half the calibration error is .25; in two bins the errors do not cancel. */
static void calibration(void **state)
{
	struct budget_routing r = {.n = 8};

	(void)state;
	r.confidence[7] = 3;
	r.hits[7] = 2;
	r.confidence[5] = 2;
	r.hits[5] = 3;
	close_to(budget_calibration(&r), .25, 1e-15);
}

static void batches_change_nothing(void **state)
{
	static struct states s;
	struct err e = {0};
	struct pool *pool = pool_new(3, &e);
	struct model m, p;
	struct budget *b, *c;

	(void)state;
	model_init(&m, 1, NULL);
	model_init(&p, 1, pool);
	b = budget_new(&m.plan, ROWS, &e);
	c = budget_new(&p.plan, 11, &e);
	make_states(&s, .4f);
	assert_int_equal(budget_add(b, .4f, ROWS, s.x, s.target, s.own, s.index, &e), 0);
	for (int i = 0; i < ROWS; i += 11)
		assert_int_equal(budget_add(c, .4f, ROWS - i < 11 ? ROWS - i : 11, s.x + i * D, s.target + i * D, s.own + i, s.index + i, &e), 0);
	for (int r = 0; r < ROUTES; r++)
		for (int k = LAW_ALL; k < K; k++) {
			double w[2][K];
			struct budget_sum x = budget_sum(b, r, k, w[0]), y = budget_sum(c, r, k, w[1]);

			assert_memory_equal(&x, &y, sizeof x);
			assert_memory_equal(w[0], w[1], sizeof w[0]);
		}
	budget_free(b);
	budget_free(c);
	law_free(m.reference);
	law_free(p.reference);
	pool_free(pool);
}

static void impossible_requests(void **state)
{
	struct budget_route r;
	struct err e = {0};
	struct model m;

	(void)state;
	assert_int_equal(budget_route_parse("exact:oracle", &r, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(budget_route_parse("best", &r, &e), -1);
	e.code = 0;
	model_init(&m, 1, NULL);
	m.plan.router = NULL;
	assert_null(budget_new(&m.plan, 4, &e));
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	law_free(m.reference);
	model_init(&m, 1, NULL);
	m.expert[1].velocity = NULL;
	assert_null(budget_new(&m.plan, 4, &e));
	assert_non_null(strstr(e.msg, "oracle and prior need every expert, and expert 1"));
	e.code = 0;
	m.plan.route = &m.route[9];
	m.plan.routes = 1;
	assert_null(budget_new(&m.plan, 4, &e));
	assert_non_null(strstr(e.msg, "expert:1"));
	law_free(m.reference);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_parts_add_up), cmocka_unit_test(known_errors),           cmocka_unit_test(the_optimum_has_no_error),
	    cmocka_unit_test(calibration),      cmocka_unit_test(batches_change_nothing), cmocka_unit_test(impossible_requests),
	};

	return cmocka_run_group_tests(tests, make, NULL);
}
