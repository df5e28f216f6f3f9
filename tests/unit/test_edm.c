/* diffusion/edm: Karras et al. 2022 for data of any standard deviation, in closed form, in config.json, and in an ensemble of other paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/convert.h"
#include "diffusion/ensemble.h"
#include "diffusion/lawmodel.h"
#include "diffusion/mixture.h"
#include "diffusion/objective.h"
#include "net/betas.h"
#include "tests/unit/exact.h"
#include "tests/unit/scratch.h"

static const double deviations[] = {.25, .5, 1, 2};
enum { DEVIATIONS = sizeof deviations / sizeof *deviations };
static struct schedule held[DEVIATIONS];
static const struct path *paths[DEVIATIONS];

static int set_up(void **state)
{
	for (int i = 0; i < DEVIATIONS; i++)
		paths[i] = schedule_path(&held[i], "edm", NULL, deviations[i], NULL);
	return make_dir(state);
}

static int tear_down(void **state)
{
	for (int i = 0; i < DEVIATIONS; i++)
		schedule_release(&held[i]);
	return remove_dir(state);
}

static void the_usual_deviation(void **state)
{
	struct schedule s;

	(void)state;
	assert_ptr_equal(paths[1], &path_edm);
	assert_ptr_equal(schedule_path(&s, "edm", NULL, 0, NULL), &path_edm);
	assert_true(path_edm.sigma_data == .5 && path_linear.sigma_data == .5 && path_at(&path_linear, .5).sigma_data == .5);
	/* Only EDM's path depends on the deviation of the data. */
	assert_ptr_equal(schedule_path(&s, "linear", NULL, 2, NULL), &path_linear);
	assert_null(schedule_of(paths[3]));
}

/* Table 1 and equation 8 of the paper. */
static void preconditioning(void **state)
{
	const struct weighting none = {WEIGHTING_NONE, 0}, usual = {WEIGHTING_EDM, 0};

	(void)state;
	for (int i = 0; i < DEVIATIONS; i++)
		for (double s = .002; s <= 80; s *= 1.7) {
			const double std = deviations[i], var = std * std;
			const struct weighting given = {WEIGHTING_EDM, std};
			double t = path_time(paths[i], -2 * log(s)), x0 = .7, eps = -1.3, y = x0 + s * eps, c, d, f, a, b;
			double skip = var / (s * s + var), out = s * std / sqrt(var + s * s), in = 1 / sqrt(var + s * s);
			double lambda = (s * s + var) / (s * std * s * std);
			struct path_point p = path_at(paths[i], t);

			assert_true(fabs(t - log(s / .002) / log(40000)) < 1e-12);
			assert_true(fabs(p.alpha - in) < 1e-11 && fabs(p.alpha * x0 + p.sigma * eps - in * y) < 1e-11);
			path_target_weights(&p, PREDICT_EDM, &c, &d);
			f = c * x0 + d * eps;
			assert_true(fabs(skip * y + out * f - x0) < 1e-11 && fabs((x0 - skip * y) / out - f) < 1e-9);
			prediction_relate(&p, PREDICT_EDM, PREDICT_X0, &a, &b);
			assert_true(fabs(a * in - skip) < 1e-11 && fabs(b - out) < 1e-11);
			assert_true(weighting_at(&none, paths[i], PREDICT_EDM, t) == 1);
			if (t < WEIGHTING_EDGE || t > 1 - WEIGHTING_EDGE)
				continue;
			/* lambda(s) c_out^2 = 1: EDM's weighting is none of this prediction, for the deviation that the path is for. */
			assert_true(fabs(weighting_at(&given, paths[i], PREDICT_X0, t) / lambda - 1) < 1e-10);
			assert_true(fabs(weighting_at(&usual, paths[i], PREDICT_X0, t) / lambda - 1) < 1e-10);
			assert_true(fabs(weighting_at(&usual, paths[i], PREDICT_EDM, t) - 1) < 1e-10);
		}
}

static void derivatives(void **state)
{
	const double h = 1e-5;

	(void)state;
	for (int i = 0; i < DEVIATIONS; i++)
		for (double t = .02; t < 1; t += .04) {
			struct path_point p = path_at(paths[i], t), a = path_at(paths[i], t - h), b = path_at(paths[i], t + h);

			assert_true(fabs((b.alpha - a.alpha) / (2 * h) - p.dalpha) < 1e-6 * (fabs(p.dalpha) + 1));
			assert_true(fabs((b.sigma - a.sigma) / (2 * h) - p.dsigma) < 1e-6 * (fabs(p.dsigma) + 1));
			assert_true(fabs(2 * log(p.alpha / p.sigma) - p.logsnr) < 1e-12 * (fabs(p.logsnr) + 1));
		}
}

