/* diffusion/path, schedule, convert, exact: relations between predictions, and conversions on closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ondevice.h"
#include "diffusion/objective.h"
#include "file/commit.h"
#include "tests/unit/exact.h"

enum { FORMULAS = 3, PATHS = 7 };
static struct schedule tables[PATHS - FORMULAS];
static const struct path *paths[PATHS] = {&path_linear, &path_cosine, &path_gvp};
static const enum prediction kinds[] = {PREDICT_VELOCITY, PREDICT_X0, PREDICT_EPSILON, PREDICT_ANGULAR};

static double hundred[100];

static int make_tables(void **state)
{
	const struct betas b[] = {{1000, 1e-4, .02, NULL}, {1000, .00085, .012, NULL}, {1000, 0, 0, NULL}, {100, 0, 0, hundred}};
	static const char *const tables_names[] = {"linear_betas", "scaled_linear_betas", "cosine_betas", "betas"};

	(void)state;
	for (int k = 0; k < 100; k++)
		hundred[k] = .001 + .002 * k;
	for (int i = 0; i < PATHS - FORMULAS; i++)
		paths[FORMULAS + i] = schedule_path(&tables[i], tables_names[i], &b[i], 0, NULL);
	return paths[3] && paths[4] && paths[5] && paths[6] ? 0 : -1;
}

static int free_tables(void **state)
{
	(void)state;
	for (int i = 0; i < PATHS - FORMULAS; i++)
		schedule_release(&tables[i]);
	return 0;
}

/* alphas_cumprod of diffusers' DDPMScheduler: products of up to a thousand floats, with errors of about 1e-5. */
static void tables_are_those_of_diffusers(void **state)
{
	static const double abar[3][4] = {{.9998999834, .8951413631, .0777966529, 4.03583035e-5},
	                                  {.9991499782, .8942231536, .2763324678, .00466009509},
	                                  {.9999586940, .9715756178, .4922850430, 2.42873499e-9}};
	static const int64_t at[4] = {0, 100, 500, 999};
	struct schedule s;

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 4; k++)
			assert_true(fabs(tables[i].abar[at[k]] / abar[i][k] - 1) < 3e-5);
	assert_int_equal(tables[3].steps, 100);
	assert_true(fabs(tables[3].abar[1] - .999 * .997) < 1e-15);
	/* The continuous path at its own thousand times. */
	assert_int_equal(schedule_init(&s, "cosine", NULL, NULL), 0);
	for (int64_t k = 0; k < 999; k += 37)
		assert_true(fabs(s.abar[k] - pow(path_at(&path_cosine, schedule_time(&s, (double)k)).alpha, 2)) < 1e-12);
	assert_true(schedule_time(&s, 999) == .999 && schedule_time(&s, 0) == .001);
	schedule_release(&s);
	assert_null(schedule_path(&s, "sigmoid", &(struct betas){1000, 1e-4, .02, NULL}, 0, NULL));
}

/* At a step the values are the table's; between two steps, derivatives and the inverse are those of the interpolation. */
static void points_of_tables(void **state)
{
	(void)state;
	for (int i = FORMULAS; i < PATHS; i++) {
		const struct schedule *s = &tables[i - FORMULAS];

		for (int64_t k = 0; k < s->steps - 1; k += 7) {
			double t = schedule_time(s, (double)k), h = 1e-6 / s->unit, mid = schedule_time(s, (double)k + .3);
			struct path_point p = path_at(paths[i], t), m = path_at(paths[i], mid), a = path_at(paths[i], mid - h), b;

			b = path_at(paths[i], mid + h);
			assert_true(fabs(p.alpha * p.alpha - s->abar[k]) < 1e-13 && fabs(p.alpha * p.alpha + p.sigma * p.sigma - 1) < 1e-13);
			assert_true(fabs((b.alpha - a.alpha) / (2 * h) - m.dalpha) < 1e-5 && fabs((b.sigma - a.sigma) / (2 * h) - m.dsigma) < 1e-5);
			assert_true(fabs(path_time(paths[i], p.logsnr) - t) < 1e-12 && fabs(path_time(paths[i], m.logsnr) - mid) < 1e-12);
		}
		assert_true(path_time(paths[i], INFINITY) == paths[i]->lo && path_time(paths[i], -INFINITY) == paths[i]->hi);
	}
}

