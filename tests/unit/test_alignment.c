/* diffusion/alignment on experts of constant velocities, whose angles, differences and errors are computed by hand, and which move in straight lines:
 * the sample predicted by a single expert does not depend on t. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/alignment.h"
#include "diffusion/gaussians.h"

enum { D = 2, K = 3, COUNT = 5, STEPS = 4, STATES = 7 };

static const float flow[K + 1][D] = {{1, 0}, {0, 1}, {-1, 0}, {0, 0}};
static const float centroid[K][D] = {{0, 0}, {2, 1}, {-1, -2}};
static struct device *device;
static struct gaussians g;
static struct law *law;

static int set_up(void **state)
{
	const double mean[K * D] = {1, 0, -1, .5, 0, -1};

	(void)state;
	device = device_cpu(NULL, DT_F32);
	if (gaussians_init(&g, K, D, 0, NULL))
		return -1;
	memcpy(g.mean, mean, sizeof mean);
	for (int k = 0; k < K; k++) {
		g.noise[k] = .1 + .1 * k;
		g.weight[k] = k == 2 ? .5 : .25;
	}
	return (law = gaussians_law(&g, 0, NULL, NULL)) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	law_free(law);
	gaussians_release(&g);
	device_free(device);
	return 0;
}

static int constant(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)x;
	(void)t;
	(void)c;
	(void)e;
	for (int64_t i = 0; i < n * D; i++)
		v[i] = ((const float *)arg)[i % D];
	return 0;
}

static int pull(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *back, struct err *e)
{
	(void)arg;
	(void)r;
	memset(back, 0, (size_t)(n * D) * sizeof *back);
	return constant((void *)(uintptr_t)flow[k], n, x, t, NULL, v, e);
}

static int distances(void *arg, double *squared, const float *x0, int64_t n, struct err *e)
{
	(void)arg;
	(void)e;
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < K; k++)
			squared[i * K + k] = pow(x0[i * D] - centroid[k][0], 2) + pow(x0[i * D + 1] - centroid[k][1], 2);
	return 0;
}

struct bench {
	struct expert expert[K];
	struct mixture mixture;
	struct stability_plan plan;
	struct alignment_plan fit;
	struct stability *s;
	struct alignment *a;
	const struct trajectory *y;
};

static void start(struct bench *b, const char *route, int known)
{
	static const double shares[K] = {1, 1, 2};
	struct err e = {0};

	memset(b, 0, sizeof *b);
	for (int k = 0; k < K; k++)
		b->expert[k] = (struct expert){.velocity = constant, .arg = (void *)(uintptr_t)flow[k], .capacity = 3};
	b->mixture = (struct mixture){.k = K,
	                              .d = D,
	                              .expert = b->expert,
	                              .policy = policy_of(route),
	                              .cfg = 1,
	                              .shares = shares,
	                              .seed = 3,
	                              .device = device,
	                              .distances = distances};
	b->plan = (struct stability_plan){
	    .mixture = &b->mixture, .pull = {.expert = pull}, .steps = STEPS, .every = 2, .count = COUNT, .directions = 1, .iteration = {10, .01, 3}};
	b->fit = (struct alignment_plan){.mixture = &b->mixture, .steps = STEPS, .count = COUNT, .states = STATES, .optimum = known ? law : NULL};
	if (!(b->s = stability_new(&b->plan, COUNT, &e)) || !(b->a = alignment_new(&b->fit, STATES, &e)))
		fail_msg("%s", e.msg);
	if (!(b->y = stability_add(b->s, 0, COUNT, &e)) || alignment_add(b->a, b->s, b->y, 0, &e))
		fail_msg("%s", e.msg);
}

static void finish(struct bench *b)
{
	alignment_free(b->a);
	stability_free(b->s);
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-6 * fmax(1, fabs(want))))
		fail_msg("%.9g, expected %.9g", got, want);
}

/* The angles are 90, 180 and 90 degrees, the squared differences 2, 4 and 2. */
static void pairs(void **state)
{
	struct bench b;

	(void)state;
	start(&b, "expert:0", 0);
	near(alignment_at(b.a, ALIGNMENT_ANGLE, 0), 120);
	near(alignment_at(b.a, ALIGNMENT_DISAGREEMENT, 2), 8. / 3);
	near(alignment_at(b.a, ALIGNMENT_SPREAD, 2), 0);
	near(alignment_at(b.a, ALIGNMENT_ANGLE, STEPS), 120);
	assert_true(isnan(alignment_at(b.a, ALIGNMENT_ANGLE, 1))); /* not one of the times measured */
	assert_true(isnan(alignment_at(b.a, ALIGNMENT_CHOSEN, 0)));
	finish(&b);
	start(&b, "uniform|full", 0); /* u = (0, 1/3) */
	near(alignment_at(b.a, ALIGNMENT_DISAGREEMENT, 0), 24);
	near(alignment_at(b.a, ALIGNMENT_SPREAD, 0), (10. / 9 + 4. / 9 + 10. / 9) / 3 * 9);
	finish(&b);
}

