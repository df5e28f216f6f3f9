/* diffusion/logdensity and weights by density, with exact experts on Gaussians, against the posterior in closed form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "diffusion/logdensity.h"
#include "diffusion/sampler.h"
#include "tests/unit/exact.h"

/* Four Gaussians in the plane with shares .4 .3 .2 .1, as in test_mixture.c. */
enum { K = 4, D = 2, ROWS = 2000 };
static const float mean[] = {0, 1.5f, 1.9f, -1.35f, -.8f, -2.7f, -5, .25f};
static const double shares[] = {.4, .3, .2, .1};
static const int32_t cluster[] = {0, 1, 2, 3};
static struct exact law = {K, D, K, mean, shares, cluster, .47};

/* What expert 0 was last asked: all rows, as all experts run on them. */
static struct seen {
	float x[ROWS * D];
	int64_t n, calls;
	double t;
	double tv; /* total variation from the posterior, summed over rows */
	int64_t rows;
} seen;

static int run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	const struct exact_expert *a = arg;
	int rc = exact_expert_run(arg, n, x, t, c, v, e);

	if (!a->cluster) {
		memcpy(seen.x, x, (size_t)(n * D) * sizeof *x);
		seen.n = n;
		seen.t = t[0];
		seen.calls++;
	}
	/* The null label, 1, is another velocity: guidance must not reach the densities. */
	for (int64_t i = 0; i < n * D && c->label; i++)
		v[i] += c->label[i / D] == 1 ? .3f + .1f * (float)a->cluster : 0;
	return rc;
}

static void softmax(const double *l, double *p)
{
	double top = -INFINITY, sum = 0;

	for (int k = 0; k < K; k++)
		top = fmax(top, l[k]);
	for (int k = 0; k < K; k++)
		sum += p[k] = exp(l[k] - top);
	for (int k = 0; k < K; k++)
		p[k] /= sum;
}

static void observe(void *arg, int64_t step, double t, int64_t n, const double *w)
{
	(void)arg;
	(void)step;
	for (int64_t i = 0; i < n; i++) {
		double logits[K], p[K];

		exact_logits(&law, t, seen.x + i * D, logits);
		softmax(logits, p);
		for (int k = 0; k < K; k++)
			seen.tv += .5 * fabs(w[i * K + k] - p[k]);
		seen.rows++;
	}
}

struct setting {
	struct exact_expert arg[K];
	struct expert expert[K];
	struct mixture mixture;
};

static void set(struct setting *s, const char *route)
{
	struct err e = {0};

	memset(s, 0, sizeof *s);
	for (int k = 0; k < K; k++) {
		s->arg[k] = (struct exact_expert){&law, k};
		s->expert[k] = (struct expert){.velocity = run, .arg = &s->arg[k], .capacity = ROWS, .flops = 10e9};
	}
	s->mixture = (struct mixture){.k = K, .d = D, .expert = s->expert, .cfg = 1, .seed = 5, .shares = shares, .steps_told = 1};
	assert_int_equal(policy_parse(route, &s->mixture.policy, &e), 0);
}

/* n samples in batches; frees st. */
static void run_batches(struct sampler_state *st, int64_t n, int64_t batch, float *x, struct mixture_stats *stats)
{
	static int64_t index[ROWS];
	struct err e = {0};

	for (int64_t i = 0; i < n; i += batch) {
		int64_t rows = n - i < batch ? n - i : batch;

		for (int64_t j = 0; j < rows; j++)
			index[j] = i + j;
		assert_int_equal(sampler_run(st, x + i * D, &(struct sampler_call){.n = rows, .index = index}, NULL, stats, &e), 0);
	}
	sampler_free(st);
}

