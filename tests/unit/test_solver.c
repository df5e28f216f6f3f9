/* diffusion/solver: orders, numbers of evaluations, the last step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "diffusion/convert.h"
#include "diffusion/dopri5.h"
#include "diffusion/solver.h"
#include "diffusion/solverchoice.h"
#include "tests/golden/flow_times.h"
#include "tests/unit/exact.h"

static const float one_mean[] = {.8f, -.3f};
static const struct exact gaussian = {.n = 1, .d = 2, .clusters = 1, .mean = one_mean, .std = .5};

static const float two_mean[] = {1, .5f, -1.2f, .2f};
static const struct exact mixture = {.n = 2, .d = 2, .clusters = 1, .mean = two_mean, .std = .5};

struct counted {
	const struct exact *m;
	int64_t calls;
	double least;
};

static int exact_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	struct counted *c = arg;
	double u[2];

	(void)step;
	(void)stage;
	(void)e;
	c->calls++;
	c->least = fmin(c->least, t);
	exact_velocity(c->m, t, EXACT_ALL, x, u);
	v[0] = (float)u[0];
	v[1] = (float)u[1];
	return 0;
}

static void integrate(const struct exact *m, enum solver_kind kind, int64_t steps, double to, float x[2], struct counted *c)
{
	struct solver s = {.kind = kind, .steps = steps, .from = 1, .to = to};
	struct device *d = device_cpu(NULL, DT_F32);
	float work[18];
	struct err e = {0};

	s.adapt = (struct tolerance){1e-3, 1e-6};
	if (kind == SOLVER_DOPRI5)
		s.steps = 100;
	assert_true(solver_work(&s, 2) <= 18);
	*c = (struct counted){m, 0, 1};
	assert_int_equal(solver_run(&s, d, x, 2, work, exact_field, NULL, c, &e), 0);
	device_free(d);
	if (kind != SOLVER_DOPRI5)
		assert_int_equal(c->calls, solver_evaluations(&s));
}

/* The flow of one Gaussian is x_t = alpha mean + sqrt(alpha^2 std^2 + sigma^2) x_1. */
static double gaussian_error(enum solver_kind kind, int64_t steps, double to)
{
	const float start[2] = {1.3f, -.9f};
	float x[2] = {start[0], start[1]};
	struct counted c;
	double scale = hypot((1 - to) * gaussian.std, to), err = 0;

	integrate(&gaussian, kind, steps, to, x, &c);
	for (int i = 0; i < 2; i++)
		err = fmax(err, fabs(x[i] - ((1 - to) * one_mean[i] + scale * start[i])));
	return err;
}

static double mixture_error(enum solver_kind kind, int64_t steps, double to)
{
	float x[2] = {.2f, -.9f}, ref[2] = {.2f, -.9f};
	struct counted c;

	integrate(&mixture, kind, steps, to, x, &c);
	integrate(&mixture, SOLVER_HEUN, 2000, to, ref, &c);
	return fmax(fabs(x[0] - ref[0]), fabs(x[1] - ref[1]));
}

/* log2 of the error's ratio when steps double. Between 40 and 80 steps the next term of the expansion moves it by about 1/40;
 * float rounding (1e-7 per step) is far below the errors. */
static void orders(void **state)
{
	double (*errors[])(enum solver_kind, int64_t, double) = {gaussian_error, mixture_error};

	(void)state;
	for (int i = 0; i < 2; i++) {
		double euler = log2(errors[i](SOLVER_EULER, 80, .05) / errors[i](SOLVER_EULER, 160, .05));
		double heun = log2(errors[i](SOLVER_HEUN, 40, .05) / errors[i](SOLVER_HEUN, 80, .05));

		assert_true(fabs(euler - 1) < .1);
		assert_true(fabs(heun - 2) < .2);
	}
	assert_true(gaussian_error(SOLVER_HEUN, 80, 0) < .2 * gaussian_error(SOLVER_EULER, 80, 0));
}