/* The trainer's draws of normal data with one deviation. On the path of this deviation the input and the target have variance 1 at every noise level,
 * and the target is independent of the input. On the path of another deviation, the variance of the target goes from 1 without noise to the square
 * of the quotient at pure noise. Tolerance: five standard errors; the variance of a square is 2, that of a product 1. */
static void unit_variance(void **state)
{
	enum { DRAWS = 20000 };
	static float x0[DRAWS], eps[DRAWS], data[DRAWS], x[DRAWS], f[DRAWS];

	(void)state;
	rng_normal(x0, DRAWS, 4, RNG_TEST, 0, 0);
	rng_normal(eps, DRAWS, 4, RNG_TEST, 0, 1);
	for (int of = 0; of < DEVIATIONS; of++) {
		for (int n = 0; n < DRAWS; n++)
			data[n] = (float)deviations[of] * x0[n];
		for (int i = 0; i < DEVIATIONS; i++)
			for (double t = 0; t <= 1; t += .05) {
				struct path_point p = path_at(paths[i], t);
				double ratio = deviations[of] / deviations[i], input = 0, target = 0, both = 0;
				double noise = p.sigma * p.sigma, expected = noise * ratio * ratio + 1 - noise;

				path_noise(&p, x, data, eps, DRAWS);
				path_target(&p, PREDICT_EDM, f, data, eps, DRAWS);
				for (int n = 0; n < DRAWS; n++) {
					input += x[n] * x[n] / DRAWS;
					target += f[n] * f[n] / DRAWS;
					both += x[n] * f[n] / DRAWS;
				}
				assert_true(fabs(target / expected - 1) < 5 * sqrt(2. / DRAWS));
				if (of == i)
					assert_true(fabs(input - 1) < 5 * sqrt(2. / DRAWS) && fabs(both) < 5 / sqrt(DRAWS));
			}
		/* The two ends, where the quotient appears alone. */
		for (int i = 0; i < DEVIATIONS; i++) {
			double c, d, ratio = deviations[of] / deviations[i];
			struct path_point p = path_at(paths[i], 0);

			path_target_weights(&p, PREDICT_EDM, &c, &d);
			assert_true(fabs(pow(c * deviations[of], 2) + d * d - 1) < 1e-2);
			p = path_at(paths[i], 1);
			path_target_weights(&p, PREDICT_EDM, &c, &d);
			assert_true(fabs((pow(c * deviations[of], 2) + d * d) / (ratio * ratio) - 1) < 5e-2);
		}
	}
}

/* The optimal denoiser of normal data is x0 = alpha var x / (alpha^2 var + sigma^2). On the path of the data's deviation it is c_skip y: F is 0. */
static void optimum_of_normal_data(void **state)
{
	(void)state;
	for (int of = 0; of < DEVIATIONS; of++)
		for (int i = 0; i < DEVIATIONS; i++)
			for (float t = 0; t <= 1; t += .125f) {
				const float zero = 0, x = 1.5f;
				struct exact normal = {.n = 1, .d = 1, .clusters = 1, .mean = &zero, .std = deviations[of]};
				struct path_point p = path_at(paths[i], t);
				double var = deviations[of] * deviations[of], x0, a, b, best;

				best = p.alpha * var * x / (p.alpha * p.alpha * var + p.sigma * p.sigma);
				exact_moments(&normal, paths[i], t, EXACT_ALL, &x, &x0, NULL);
				assert_true(fabs(x0 - best) < 1e-9 * fabs(best));
				prediction_relate(&p, PREDICT_X0, PREDICT_EDM, &a, &b);
				assert_true((fabs(a * x + b * best) < 1e-7) == (i == of));
			}
}