/* Samples of a route, x (n, 2), in batches of `batch`. */
static void sample(const char *route, int64_t steps, int64_t n, int64_t batch, float *x, struct mixture_stats *stats)
{
	struct setting s;
	struct sampler sm = {.mixture = &s.mixture, .solver = {.kind = SOLVER_SDE, .steps = steps, .from = 1}, .seed = 11, .batch = batch};
	struct sampler_state *st;
	struct err e = {0};

	sm.solver.add.ancestral = 1;
	sm.observe = stats ? NULL : observe;
	set(&s, route);
	assert_non_null(st = sampler_new(&sm, &e));
	run_batches(st, n, batch, x, stats);
}

/* The mean total variation of the weights from the posterior of (x, t) along the path, which falls as 1/N. With the other sign of the product, with
 * the square doubled or with both terms doubled it is above .03 at 80 steps. */
static void weights_are_the_posterior(void **state)
{
	static float x[ROWS * D];
	double tv[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		memset(&seen, 0, sizeof seen);
		sample("density|full", i ? 80 : 20, 1000, 1000, x, NULL);
		tv[i] = seen.tv / (double)seen.rows;
	}
	print_message("total variation: %.4f with 20 steps, %.4f with 80\n", tv[0], tv[1]);
	assert_true(tv[0] < .005 && tv[1] < .0012 && tv[1] < tv[0] / 2.5);
}

/* The samples of the full ensemble and of an expert drawn at every step have the shares; 2000 samples have a standard error of .011. */
static void samples_have_the_shares(void **state)
{
	static const char *const routes[] = {"density|full", "density|sample"};
	static float x[ROWS * D];

	(void)state;
	for (int r = 0; r < 2; r++) {
		struct mixture_stats stats;
		double mass[K] = {0};

		mixture_stats_init(&stats, K, 60);
		sample(routes[r], 60, ROWS, ROWS, x, &stats);
		for (int i = 0; i < ROWS; i++) {
			double logits[K];
			int best = 0;

			exact_logits(&law, 1e-3, x + i * D, logits);
			for (int k = 1; k < K; k++)
				best = logits[k] > logits[best] ? k : best;
			mass[best] += 1. / ROWS;
		}
		print_message("%s: %.3f %.3f %.3f %.3f\n", routes[r], mass[0], mass[1], mass[2], mass[3]);
		for (int k = 0; k < K; k++) {
			assert_true(fabs(mass[k] - shares[k]) < .035);
			assert_int_equal(stats.rows[k], 60 * ROWS);
		}
		/* The weights are the shares at t = 1, whose entropy is 1.2799, and decided in the end. */
		for (int i = 0; i < 60; i++)
			assert_int_equal(stats.density_rows[i], ROWS);
		assert_true(fabs((double)stats.density_entropy[0] / MIXTURE_UNIT / ROWS - 1.279854) < 1e-6);
		assert_true((double)stats.density_entropy[59] / MIXTURE_UNIT / ROWS < .05);
		assert_int_equal(stats.entropy_rows[0], 0);
		mixture_stats_release(&stats);
	}
}

static void batches_change_nothing(void **state)
{
	static float a[50 * D], b[50 * D];

	(void)state;
	sample("density:.5|top-2", 8, 50, 50, a, NULL);
	sample("density:.5|top-2", 8, 50, 7, b, NULL);
	assert_memory_equal(a, b, sizeof a);
}

/* One step from x to x' with a guided top-1 mixture: the weights at x' are shares times N(x'; m_k, s^2), where m_k and s are those of
 * p(x' | x, x0) on the linear path with expert k's own x0. Rounding of x' to float is divided by s of .3: 1e-5. */