/* The velocity of an expert that predicts the noise on the cosine path, converted to the linear path. */
static int converted_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	struct counted *n = arg;
	const struct convert c = convert_at(&path_cosine, PREDICT_EPSILON, CONVERT_MATCH, t);
	float own[2] = {(float)(c.scale * x[0]), (float)(c.scale * x[1])};
	double eps[2];

	(void)step;
	(void)stage;
	(void)e;
	n->calls++;
	exact_moments(n->m, &path_cosine, c.time, EXACT_ALL, own, NULL, eps);
	for (int i = 0; i < 2; i++) {
		double x0 = c.a * x[i] + c.b * eps[i];

		v[i] = (float)(c.eps_minus ? eps[i] - x0 : (x[i] - x0) / c.t);
	}
	return 0;
}

static double converted_error(enum solver_kind kind, int64_t steps)
{
	struct device *d = device_cpu(NULL, DT_F32);
	float x[2] = {.2f, -.9f}, ref[2] = {.2f, -.9f}, work[18];
	struct counted c = {&mixture, 0, 1};
	struct err e = {0};

	for (int exact = 0; exact < 2; exact++) {
		struct solver s = {.kind = exact ? SOLVER_HEUN : kind, .steps = exact ? 2000 : steps, .from = .9, .to = .05};

		assert_true(solver_work(&s, 2) <= 18);
		assert_int_equal(solver_run(&s, d, exact ? ref : x, 2, work, exact ? exact_field : converted_field, NULL, &c, &e), 0);
	}
	device_free(d);
	return fmax(fabs(x[0] - ref[0]), fabs(x[1] - ref[1]));
}

/* Conversion at equal log-SNR is exact, so it lowers no order. From t = .9, where the noise of the last entry of the cosine table lies beyond. */
static void orders_of_converted_experts(void **state)
{
	static const struct {
		enum solver_kind kind;
		int64_t steps;
		double order, near;
	} of[] = {{SOLVER_EULER, 80, 1, .1}, {SOLVER_HEUN, 40, 2, .2}, {SOLVER_MIDPOINT, 40, 2, .2}, {SOLVER_AB2, 80, 2, .2}, {SOLVER_RK4, 6, 4, .4}};

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		double a = converted_error(of[i].kind, of[i].steps), b = converted_error(of[i].kind, 2 * of[i].steps);

		print_message("solver %d: order %.2f (errors %.2g, %.2g)\n", of[i].kind, log2(a / b), a, b);
		if (!(fabs(log2(a / b) - of[i].order) <= of[i].near))
			fail_msg("solver %d: order %g", of[i].kind, log2(a / b));
	}
}

/* The orders of the other methods. On one Gaussian the midpoint method and rk4 have a higher order, so they are measured on two. rk4 takes few
 * steps, so that rounding stays below its errors. At t = 0 the last step must not lower the order. */
static void higher_orders(void **state)
{
	static const struct {
		enum solver_kind kind;
		double (*error)(enum solver_kind, int64_t, double);
		int64_t steps;
		double to, order, near;
	} of[] = {{SOLVER_EDM_HEUN, mixture_error, 40, .05, 2, .2}, {SOLVER_EDM_HEUN, gaussian_error, 40, .2, 2, .2},
	          {SOLVER_MIDPOINT, mixture_error, 40, .05, 2, .2}, {SOLVER_MIDPOINT, mixture_error, 40, .2, 2, .2},
	          {SOLVER_AB2, mixture_error, 80, .05, 2, .2},      {SOLVER_AB2, gaussian_error, 80, .2, 2, .2},
	          {SOLVER_AB2, gaussian_error, 80, 0, 2, .2},       {SOLVER_RK4, mixture_error, 6, .2, 4, .3},
	          {SOLVER_RK4, mixture_error, 6, .05, 4, .3},       {SOLVER_RK4, mixture_error, 6, 0, 4, .3}};

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		double order = log2(of[i].error(of[i].kind, of[i].steps, of[i].to) / of[i].error(of[i].kind, 2 * of[i].steps, of[i].to));

		if (!(fabs(order - of[i].order) <= of[i].near))
			fail_msg("solver %d to %g: order %g", of[i].kind, of[i].to, order);
	}
	assert_true(gaussian_error(SOLVER_RK4, 10, 0) < .02 * gaussian_error(SOLVER_HEUN, 20, 0));
}

/* Data of mean 0 and deviation .5 in one dimension, where the flow and the solvers are linear in x and in the noise. The draws of a step are 1 in
 * step `at` and else 0. */
struct response {
	int64_t at, steps, calls;
};

static const double deviation = .5;