/* The converted output of a network for one deviation is the velocity of the data, for any deviation; also in native mode. */
static void conversion(void **state)
{
	(void)state;
	for (int i = 0; i < DEVIATIONS; i++)
		for (double t = .01; t < .98; t += .06) {
			struct convert match = convert_at(paths[i], PREDICT_EDM, CONVERT_MATCH, t);
			struct convert native = convert_at(paths[i], PREDICT_EDM, CONVERT_NATIVE, t);
			struct path_point p = path_at(paths[i], match.time), lin = path_at(&path_linear, t);
			double x0 = .3, eps = -.9, x = lin.alpha * x0 + lin.sigma * eps, c, d;

			assert_true(fabs(match.scale * x - (p.alpha * x0 + p.sigma * eps)) < 1e-9);
			path_target_weights(&p, PREDICT_EDM, &c, &d);
			assert_true(fabs(match.a * x + match.b * (c * x0 + d * eps) - x0) < 1e-9);
			assert_true(native.time == t);
			lin.sigma_data = deviations[i];
			path_target_weights(&lin, PREDICT_EDM, &c, &d);
			assert_true(fabs(native.a * x + native.b * (c * x0 + d * eps) - x0) < 1e-9);
		}
}

static void names(void **state)
{
	static const char *const wrong[] = {"edm:",    "edm:0",   "edm:-1",  "edm:nan",  "edm:inf", "edm:x",
	                                    "edm:1,2", "edm:1e9", "edm:.09", "edm:10.1", "edm=1"};
	struct path_choice c;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		e = (struct err){0};
		assert_int_equal(path_choice_parse(wrong[i], &c, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, strchr(wrong[i], '=') ? "gvp, edm[:S]" : "is not edm[:S] with S a number from 0.1 to 10"));
	}
	e = (struct err){0};
	assert_int_equal(path_choice_parse("linear:1", &c, &e), -1);
	assert_non_null(strstr(e.msg, "'linear:1' is not linear, which takes no number"));
	assert_int_equal(path_choice_parse("edm:1", &c, &e), 0);
	assert_true(c.sigma_data == 1 && !strcmp(c.config, "edm") && !strcmp(c.name, "edm"));
	/* The default deviation needs no number. */
	assert_int_equal(path_choice_parse("edm:0.5", &c, &e), 0);
	assert_true(c.sigma_data == 0);
	assert_int_equal(path_choice_parse("edm", &c, &e), 0);
	assert_true(c.sigma_data == 0);
}

static void in_config_json(void **state)
{
#define HEAD "{\"model_type\": \"mnist_unet\", \"in_channels\": 1, \"prediction\": \"edm\", \"path\": "
	static const struct {
		const char *text;
		double sigma_data; /* -1: refused */
		const char *says;
	} v[] = {
	    {HEAD "\"edm\"}", 0, NULL},
	    {HEAD "\"edm\", \"sigma_data\": 0.5}", 0, NULL},
	    {HEAD "\"edm\", \"sigma_data\": 1}", 1, "\"sigma_data\": 1.0"},
	    {HEAD "\"edm\", \"sigma_data\": 0.25}", .25, "\"sigma_data\": 0.25"},
	    {HEAD "\"linear\"}", 0, NULL},
	    {HEAD "\"linear\", \"sigma_data\": 0.5}", -1, "belongs to path \"edm\""},
	    {HEAD "\"edm\", \"sigma_data\": 0}", -1, "in 0.1..10"},
	    {HEAD "\"edm\", \"sigma_data\": -1}", -1, "in 0.1..10"},
	    {HEAD "\"edm\", \"sigma_data\": 1e9}", -1, "in 0.1..10"},
	    {HEAD "\"edm\", \"sigma_data\": \"1\"}", -1, "in 0.1..10"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		json_t *o = json_loads(v[i].text, 0, NULL);
		struct model_config c;
		struct err e = {0};
		int rc = model_config_parse(o, "config.json", &c, &e);

		assert_non_null(o);
		assert_int_equal(rc, v[i].sigma_data < 0 ? -1 : 0);
		if (rc) {
			assert_int_equal(e.code, ERR_DATA);
			assert_non_null(strstr(e.msg, v[i].says));
		} else {
			char *text = model_config_text(&c, NULL);

			assert_true(c.sigma_data == v[i].sigma_data);
			assert_int_equal(strstr(text, "sigma_data") != NULL, v[i].says != NULL);
			assert_non_null(strstr(text, v[i].says ? v[i].says : "\"path\""));
			mem_free(text);
		}
		model_config_release(&c);
		json_decref(o);
	}
}

/* Twelve points in four dimensions, three in each of four clusters. */
enum { N = 12, D = 4, K = 4 };
static float points[N * D];
static const int32_t cluster_of[N] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};
static const int64_t first[K + 1] = {0, 3, 6, 9, 12};