/* diffusers' scheduler_config.json, and refused keys. */
static void schedulers(void **state)
{
	static const struct {
		const char *text, *path, *prediction;
	} v[] = {
	    {"{}", "linear_betas", "epsilon"},
	    {"{\"beta_schedule\": \"scaled_linear\", \"prediction_type\": \"v_prediction\", \"trained_betas\": null}", "scaled_linear_betas",
	     "v_prediction"},
	    {"{\"beta_schedule\": \"squaredcos_cap_v2\", \"prediction_type\": \"sample\"}", "cosine_betas", "x0"},
	    {"{\"trained_betas\": [0.1, 0.2], \"num_train_timesteps\": 2}", "betas", "epsilon"},
	    {"{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"}", "linear", "velocity"},
	    {"{\"_class_name\": \"EDMEulerScheduler\", \"sigma_data\": 1.0}", NULL, NULL},
	    {"{\"_class_name\": \"EDMDPMSolverMultistepScheduler\"}", NULL, NULL},
	    {"{\"beta_schedule\": \"sigmoid\"}", NULL, NULL},
	    {"{\"prediction_type\": \"flow\"}", NULL, NULL},
	    {"{\"rescale_betas_zero_snr\": true}", NULL, NULL},
	    {"{\"trained_betas\": [0.1, 0.2]}", "betas", "epsilon"},
	    {"{\"trained_betas\": [0.1, 0.2], \"num_train_timesteps\": 3}", NULL, NULL},
	    {"{\"trained_betas\": [0.1, 2], \"num_train_timesteps\": 2}", NULL, NULL},
	    {"{\"num_train_timesteps\": 0}", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		json_t *o = json_loads(v[i].text, 0, NULL);
		const char *path = NULL, *prediction = NULL;
		struct betas b;
		struct err e = {0};
		int rc = scheduler_parse(o, "x", &path, &prediction, &b, &e);

		assert_non_null(o);
		assert_int_equal(rc, v[i].path ? 0 : -1);
		if (v[i].path) {
			assert_string_equal(path, v[i].path);
			assert_string_equal(prediction, v[i].prediction);
			assert_int_equal(b.steps, !strcmp(path, "betas") ? 2 : !strcmp(path, "linear") ? 0 : 1000);
		} else {
			assert_int_equal(e.code, ERR_DATA);
		}
		betas_release(&b);
		json_decref(o);
	}
}

/* A file as Python writes it; the same word within a string is unchanged. */
static void infinite_numbers(void **state)
{
	static const char text[] = "{\"lambda_min_clipped\": -Infinity, \"a\": [Infinity, 1], \"_class_name\": \"D-Infinity \\\" Infinity\"}";
	char *path = str_new("%s/scheduler.json", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	struct err e = {0};
	json_t *o;

	(void)state;
	assert_int_equal(commit_bytes(path, text, strlen(text), &e), 0);
	o = scheduler_load(path, &e);
	assert_non_null(o);
	assert_true(json_is_null(json_object_get(o, "lambda_min_clipped")) && json_array_size(json_object_get(o, "a")) == 2);
	assert_string_equal(json_string_value(json_object_get(o, "_class_name")), "D-Infinity \" Infinity");
	json_decref(o);
	assert_int_equal(commit_bytes(path, "[1]", 3, &e), 0);
	assert_null(scheduler_load(path, &e));
	assert_int_equal(e.code, ERR_DATA);
	unlink(path);
	mem_free(path);
}

static void names(void **state)
{
	(void)state;
	assert_ptr_equal(path_find("linear"), &path_linear);
	assert_ptr_equal(path_find("cosine"), &path_cosine);
	assert_null(path_find("Linear"));
	for (int i = 0; i < 4; i++)
		assert_int_equal(prediction_find(prediction_name(kinds[i])), kinds[i]);
	assert_int_equal(prediction_find("eps"), PREDICT_EPSILON);
	assert_int_equal(prediction_find("noise"), -1);
}

/* Central differences with h = 1e-6 have an error of about 1e-10; the inverse is exact within rounding. */
static void derivatives_and_inverse(void **state)
{
	(void)state;
	for (int i = 0; i < FORMULAS; i++)
		for (double t = .01; t < .995; t += .01) {
			const double h = 1e-6;
			struct path_point p = path_at(paths[i], t), a = path_at(paths[i], t - h), b = path_at(paths[i], t + h);

			assert_true(fabs((b.alpha - a.alpha) / (2 * h) - p.dalpha) < 1e-8);
			assert_true(fabs((b.sigma - a.sigma) / (2 * h) - p.dsigma) < 1e-8 * fmax(1, fabs(p.dsigma)));
			assert_true(fabs(p.logsnr - 2 * log(p.alpha / p.sigma)) < 1e-11);
			assert_true(fabs(path_time(paths[i], p.logsnr) - t) < 1e-11);
		}
	for (int i = 0; i < FORMULAS; i++) {
		assert_true(fabs(path_at(paths[i], 0).alpha - 1) < 1e-15 && fabs(path_at(paths[i], 0).sigma) < 1e-15);
		assert_true(fabs(path_at(paths[i], 1).alpha) < 1e-15 && fabs(path_at(paths[i], 1).sigma - 1) < 1e-15);
		assert_true(path_time(paths[i], INFINITY) == 0 && path_time(paths[i], -INFINITY) == 1);
	}
	/* Published values of the cosine schedule: abar(.5) = cos^2(.508/1.008 pi/2) / cos^2(.008/1.008 pi/2). */
	assert_true(fabs(pow(path_at(&path_cosine, .5).alpha, 2) - .49384) < 1e-5);
}

/* With x0 = 2, eps = -.7 every kind is a known number, and every kind gives every other. */
static void kinds_convert_to_each_other(void **state)
{
	const double x0 = 2, eps = -.7;

	(void)state;
	for (int i = 0; i < FORMULAS; i++)
		for (double t = .05; t < .96; t += .05) {
			struct path_point p = path_at(paths[i], t);
			double x = p.alpha * x0 + p.sigma * eps;
			double truth[] = {p.dalpha * x0 + p.dsigma * eps, x0, eps, p.alpha * eps - p.sigma * x0};

			for (int from = 0; from < 4; from++)
				for (int to = 0; to < 4; to++) {
					double a, b;

					prediction_relate(&p, kinds[from], kinds[to], &a, &b);
					assert_true(fabs(a * x + b * truth[from] - truth[to]) < 1e-11);
				}
		}
}

static void training_targets(void **state)
{
	const float x0[2] = {.5f, -1}, eps[2] = {2, .25f};
	const struct weighting usual = {WEIGHTING_USUAL, 0};
	struct path_point p = path_at(&path_linear, .25);
	float x[2], v[2];

	(void)state;
	path_noise(&p, x, x0, eps, 2);
	assert_true(x[0] == .75f * .5f + .25f * 2 && x[1] == -.75f + .25f * .25f);
	path_target(&p, PREDICT_VELOCITY, v, x0, eps, 2);
	assert_true(v[0] == 1.5f && v[1] == 1.25f);
	path_target(&p, PREDICT_X0, v, x0, eps, 2);
	assert_true(v[0] == x0[0] && v[1] == x0[1]);
	path_target(&p, PREDICT_EPSILON, v, x0, eps, 2);
	assert_true(v[0] == eps[0] && v[1] == eps[1]);
	/* The velocity loss: an error e of x0 is an error e / t of the velocity; t is clamped at .05. */
	assert_true(fabs(weighting_at(&usual, &path_linear, PREDICT_X0, .25) - 16) < 1e-12);
	assert_true(fabs(weighting_at(&usual, &path_linear, PREDICT_X0, .001) - 400) < 1e-9);
	assert_true(weighting_at(&usual, &path_linear, PREDICT_X0, 1) == 1 && weighting_at(&usual, &path_linear, PREDICT_VELOCITY, .001) == 1);
}

/* Means and variances of 1e5 draws within five standard errors. */
static void times(void **state)
{
	enum { N = 100000 };
	struct time_law uniform = {TIME_UNIFORM, 0, 0}, logit = {TIME_LOGIT_NORMAL, -.4, 1.2};
	double mu = 0, ml = 0, vl = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		double u = time_sample(&uniform, NULL, &path_linear, 3, RNG_TEST, i / 64, i % 64);
		double t = time_sample(&logit, NULL, &path_linear, 3, RNG_TEST, i / 64, i % 64);
		double z = log(t / (1 - t));

		assert_true(u >= 0 && u < 1 && t > 0 && t < 1);
		mu += u;
		ml += z;
		vl += (z + .4) * (z + .4);
	}
	assert_true(fabs(mu / N - .5) < 5 * sqrt(1. / 12 / N));
	assert_true(fabs(ml / N + .4) < 5 * 1.2 / sqrt(N));
	assert_true(fabs(vl / N / 1.44 - 1) < 5 * sqrt(2. / N));
	assert_true(time_sample(&logit, NULL, &path_linear, 3, RNG_TEST, 5, 6) == time_sample(&logit, NULL, &path_linear, 3, RNG_TEST, 5, 6));
	assert_true(time_sample(&logit, NULL, &path_linear, 3, RNG_TEST, 5, 6) != time_sample(&logit, NULL, &path_linear, 3, RNG_TEST, 6, 5));
}

static const float gauss_mean[] = {.8f, -.3f, .1f, -.5f, .6f, 1};
static const double gauss_weight[] = {.7, .3};
static const struct exact gauss = {.n = 2, .d = 3, .clusters = 1, .mean = gauss_mean, .weight = gauss_weight, .std = .6};

/* The output of a perfect network with this prediction on this path. */
static void perfect(const struct path *path, enum prediction kind, double s, const float *y, float *out)
{
	struct path_point p = path_at(path, s);
	double x0[3], eps[3];

	exact_moments(&gauss, path, s, EXACT_ALL, y, x0, eps);
	for (int i = 0; i < 3; i++) {
		double truth[] = {p.dalpha * x0[i] + p.dsigma * eps[i], x0[i], eps[i], p.alpha * eps[i] - p.sigma * x0[i]};

		out[i] = (float)truth[kind];
	}
}

/* Relative velocity error of a perfect network of this kind and path at time t of the linear path. */
static double conversion_error(const struct path *path, enum prediction kind, enum convert_mode mode, double t, const float *mean)
{
	const float x[3] = {1.1f, .4f, -.7f};
	struct convert c = convert_at(path, kind, mode, t);
	struct device *d = device_cpu(NULL, DT_F32);
	float y[3], out[3], v[3];
	double u[3], num = 0, den = 0;

	for (int i = 0; i < 3; i++)
		y[i] = (float)(c.scale * x[i]);
	perfect(path, kind, c.time, y, out);
	ondevice_convert(d, &c, v, x, out, mean, 1, 3, 3);
	device_free(d);
	exact_velocity(&gauss, t, EXACT_ALL, x, u);
	for (int i = 0; i < 3; i++) {
		num += (v[i] - u[i]) * (v[i] - u[i]);
		den += u[i] * u[i];
	}
	return sqrt(num / den);
}

/* Whether the path's table includes this log-SNR. */
static int inside(const struct path *path, double t)
{
	double logsnr = path_at(&path_linear, t).logsnr;

	return logsnr <= path_at(path, path->lo).logsnr && logsnr >= path_at(path, path->hi).logsnr;
}

/* Matching log-SNR is exact. Predictions are rounded to float, and x0 from epsilon multiplies that by up to sigma/alpha = 49, v
 * from x0 by 1/t = 20: 2e-5 is five times 49 * 6e-8 plus the rounding of the sums. */
static void conversions_are_exact_on_gaussians(void **state)
{
	(void)state;
	for (int i = 0; i < PATHS; i++)
		for (int k = 0; k < 4; k++)
			for (double t = .05; t <= .98; t += .03)
				if (inside(paths[i], t))
					assert_true(conversion_error(paths[i], kinds[k], CONVERT_MATCH, t, NULL) < 2e-5);
}

/* Outside a path's table x0hat is computed at the end of the table; an epsilon prediction is blended with the mean of the data, and exact at
 * t = 1. */
static void conversions_at_the_ends(void **state)
{
	const float mean[3] = {.7f * .8f - .3f * .5f, -.7f * .3f + .3f * .6f, .07f + .3f};

	(void)state;
	for (int i = 0; i < PATHS; i++) {
		for (int k = 0; k < 4; k++)
			for (double t = .9; t <= 1; t += .001)
				assert_true(conversion_error(paths[i], kinds[k], CONVERT_MATCH, fmin(t, 1), mean) < (i < FORMULAS ? .05 : .06));
		assert_true(conversion_error(paths[i], PREDICT_EPSILON, CONVERT_MATCH, 1, mean) < 1e-6);
		assert_true(convert_at(paths[i], PREDICT_EPSILON, CONVERT_MATCH, 1).time <= paths[i]->hi);
		assert_true(convert_at(paths[i], PREDICT_EPSILON, CONVERT_MATCH, 0).time >= paths[i]->lo);
		assert_true(isfinite(conversion_error(paths[i], PREDICT_EPSILON, CONVERT_MATCH, 0, NULL)));
	}
}

/* Giving x and t unchanged to a network on the cosine path gives a large error, which matching avoids. */
static void native_is_not_matched(void **state)
{
	double worst = 0;

	(void)state;
	for (double t = .1; t < .95; t += .1)
		worst = fmax(worst, conversion_error(&path_cosine, PREDICT_EPSILON, CONVERT_NATIVE, t, NULL));
	assert_true(worst > .2);
	for (double t = .1; t < .95; t += .1)
		assert_true(conversion_error(&path_linear, PREDICT_EPSILON, CONVERT_NATIVE, t, NULL) < 1e-5);
	assert_true(conversion_error(&path_linear, PREDICT_X0, CONVERT_NATIVE, .3, NULL) < 1e-5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(tables_are_those_of_diffusers),
	    cmocka_unit_test(points_of_tables),
	    cmocka_unit_test(schedulers),
	    cmocka_unit_test(infinite_numbers),
	    cmocka_unit_test(derivatives_and_inverse),
	    cmocka_unit_test(kinds_convert_to_each_other),
	    cmocka_unit_test(training_targets),
	    cmocka_unit_test(times),
	    cmocka_unit_test(conversions_are_exact_on_gaussians),
	    cmocka_unit_test(conversions_at_the_ends),
	    cmocka_unit_test(native_is_not_matched),
	};

	return cmocka_run_group_tests(tests, make_tables, free_tables);
}