static int linear_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	double variance = pow((1 - t) * deviation, 2) + t * t;

	(void)arg;
	(void)step;
	(void)stage;
	(void)e;
	v[0] = (float)(x[0] * (t - (1 - t) * deviation * deviation) / variance);
	return 0;
}

static int one_draw(void *arg, float *z, int64_t step, struct err *e)
{
	struct response *r = arg;

	(void)e;
	r->calls++;
	z[0] = step == r->at;
	return 0;
}

static float response(const struct solver *s, struct device *d, float x, int64_t at, int64_t *calls)
{
	float work[3];
	struct response r = {at, s->steps, 0};

	assert_true(solver_work(s, 1) <= 3);
	assert_int_equal(solver_run(s, d, &x, 1, work, linear_field, one_draw, &r, NULL), 0);
	*calls = r.calls;
	return x;
}

/* The exact standard deviation of the samples, without sampling: all noises are independent and of deviation 1. *added is the share of the variance
 * that comes from the steps' noise. */
static double spread(const char *text, int64_t steps, double *added)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct solver_choice c;
	struct solver s;
	int64_t calls;
	double first, sum = 0;

	assert_int_equal(solver_parse(text, &c, NULL), 0);
	s = (struct solver){.kind = c.kind, .steps = steps, .from = 1, .add = c.add};
	first = response(&s, d, 1, -1, &calls);
	for (int64_t i = 0; i < steps; i++)
		sum += pow(response(&s, d, 0, i, &calls), 2);
	assert_int_equal(calls > 0, solver_draws(&s));
	assert_true(response(&s, d, 0, steps - 1, &calls) == 0 || s.kind == SOLVER_EDM_HEUN);
	device_free(d);
	*added = sum / (sum + first * first);
	return sqrt(sum + first * first);
}

/* The samples have the deviation of the data up to an error of the solver's order in the length of the steps. */
static void laws_of_the_noise(void **state)
{
	static const struct {
		const char *text;
		int64_t steps;
		double order, near, share;
	} of[] = {{"sde", 200, 1, .15, .9},
	          {"sde,strength=.3", 200, 1, .15, .4},
	          {"sde,strength=3", 400, 1, .15, .9},
	          {"sde,step=ancestral", 200, 1, .15, .9},
	          {"edm-heun,churn=10", 100, 2, .5, .5},
	          {"edm-heun,churn=30,churn-min=.05,churn-max=50", 100, 2, .5, .5}};

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		double share, a = spread(of[i].text, of[i].steps, &share) - deviation, b = spread(of[i].text, 2 * of[i].steps, &share) - deviation,
			      order = log2(a / b);

		print_message("%s: errors %.3g, %.3g, order %.2f, %.0f%% of the variance from steps\n", of[i].text, a, b, order, 100 * share);
		if (!(fabs(order - of[i].order) < of[i].near && share > of[i].share && fabs(b) < .02))
			fail_msg("%s", of[i].text);
	}
}

static int point_field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	(void)arg;
	(void)step;
	(void)stage;
	(void)e;
	v[0] = (float)((x[0] - .8) / t);
	return 0;
}

/* Where all data is the point .8, every ancestral step is exact: after any steps x is N((1 - t) .8, t^2), from few and uneven times too. */
static void ancestral_steps_of_a_point(void **state)
{
	enum { STEPS = 4 };
	static const double times[] = {1, .7, .65, .2, .05};
	const struct solver s = {.kind = SOLVER_SDE, .steps = STEPS, .times = times, .add = {.ancestral = 1}};
	struct device *d = device_cpu(NULL, DT_F32);
	double variance = 0, mean = 0;

	(void)state;
	/* Case 0 starts from 0, case 1 from 1 without noise, and the others add one step's noise. */
	for (int i = 0; i < STEPS + 2; i++) {
		float x = i == 1, work[2];
		struct response r = {i - 2, STEPS, 0};

		assert_int_equal(solver_run(&s, d, &x, 1, work, point_field, one_draw, &r, NULL), 0);
		assert_int_equal(r.calls, STEPS);
		mean = i ? mean : x;
		variance += pow(x - mean, 2);
	}
	device_free(d);
	assert_true(fabs(mean - .95 * .8) < 1e-6);
	assert_true(fabs(sqrt(variance) - .05) < 1e-6);
}