static void write_member(const char *model, const char *name, int k, const char *path, const char *prediction)
{
	static int64_t sizes[K] = {3, 3, 3, 3};
	struct finite_set s = {.n = k < 0 ? N : 3, .d = D, .sample = points + (k < 0 ? 0 : first[k] * D), .clusters = K, .first = first};
	struct model_config m = {.net = {.def = net_exact_of(k < 0 ? NET_CLASSIFIER : NET_EXPERT), .channels = 1, .out_channels = 1, .size = 2},
	                         .cluster = k,
	                         .clusters = K,
	                         .cluster_sizes = sizes};
	char *folder = path_join(model, name);
	json_t *stamp = json_object();
	struct path_choice c;
	struct err e = {0};

	assert_int_equal(path_choice_parse(path, &c, &e), 0);
	m.net.clusters = k < 0 ? K : 0;
	m.betas = c.betas;
	m.sigma_data = c.sigma_data;
	snprintf(m.path, sizeof m.path, "%s", c.config);
	snprintf(m.prediction, sizeof m.prediction, "%s", prediction);
	if (dir_make(model, &e) || law_model_write(folder, &m, &s, stamp, &e))
		fail_msg("%s", e.msg);
	json_decref(stamp);
	mem_free(folder);
}

/* Two EDM experts with different deviations beside a flow and a DDPM expert, with a router on EDM's path for a third deviation. The mixture is the
 * velocity of the whole set, computed from its exact posterior mean. The expert's input, its output and x0hat are rounded to float, and v divides
 * their errors by t; DDPM's epsilon also multiplies them by (1 - t)/t. */
static void two_deviations_in_one_ensemble(void **state)
{
	const struct exact truth = {.n = N, .d = D, .clusters = K, .mean = points, .cluster = cluster_of};
	struct device *dev = device_cpu(NULL, DT_F32);
	struct ensemble_options o = {.policy = policy_of("full"), .capacity = 1, .device = dev};
	char *model = path_join(dir, "model");
	struct ensemble s;
	struct err e = {0};
	struct mixer *x;
	int shared = 0;

	(void)state;
	rng_normal(points, N * D, 11, RNG_TEST, 0, 0);
	write_member(model, "expert_0", 0, "edm:2", "edm");
	write_member(model, "expert_1", 1, "edm:.25", "edm");
	write_member(model, "expert_2", 2, "linear", "velocity");
	write_member(model, "expert_3", 3, "ddpm", "epsilon");
	write_member(model, "router", -1, "edm:1", "");
	if (ensemble_open(&s, model, &o, &e))
		fail_msg("%s", e.msg);
	struct mixture m = {.k = s.k, .d = s.d, .expert = s.expert, .router = &s.router, .policy = o.policy, .cfg = 1, .device = dev};

	assert_int_equal(s.k, K);
	assert_non_null(x = mixer_new(&m, 1, &e));
	for (double t = .05; t < .98; t += .03)
		for (int n = 0; n < N; n++) {
			struct path_point p = path_at(&path_linear, t);
			float in[D], eps[D], v[D];
			double want[D];

			rng_normal(eps, D, 12, RNG_TEST, 0, (uint64_t)n);
			path_noise(&p, in, points + n * D, eps, D);
			if (mixer_velocity(x, v, &(struct mixture_call){.n = 1, .t = t, .x = in}, NULL, &e))
				fail_msg("%s", e.msg);
			exact_velocity(&truth, (float)t, EXACT_ALL, in, want);
			for (int j = 0; j < D; j++)
				assert_true(fabs(v[j] - want[j]) < 1e-5 / t);
			for (int k = 0; k < K; k++)
				shared += mixer_weights(x)[k] > .05 && mixer_weights(x)[k] < .95;
		}
	/* The experts are really mixed: often more than one has weight. */
	assert_true(shared > 100);
	mixer_free(x);
	ensemble_release(&s);
	device_free(dev);
	mem_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_usual_deviation),
	    cmocka_unit_test(preconditioning),
	    cmocka_unit_test(derivatives),
	    cmocka_unit_test(unit_variance),
	    cmocka_unit_test(optimum_of_normal_data),
	    cmocka_unit_test(conversion),
	    cmocka_unit_test(names),
	    cmocka_unit_test(in_config_json),
	    cmocka_unit_test(two_deviations_in_one_ensemble),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