static void ranks(void **state)
{
	(void)state;
	for (int chosen = 0; chosen < K; chosen++) {
		struct bench b;
		double want = 0;
		char route[16] = "expert:0";

		route[7] = (char)('0' + chosen);
		start(&b, route, 0);
		for (int i = 0; i < COUNT; i++) {
			float x1[D], x0[D];
			double squared[K];

			rng_normal(x1, D, 3, RNG_SAMPLE, 0, (uint64_t)i);
			for (int c = 0; c < D; c++)
				x0[c] = x1[c] - flow[chosen][c];
			distances(NULL, squared, x0, 1, NULL);
			want += 1;
			for (int k = 0; k < K; k++)
				want += squared[k] < squared[chosen];
		}
		near(alignment_at(b.a, ALIGNMENT_RANK, 0), want / COUNT);
		near(alignment_at(b.a, ALIGNMENT_RANK, 2), want / COUNT);
		finish(&b);
	}
}

/* Errors on the trajectories against u* of a mixture of Gaussians. */
static void errors(void **state)
{
	struct bench b;
	double want[5] = {0};

	(void)state;
	start(&b, "expert:1", 1);
	for (int i = 0; i < COUNT; i++) {
		const float *x = b.y->at + (2 * COUNT + i) * D, t = .5f;
		float star[D];
		double error[K], best;

		law_predict(law, LAW_ALL, &path_linear, PREDICT_VELOCITY, 1, x, &t, star);
		for (int k = 0; k < K; k++)
			error[k] = (pow(flow[k][0] - star[0], 2) + pow(flow[k][1] - star[1], 2)) / 2;
		best = fmin(error[0], fmin(error[1], error[2]));
		want[0] += error[1] / COUNT;
		want[1] += best / COUNT;
		want[2] += (error[0] + error[2]) / 2 / COUNT;
		want[3] += error[1] / COUNT;
		want[4] += (error[1] == best) / (double)COUNT;
	}
	for (int c = 0; c < 5; c++)
		near(alignment_at(b.a, (enum alignment_column)(ALIGNMENT_CHOSEN + c), 2), want[c]);
	assert_true(want[4] > 0 && want[4] < 1);
	finish(&b);
}

/* Losses on states that are given, in batches of different sizes. prior uses the expert of the sample's own cluster. */
static void losses(void **state)
{
	static const char *const routes[] = {"expert:2", "prior", "uniform|full"};
	static const int32_t cluster[STATES] = {0, 2, 1, 1, 0, 2, 2};
	float x[STATES * D], target[STATES * D];

	(void)state;
	rng_normal(x, STATES * D, 1, RNG_TEST, 0, 0);
	rng_normal(target, STATES * D, 1, RNG_TEST, 1, 0);
	for (int r = 0; r < 3; r++) {
		double chosen = 0, mixed = 0, loss[K][2] = {{0}}, n[K][2] = {{0}};
		struct bench b, other;
		struct err e = {0};

		start(&b, routes[r], 0);
		start(&other, routes[r], 0);
		assert_int_equal(alignment_states(b.a, stability_jacobian(b.s), 2, 0, 4, x, target, cluster, &e), 0);
		assert_int_equal(alignment_states(b.a, stability_jacobian(b.s), 2, 4, 3, x + 4 * D, target + 4 * D, cluster + 4, &e), 0);
		for (int i = 0; i < STATES; i++) {
			assert_int_equal(alignment_states(other.a, stability_jacobian(other.s), 2, i, 1, x + i * D, target + i * D, cluster + i, &e),
			                 0);
			for (int k = 0; k < K; k++) {
				double off = (pow(flow[k][0] - target[i * D], 2) + pow(flow[k][1] - target[i * D + 1], 2)) / 2;

				loss[k][cluster[i] != k] += off;
				n[k][cluster[i] != k]++;
				chosen += k == (r == 0 ? 2 : r == 1 ? cluster[i] : 0) ? off / STATES : 0;
				mixed += r < 2 && k == (r ? cluster[i] : 2) ? off / STATES : 0;
			}
			mixed += r == 2 ? (pow(target[i * D], 2) + pow(target[i * D + 1] - 1. / 3, 2)) / 2 / STATES : 0;
		}
		near(alignment_at(b.a, ALIGNMENT_CHOSEN, 2), chosen);
		near(alignment_at(b.a, ALIGNMENT_MIXED, 2), mixed);
		for (int k = 0; k < K; k++)
			for (int out = 0; out < 2; out++) {
				assert_true((double)alignment_loss(b.a, 2, k).n[out] == n[k][out]);
				near(alignment_loss(b.a, 2, k).loss[out], loss[k][out] / n[k][out]);
				assert_true(alignment_loss(b.a, 2, k).loss[out] == alignment_loss(other.a, 2, k).loss[out]);
			}
		assert_true(isnan(alignment_loss(b.a, 1, 0).loss[0]));
		for (int c = 0; c < ALIGNMENT_COLUMNS; c++)
			assert_true(alignment_at(b.a, (enum alignment_column)c, 2) == alignment_at(other.a, (enum alignment_column)c, 2));
		finish(&b);
		finish(&other);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(ranks), cmocka_unit_test(errors), cmocka_unit_test(losses)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