/* Karras et al. 2022, algorithm 2, as printed: in double, on y = x / (1 - t) and sigma = t / (1 - t), with D of the same data. */
static double algorithm_2(double y, const double *sigma, int n, double s_churn, double s_min, double s_max, double s_noise, int at)
{
	double var = deviation * deviation;

	for (int i = 0; i < n; i++) {
		double gamma = sigma[i] >= s_min && sigma[i] <= s_max ? fmin(s_churn / n, sqrt(2) - 1) : 0, eps = s_noise * (i == at);
		double up = sigma[i] + gamma * sigma[i], yh = y + sqrt(up * up - sigma[i] * sigma[i]) * eps;
		double slope = (yh - yh * var / (var + up * up)) / up;

		y = yh + (sigma[i + 1] - up) * slope;
		if (sigma[i + 1] != 0) {
			double late = (y - y * var / (var + sigma[i + 1] * sigma[i + 1])) / sigma[i + 1];

			y = yh + (sigma[i + 1] - up) * (.5 * slope + .5 * late);
		}
	}
	return y;
}

static void edm_is_algorithm_2(void **state)
{
	static const double times[] = {.98, .9, .75, .5, .4, .2, .05, 0};
	enum { STEPS = 7 };
	static const struct stochastic adds[] = {
	    {0, 0, 0, HUGE_VAL, 1, 0}, {0, 2, 0, HUGE_VAL, 1, 0}, {0, 1, .2, 5, 1.1, 0}, {0, 40, .05, 50, 1.003, 0}};
	struct device *d = device_cpu(NULL, DT_F32);
	double sigma[STEPS + 1];
	int64_t calls;

	(void)state;
	for (int i = 0; i <= STEPS; i++)
		sigma[i] = times[i] / (1 - times[i]);
	for (size_t k = 0; k < sizeof adds / sizeof *adds; k++) {
		struct solver s = {.kind = SOLVER_EDM_HEUN, .steps = STEPS, .times = times, .add = adds[k]};

		for (int at = 0; at < STEPS; at++) {
			double want =
			    algorithm_2(1.3 / (1 - .98), sigma, STEPS, adds[k].churn, adds[k].churn_min, adds[k].churn_max, adds[k].churn_noise, at);
			float got = response(&s, d, 1.3f, at, &calls);

			if (!(fabs(got - want) < 2e-6))
				fail_msg("case %d, noise in step %d: %.9g, not %.9g", (int)k, at, (double)got, want);
		}
	}
	device_free(d);
}

/* dopri5 on the mixture of two Gaussians without its last step, against solve_ivp of SciPy 1.17 with method RK45, rtol = atol and first_step .05: the
 * same steps, so the same values within rounding to float, and as many evaluations. */
static void adapts_as_scipy(void **state)
{
	static const struct {
		float start[2];
		double tolerance, at[2];
		int calls;
	} of[] = {{{0.2f, -0.9f}, 1e-2, {0.285742417, -0.0584503036}, 19},  {{0.2f, -0.9f}, 1e-4, {0.28533756, -0.0585202765}, 37},
	          {{0.2f, -0.9f}, 1e-5, {0.285156762, -0.0585480339}, 55},  {{1.5f, 0.3f}, 1e-2, {1.48492234, 0.593533486}, 19},
	          {{1.5f, 0.3f}, 1e-4, {1.48492234, 0.593533486}, 19},      {{1.5f, 0.3f}, 1e-5, {1.48410245, 0.593422553}, 37},
	          {{-0.01f, 0.02f}, 1e-2, {-0.135186028, 0.337223458}, 19}, {{-0.01f, 0.02f}, 1e-4, {-0.135186028, 0.337223458}, 19},
	          {{-0.01f, 0.02f}, 1e-5, {-0.135315275, 0.337207601}, 37}, {{-2, 1}, 1e-2, {-1.93872802, 0.688942948}, 19},
	          {{-2, 1}, 1e-4, {-1.93872802, 0.688942948}, 19},          {{-2, 1}, 1e-5, {-1.93862083, 0.68896422}, 43}};
	struct device *d = device_cpu(NULL, DT_F32);

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct solver s = {.kind = SOLVER_DOPRI5, .steps = 500, .from = 1, .to = .05, .adapt = {of[i].tolerance, of[i].tolerance}};
		struct counted c = {&mixture, 0, 1};
		float x[2] = {of[i].start[0], of[i].start[1]}, work[18];

		assert_int_equal(solver_work(&s, 2), 18);
		memset(work, 0xff, sizeof work);
		assert_int_equal(solver_run(&s, d, x, 2, work, exact_field, NULL, &c, NULL), 0);
		if (c.calls != of[i].calls || !(fabs(x[0] - of[i].at[0]) < 1e-5 && fabs(x[1] - of[i].at[1]) < 1e-5))
			fail_msg("case %d: %.9g, %.9g in %d evaluations", (int)i, (double)x[0], (double)x[1], (int)c.calls);
	}
	device_free(d);
}