static void a_step_in_closed_form(void **state)
{
	const double t = .8, end = .6, keep = (1 - t) / (1 - end), square = t * t - end * end * keep * keep, s2 = end * end * square / (t * t);
	const double times[] = {.8, .6, 0};
	const struct solver solver = {.kind = SOLVER_SDE, .steps = 2, .times = times, .add = {.ancestral = 1}};
	float x[3 * D], v[3 * D], z[3 * D], next[3 * D];
	int32_t label[3] = {0, 0, 0};
	struct setting s;
	struct err e = {0};
	struct mixer *mixer;

	(void)state;
	set(&s, "density|top-1");
	for (int k = 0; k < K; k++)
		s.expert[k].classes = 1;
	s.mixture.cfg = 2;
	assert_non_null(mixer = mixer_new(&s.mixture, 3, &e));
	rng_normal(x, 3 * D, 1, RNG_TEST, 0, 0);
	rng_normal(z, 3 * D, 1, RNG_TEST, 1, 0);
	struct mixture_call c = {.n = 3, .evaluations = 2, .t = t, .x = x, .label = label};

	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	assert_int_equal(mixer_stepped(mixer, solver_noise_ratio(&solver, 0), z, 3, &e), 0);
	for (int i = 0; i < 3 * D; i++)
		next[i] = (float)(keep * end * end / (t * t) * x[i] + (1 - end) * square / (t * t) * (x[i] - t * v[i]) + sqrt(s2) * z[i]);
	set(&s, "density|full");
	c = (struct mixture_call){.n = 3, .step = 1, .evaluation = 1, .evaluations = 2, .t = end, .x = next, .label = label};
	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	for (int i = 0; i < 3; i++) {
		double l[K], p[K];

		for (int k = 0; k < K; k++) {
			double u[D];

			exact_velocity(&law, (float)t, k, x + i * D, u);
			l[k] = log(shares[k]);
			for (int j = 0; j < D; j++) {
				double m = keep * end * end / (t * t) * x[i * D + j] + (1 - end) * square / (t * t) * (x[i * D + j] - t * u[j]);

				l[k] -= pow(next[i * D + j] - m, 2) / (2 * s2);
			}
		}
		softmax(l, p);
		for (int k = 0; k < K; k++)
			assert_true(fabs(mixer_weights(mixer)[i * K + k] - p[k]) < 1e-5);
	}
	mixer_free(mixer);
}

/* ---- along the flow ---- */

/* The same shares, but clusters 0 and 3 are of two Gaussians: with one of equal width in each, all experts have the same Jacobian, which cancels. */
enum { PARTS = 6 };
static const float parts[] = {0, 1.5f, .9f, .6f, 1.9f, -1.35f, -.8f, -2.7f, -5, .25f, -3.5f, 1};
static const double weights[] = {.25, .15, .3, .2, .06, .04};
static const int32_t of[] = {0, 0, 1, 2, 3, 3};
static const struct exact richer = {PARTS, D, K, parts, weights, of, .47};

/* J (D, D) of expert k's velocity at x, by central differences in double: an error of 1e-9. */
static void jacobian(int k, double t, const float *x, double j[D][D])
{
	enum { SCALE = 1 << 12 };

	for (int c = 0; c < D; c++) {
		float y[2][D];
		double v[2][D];

		for (int side = 0; side < 2; side++) {
			for (int i = 0; i < D; i++)
				y[side][i] = x[i];
			y[side][c] = (float)(x[c] + (side ? -1. : 1.) / SCALE);
			exact_velocity(&law, (float)t, k, y[side], v[side]);
		}
		for (int r = 0; r < D; r++)
			j[r][c] = (v[0][r] - v[1][r]) / ((double)y[0][c] - y[1][c]);
	}
}

static int exactly; /* whether z'g is the divergence itself, in place of Hutchinson's estimate of it */

static int pull(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e)
{
	struct exact_expert a = {&law, k};

	(void)arg;
	exact_expert_run(&a, n, x, t, &(struct condition){0}, v, e);
	for (int64_t i = 0; i < n; i++) {
		const float *z = r + i * D;
		double j[D][D];

		jacobian(k, t[i], x + i * D, j);
		for (int c = 0; c < D; c++)
			g[i * D + c] = (float)(exactly ? z[c] * (j[0][0] + j[1][1]) / D : j[0][c] * z[0] + j[1][c] * z[1]);
	}
	return 0;
}

static void flow(const char *route, enum solver_kind kind, int64_t steps, int64_t n, int64_t batch, float *x, struct mixture_stats *stats)
{
	struct setting s;
	struct sampler sm = {.mixture = &s.mixture, .solver = {.kind = kind, .steps = steps, .from = 1}, .seed = 11, .batch = batch};
	struct sampler_state *st;
	struct err e = {0};

	sm.observe = stats ? NULL : observe;
	set(&s, route);
	s.mixture.pull = pull;
	memset(&seen, 0, sizeof seen);
	if (!(st = sampler_new(&sm, &e)))
		fail_msg("%s", e.msg);
	run_batches(st, n, batch, x, stats);
}

/* The weights' mean total variation from the posterior falls with the order of the solver, with exact divergences; .0018 and .0003 were measured in
 * numpy for Heun's method with 10 and 25 steps, in 16 dimensions. A wrong sign of either term gives more than .1. */
static void flow_is_the_posterior(void **state)
{
	static const struct {
		enum solver_kind kind;
		int64_t steps;
		double most;
	} cases[] = {{SOLVER_EULER, 20, .02},     {SOLVER_EULER, 80, .005},     {SOLVER_HEUN, 10, .002}, {SOLVER_HEUN, 25, .0004},
	             {SOLVER_MIDPOINT, 10, .003}, {SOLVER_MIDPOINT, 25, .0006}, {SOLVER_RK4, 10, .0003}, {SOLVER_RK4, 25, 3e-5}};
	static float x[ROWS * D];
	const struct exact plain = law;

	(void)state;
	law = richer;
	exactly = 1;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double tv;

		flow("density|full", cases[i].kind, cases[i].steps, 500, 500, x, NULL);
		tv = seen.tv / (double)seen.rows;
		print_message("solver %d, %d steps: total variation %.6f\n", (int)cases[i].kind, (int)cases[i].steps, tv);
		assert_true(tv < cases[i].most);
	}
	exactly = 0;
	law = plain;
}

/* Two calls: the weights at x' are shares times exp(h rate), with z'Jz for signs z that all experts share, so that z'Jz - div is +-2 J_12. */
static void flow_step_in_closed_form(void **state)
{
	const double t = .8, h = -.2;
	const struct exact plain = law;
	float x[3 * D], v[3 * D], next[3 * D];
	struct setting s;
	struct err e = {0};
	struct mixer *mixer;

	(void)state;
	law = richer;
	set(&s, "density|full");
	s.mixture.pull = pull;
	assert_non_null(mixer = mixer_new(&s.mixture, 3, &e));
	rng_normal(x, 3 * D, 1, RNG_TEST, 0, 0);
	struct mixture_call c = {.n = 3, .evaluations = 3, .t = t, .x = x};

	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	for (int i = 0; i < 3 * D; i++)
		next[i] = (float)(x[i] + h * v[i]);
	mixer_moved(mixer, h, (const double[]){1}, 1, 3, 1);
	c = (struct mixture_call){.n = 3, .step = 1, .evaluation = 1, .evaluations = 3, .t = t + h, .x = next};
	float v2[3 * D];

	assert_int_equal(mixer_velocity(mixer, v2, &c, NULL, &e), 0);
	for (int i = 0; i < 3; i++) {
		double close[2] = {0, 0};
		int sign;

		for (sign = -1; sign <= 1; sign += 2) {
			double l[K], p[K];

			for (int k = 0; k < K; k++) {
				double u[D], j[D][D], product = 0;

				exact_velocity(&law, (float)t, k, x + i * D, u);
				jacobian(k, t, x + i * D, j);
				for (int a = 0; a < D; a++)
					product += (v[i * D + a] - u[a]) * -(x[i * D + a] + (1 - t) * u[a]) / t;
				l[k] = log(shares[k]) + h * (-(j[0][0] + j[1][1] + sign * (j[0][1] + j[1][0])) + product);
			}
			softmax(l, p);
			for (int k = 0; k < K; k++)
				close[sign > 0] = fmax(close[sign > 0], fabs(mixer_weights(mixer)[i * K + k] - p[k]));
		}
		assert_true(fmin(close[0], close[1]) < 1e-5 && fmax(close[0], close[1]) > 1e-3);
	}
	mixer_free(mixer);
	law = plain;
}