/* To t = 0, where rk4 with 800 steps is the reference: the error is of the size of the tolerance, and a limit on the steps is kept. */
static void tolerances_are_kept(void **state)
{
	static const float starts[][2] = {{.2f, -.9f}, {1.5f, .3f}, {-.01f, .02f}, {-2, 1}};
	struct device *d = device_cpu(NULL, DT_F32);
	struct solver s = {.kind = SOLVER_DOPRI5, .steps = 500, .from = 1};
	struct err e = {0};
	float x[2], work[18];
	struct counted c;

	(void)state;
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		int64_t before = 0;

		for (double tolerance = 1e-2; tolerance > 1e-6; tolerance /= 10) {
			float ref[2] = {starts[i][0], starts[i][1]};
			double error;

			memcpy(x, starts[i], sizeof x);
			integrate(&mixture, SOLVER_RK4, 800, 0, ref, &c);
			c = (struct counted){&mixture, 0, 1};
			s.adapt = (struct tolerance){tolerance, tolerance};
			assert_int_equal(solver_run(&s, d, x, 2, work, exact_field, NULL, &c, NULL), 0);
			error = fmax(fabs(x[0] - ref[0]), fabs(x[1] - ref[1]));
			print_message("tolerance %g: error %.2g, %d evaluations\n", tolerance, error, (int)c.calls);
			assert_true(c.least > 0 && c.calls % 6 == 3 && c.calls >= before);
			assert_true(error < 20 * tolerance);
			before = c.calls;
		}
	}
	s.steps = 3;
	c = (struct counted){&mixture, 0, 1};
	memcpy(x, starts[0], sizeof x);
	assert_int_equal(solver_run(&s, d, x, 2, work, exact_field, NULL, &c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_int_equal(c.calls, 1 + 3 * 6);
	device_free(d);
}

/* The rows of dopri5_run: a count of each sample's evaluations, and a sum that depends on the order of its times. */
struct crowd {
	int calls, of[4];
	double times[4];
	int64_t widest, narrowest;
};

static int crowd_field(void *arg, float *v, const float *x, const double *t, const int64_t *sample, int64_t n, int64_t step, int stage, struct err *e)
{
	struct crowd *c = arg;

	(void)e;
	assert_true(stage == 6 ? step == 0 && !c->calls : stage < 6);
	c->calls++;
	c->widest = n > c->widest ? n : c->widest;
	c->narrowest = n < c->narrowest ? n : c->narrowest;
	for (int64_t i = 0; i < n; i++) {
		double u[2];

		c->times[sample[i]] = 1.1 * c->times[sample[i]] + t[i];
		c->of[sample[i]]++;
		exact_velocity(&mixture, t[i], EXACT_ALL, x + 2 * i, u);
		v[2 * i] = (float)u[0];
		v[2 * i + 1] = (float)u[1];
	}
	return 0;
}

/* Samples together take the steps that each takes alone, rejected ones too, to the same bits; in as many rounds as the slowest. */
static void adapts_together(void **state)
{
	static const float starts[4][2] = {{.2f, -.9f}, {1.5f, .3f}, {-.01f, .02f}, {-2, 1}};
	struct device *d = device_cpu(NULL, DT_F32);
	int uneven = 0;

	(void)state;
	for (int to_zero = 0; to_zero < 2; to_zero++)
		for (double tolerance = 1e-2; tolerance > 1e-6; tolerance /= 10) {
			struct solver s = {.kind = SOLVER_DOPRI5, .steps = 500, .from = 1, .to = to_zero ? 0 : .05, .adapt = {tolerance, tolerance}};
			struct crowd all = {.narrowest = 4}, one;
			float together[4][2], work[4 * 18];
			int most = 0;

			memcpy(together, starts, sizeof together);
			memset(work, 0xff, sizeof work);
			assert_int_equal(dopri5_run(&s, d, &together[0][0], 4, 2, work, crowd_field, &all, NULL), 0);
			for (int i = 0; i < 4; i++) {
				float x[2] = {starts[i][0], starts[i][1]};

				one = (struct crowd){.narrowest = 1};
				memset(work, 0xff, sizeof work);
				assert_int_equal(dopri5_run(&s, d, x, 1, 2, work, crowd_field, &one, NULL), 0);
				assert_memory_equal(x, together[i], sizeof x);
				assert_true(one.of[0] == all.of[i] && one.times[0] == all.times[i]);
				most = one.calls > most ? one.calls : most;
			}
			assert_true(all.widest == 4 && all.calls == most);
			uneven += all.narrowest < 4;
		}
	assert_true(uneven > 4);
	device_free(d);
}

/* A sample without an end is left as it is, and does not stop the others; too few steps are an error. */
static int failing_field(void *arg, float *v, const float *x, const double *t, const int64_t *sample, int64_t n, int64_t step, int stage,
                         struct err *e)
{
	int rc = crowd_field(arg, v, x, t, sample, n, step, stage, e);

	for (int64_t i = 0; i < n; i++)
		if (sample[i] == 1)
			v[2 * i] = NAN;
	return rc;
}

static void adapts_beside_a_failure(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct solver s = {.kind = SOLVER_DOPRI5, .steps = 500, .from = 1, .adapt = {1e-4, 1e-4}};
	float x[3][2] = {{.2f, -.9f}, {1.5f, .3f}, {-2, 1}}, alone[2] = {-2, 1}, work[3 * 18];
	struct crowd c = {0};
	struct err e = {0};

	(void)state;
	assert_int_equal(dopri5_run(&s, d, &x[0][0], 3, 2, work, failing_field, &c, NULL), 0);
	assert_int_equal(c.of[1], 7);
	assert_true(isnan(x[1][0]));
	c = (struct crowd){0};
	assert_int_equal(dopri5_run(&s, d, alone, 1, 2, work, crowd_field, &c, NULL), 0);
	assert_memory_equal(alone, x[2], sizeof alone);
	s.steps = 2;
	c = (struct crowd){0};
	assert_int_equal(dopri5_run(&s, d, &x[0][0], 3, 2, work, crowd_field, &c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	device_free(d);
}

/* Uneven grids. The velocity is linear in t, for which the methods are exact, except for the first step of Adams-Bashforth, an Euler step. */
static int ramp(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	(void)arg;
	(void)x;
	(void)step;
	(void)stage;
	(void)e;
	v[0] = (float)(3 - 4 * t);
	return 0;
}

static void uneven_grids(void **state)
{
	static const double times[] = {1, .9375, .75, .3125, .125, 0};
	static const enum solver_kind kinds[] = {SOLVER_MIDPOINT, SOLVER_AB2, SOLVER_RK4};
	struct device *d = device_cpu(NULL, DT_F32);

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct solver s = {.kind = kinds[k], .steps = 5, .times = times};
		float x = 2, work[5];
		struct err e = {0};
		/* x(0) - x(1) = -(3 - 2); the error of the Euler step is half the slope times h^2 */
		double want = 1 + (kinds[k] == SOLVER_AB2 ? 2 * .0625 * .0625 : 0);

		assert_int_equal(solver_run(&s, d, &x, 1, work, ramp, NULL, NULL, &e), 0);
		if (fabs(x - want) > 1e-6)
			fail_msg("solver %d: %.9g, not %.9g", kinds[k], (double)x, want);
	}
	device_free(d);
}

static void evaluations(void **state)
{
	float x[2] = {1, 1};
	struct counted c;

	(void)state;
	integrate(&gaussian, SOLVER_EULER, 10, 0, x, &c);
	assert_int_equal(c.calls, 10);
	assert_true(fabs(c.least - .1) < 1e-15);
	integrate(&gaussian, SOLVER_HEUN, 10, 0, x, &c);
	assert_int_equal(c.calls, 19);
	assert_true(fabs(c.least - .1) < 1e-15);
	integrate(&gaussian, SOLVER_HEUN, 10, .05, x, &c);
	assert_int_equal(c.calls, 20);
	assert_true(c.least == .05);
	integrate(&gaussian, SOLVER_MIDPOINT, 10, 0, x, &c);
	assert_int_equal(c.calls, 20);
	assert_true(fabs(c.least - .05) < 1e-15);
	integrate(&gaussian, SOLVER_RK4, 10, 0, x, &c);
	assert_int_equal(c.calls, 39);
	assert_true(c.least > 0);
	integrate(&gaussian, SOLVER_RK4, 10, .05, x, &c);
	assert_int_equal(c.calls, 40);
	integrate(&gaussian, SOLVER_AB2, 10, 0, x, &c);
	assert_int_equal(c.calls, 10);
}

/* For a single data point the velocity (x - x0) / t is constant along the trajectory, so every solver ends on the point with any number of steps. */
static void a_point_is_reached(void **state)
{
	const struct exact point = {.n = 1, .d = 2, .clusters = 1, .mean = one_mean, .std = 0};

	(void)state;
	for (int64_t steps = 1; steps < 40; steps += 7)
		for (int kind = 0; kind < SOLVER_KINDS; kind++) {
			float x[2] = {1.3f, -.9f};
			struct counted c;

			integrate(&point, (enum solver_kind)kind, steps, 0, x, &c);
			assert_true(fabs(x[0] - one_mean[0]) < 2e-6 && fabs(x[1] - one_mean[1]) < 2e-6);
		}
}

static int failing(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	(void)arg;
	(void)v;
	(void)x;
	(void)stage;
	return step == 3 ? err_set(e, ERR_FAIL, "at %g", t) : 0;
}

static int note_time(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	(void)x;
	(void)stage;
	(void)e;
	((double *)arg)[step] = t;
	v[0] = 1;
	return 0;
}

/* linspace(1, .001, 4), 0. */
static void last_step_to_zero(void **state)
{
	struct solver s = {.kind = SOLVER_EULER, .steps = 4, .from = 1, .last = .001};
	struct device *d = device_cpu(NULL, DT_F32);
	float x[1] = {0}, work[1];
	double t[4];
	struct err e = {0};

	(void)state;
	assert_int_equal(solver_run(&s, d, x, 1, work, note_time, NULL, t, &e), 0);
	for (int i = 0; i < 4; i++)
		assert_true(fabs(t[i] - (1 - .333 * i)) < 1e-15);
	assert_true(fabs(x[0] + 1) < 1e-6);
	s.steps = 1;
	assert_int_equal(solver_run(&s, d, x, 1, work, note_time, NULL, t, &e), 0);
	assert_true(t[0] == 1 && fabs(x[0] + 2) < 1e-6);
	device_free(d);
}

/* Times of diffusers, whose table and even times are floats: a few roundings of 6e-8, which a shift below 1 multiplies by 1 / shift near 1. */
static void times_of_diffusers(void **state)
{
	double t[32];

	(void)state;
	for (size_t i = 0; i < sizeof golden_times / sizeof *golden_times; i++) {
		struct solver_choice c;
		struct err e = {0};
		int64_t n = golden_times[i].steps;

		if (solver_parse(golden_times[i].solver, &c, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(flow_grid_given(&c.grid), strcmp(golden_times[i].solver, "euler") != 0);
		flow_grid_times(&c.grid, n, golden_times[i].last, t);
		for (int64_t k = 0; k <= n; k++)
			if (!(fabs(t[k] - golden_times[i].at[k]) < 4e-7 / (c.grid.shift > 0 && c.grid.shift < 1 ? c.grid.shift : 1)))
				fail_msg("%s, %d steps: %.9g at %d, not %.9g", golden_times[i].solver, (int)n, t[k], (int)k, golden_times[i].at[k]);
	}
}

/* The times from the first on have equal differences of a function of t; those between are placed between the first and the last. */
static void even_in_a_function(void **state)
{
	enum { STEPS = 20 };
	static const char *const texts[] = {"euler,sigmas=quadratic", "euler,shift=3,sigmas=quadratic", "heun,sigmas=logsnr",
	                                    "euler,shift=3,sigmas=logsnr"};

	(void)state;
	for (int k = 0; k < 8; k++) {
		struct solver_choice c;
		struct err e = {0};
		double t[STEPS + 1], even[STEPS + 1], f[STEPS], widest = 0;
		int paris = k / 4, logsnr = k % 4 > 1;

		assert_int_equal(solver_parse(texts[k % 4], &c, &e), 0);
		flow_grid_times(&c.grid, STEPS, paris, t);
		c.grid.sigmas = FLOW_EVEN;
		flow_grid_times(&c.grid, STEPS, paris, even);
		assert_true(t[0] == 1 && t[STEPS] == 0 && fabs(t[STEPS - 1] - even[STEPS - 1]) < 1e-12);
		for (int i = 0; i < STEPS; i++)
			f[i] = logsnr ? log((1 - fmin(t[i], .999)) / fmin(t[i], .999)) : sqrt(t[i]);
		for (int i = 1; i < STEPS; i++)
			widest = fmax(widest, fabs(f[i] - f[i - 1] - (f[1] - f[0])));
		if (!(widest < 1e-9))
			fail_msg("%s: steps differ by %g", texts[k % 4], widest);
	}
	for (int n = 1; n < 3; n++) {
		double t[3];

		flow_grid_times(&(struct flow_grid){.sigmas = FLOW_LOGSNR}, n, 0, t);
		assert_true(t[0] == 1 && t[n] == 0 && (n == 1 || fabs(t[1] - .5) < 1e-12));
	}
}

/* Euler's and Heun's steps go from time to time. */
static void times_are_taken(void **state)
{
	const double given[] = {1, .7, .2, 0};
	struct solver s = {.kind = SOLVER_EULER, .steps = 3, .times = given};
	struct device *d = device_cpu(NULL, DT_F32);
	float x[1] = {0}, work[3];
	struct err e = {0};
	double t[3];

	(void)state;
	assert_int_equal(solver_run(&s, d, x, 1, work, note_time, NULL, t, &e), 0);
	assert_memory_equal(t, given, sizeof t);
	assert_true(fabs(x[0] + 1) < 1e-6);
	s.kind = SOLVER_HEUN;
	assert_int_equal(solver_run(&s, d, x, 1, work, note_time, NULL, t, &e), 0);
	assert_true(t[0] == .7 && t[1] == .2 && t[2] == .2);
	assert_true(fabs(x[0] + 2) < 1e-6);
	device_free(d);
}

/* I_x(1/2, 1/2) = 2/pi asin sqrt x, I_x(1, 1) = x, I_x(2, 2) = 3x^2 - 2x^3. */
static void quantiles(void **state)
{
	(void)state;
	for (double p = 0; p <= 1; p += .03125) {
		double s = sin(p * 1.5707963267948966), x = beta_quantile(p, 2);

		assert_true(fabs(beta_quantile(p, .5) - s * s) < 1e-14);
		assert_true(fabs(beta_quantile(p, 1) - p) < 1e-14);
		assert_true(fabs(3 * x * x - 2 * x * x * x - p) < 1e-14);
	}
}

static void errors_pass_through(void **state)
{
	struct solver s = {.kind = SOLVER_EULER, .steps = 8, .from = 1};
	struct device *d = device_cpu(NULL, DT_F32);
	float x[1] = {0}, work[1] = {0};
	struct err e = {0};

	(void)state;
	assert_int_equal(solver_run(&s, d, x, 1, work, failing, NULL, NULL, &e), -1);
	device_free(d);
	assert_string_equal(e.msg, "at 0.625");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(orders),
	    cmocka_unit_test(higher_orders),
	    cmocka_unit_test(orders_of_converted_experts),
	    cmocka_unit_test(uneven_grids),
	    cmocka_unit_test(evaluations),
	    cmocka_unit_test(a_point_is_reached),
	    cmocka_unit_test(last_step_to_zero),
	    cmocka_unit_test(times_of_diffusers),
	    cmocka_unit_test(times_are_taken),
	    cmocka_unit_test(even_in_a_function),
	    cmocka_unit_test(laws_of_the_noise),
	    cmocka_unit_test(ancestral_steps_of_a_point),
	    cmocka_unit_test(edm_is_algorithm_2),
	    cmocka_unit_test(adapts_as_scipy),
	    cmocka_unit_test(tolerances_are_kept),
	    cmocka_unit_test(adapts_together),
	    cmocka_unit_test(adapts_beside_a_failure),
	    cmocka_unit_test(quantiles),
	    cmocka_unit_test(errors_pass_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