/* With the estimate, batches do not matter, the masses of the samples are near the shares, and every expert's gradient is counted. */
static void flow_samples(void **state)
{
	static float x[ROWS * D], a[50 * D], b[50 * D];
	struct mixture_stats stats;
	const struct exact plain = law;
	double mass[K] = {0};

	(void)state;
	law = richer;
	mixture_stats_init(&stats, K, 30);
	flow("density|full", SOLVER_HEUN, 30, ROWS, ROWS, x, &stats);
	for (int i = 0; i < ROWS; i++) {
		double logits[K];
		int best = 0;

		exact_logits(&law, 1e-3, x + i * D, logits);
		for (int k = 1; k < K; k++)
			best = logits[k] > logits[best] ? k : best;
		mass[best] += 1. / ROWS;
	}
	print_message("masses: %.3f %.3f %.3f %.3f\n", mass[0], mass[1], mass[2], mass[3]);
	for (int k = 0; k < K; k++) {
		assert_true(fabs(mass[k] - shares[k]) < .06);
		/* 59 evaluations; the weights after the last are not needed. Experts of weight 0 are not run for their velocities. */
		assert_true(stats.rows[k] > 3 * 58 * ROWS && stats.rows[k] <= (3 * 58 + 59) * ROWS);
	}
	mixture_stats_release(&stats);
	flow("density:.5|top-2", SOLVER_RK4, 6, 50, 50, a, NULL);
	flow("density:.5|top-2", SOLVER_RK4, 6, 50, 7, b, NULL);
	assert_memory_equal(a, b, sizeof a);
	law = plain;
}

static void flow_refusals(void **state)
{
	struct setting s;
	struct sampler sm = {.mixture = &s.mixture, .solver = {.kind = SOLVER_AB2, .steps = 4, .from = 1}, .batch = 1};
	struct err e = {0};

	(void)state;
	set(&s, "density|full");
	s.mixture.pull = pull;
	assert_null(sampler_new(&sm, &e));
	assert_string_equal(e.msg, "weights by density follow the flow: they need one of the solvers euler, heun, midpoint, rk4");
	sm.solver = (struct solver){.kind = SOLVER_SDE, .steps = 4, .from = 1, .add = {.ancestral = 1}};
	assert_null(sampler_new(&sm, &e));
	sm.solver.kind = SOLVER_DOPRI5;
	assert_null(sampler_new(&sm, &e));
	for (int k = 0; k < K; k++)
		s.expert[k].classes = 3;
	e = (struct err){0};
	assert_null(mixer_new(&s.mixture, 1, &e));
	assert_non_null(strstr(e.msg, "these experts have classes"));
}

static void refusals(void **state)
{
	struct setting s;
	struct sampler sm = {.mixture = &s.mixture, .solver = {.kind = SOLVER_EULER, .steps = 4, .from = 1}, .batch = 1};
	struct err e = {0};

	(void)state;
	set(&s, "density|full");
	assert_null(sampler_new(&sm, &e));
	assert_string_equal(e.msg, "weights by density follow ancestral steps: they need the solver sde,step=ancestral");
	sm.solver.kind = SOLVER_SDE;
	sm.solver.add.strength = 1;
	assert_null(sampler_new(&sm, &e));
	s.mixture.steps_told = 0;
	assert_null(mixer_new(&s.mixture, 1, &e));
	e = (struct err){0};
	set(&s, "density|budget:100");
	assert_null(mixer_new(&s.mixture, 1, &e));
	assert_non_null(strstr(e.msg, "a budget cannot limit"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(weights_are_the_posterior),
	    cmocka_unit_test(samples_have_the_shares),
	    cmocka_unit_test(batches_change_nothing),
	    cmocka_unit_test(a_step_in_closed_form),
	    cmocka_unit_test(flow_is_the_posterior),
	    cmocka_unit_test(flow_step_in_closed_form),
	    cmocka_unit_test(flow_samples),
	    cmocka_unit_test(flow_refusals),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
