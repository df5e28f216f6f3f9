/* diffusion/objective: names, weights, laws of time; the optimum of every objective on a finite set, and such experts in ensembles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/finite.h"
#include "diffusion/lawmodel.h"
#include "diffusion/objective.h"
#include "diffusion/sampler.h"
#include "diffusion/solverchoice.h"
#include "tests/unit/exact.h"
#include "tests/unit/scratch.h"

/* Every path, and EDM's for data of other deviations. */
static const char *const path_texts[] = {"linear", "cosine", "ddpm", "scaled-linear", "gvp", "edm", "edm:.25", "edm:2"};
enum { PATHS = sizeof path_texts / sizeof *path_texts };
static struct path_choice choices[PATHS];
static struct schedule tables[PATHS];
static const struct path *paths[PATHS];

static int set_up(void **state)
{
	for (int i = 0; i < PATHS; i++) {
		if (path_choice_parse(path_texts[i], &choices[i], NULL))
			return -1;
		paths[i] = path_choice_open(&choices[i], &tables[i]);
	}
	return make_dir(state);
}

static int tear_down(void **state)
{
	for (int i = 0; i < PATHS; i++)
		schedule_release(&tables[i]);
	return remove_dir(state);
}

static void names(void **state)
{
	static const struct {
		const char *text, *name;
		double by;
	} weightings[] = {{"none", "none", 0}, {"velocity", "velocity", 0}, {"min-snr", "min-snr", 5},     {"min-snr:3.5", "min-snr", 3.5},
	                  {"edm", "edm", 0},   {"edm:1", "edm", 1},         {"sigmoid:-2", "sigmoid", -2}, {"sigmoid", "sigmoid", 0}};
	static const struct {
		const char *text, *name;
		double mean, std;
	} laws[] = {{"uniform", "uniform", 0, 0},          {"logit-normal", "logit-normal", 0, 1},     {"logit-normal:-.5,2", "logit-normal", -.5, 2},
	            {"lognormal", "lognormal", -1.2, 1.2}, {"lognormal:.25,.5", "lognormal", .25, .5}, {"discrete", "discrete", 0, 0}};
	static const char *const wrong[] = {"", "min", "noneone", "nonesuch"};
	static const char *const wrong_weighting[][2] = {
	    {"min-snr:", "'min-snr:' is not min-snr[:GAMMA] with GAMMA a number from 0.001 to 1000000"},
	    {"min-snr:0", "'min-snr:0' is not min-snr[:GAMMA] with GAMMA a number from 0.001 to 1000000"},
	    {"min-snr:1,2", "'min-snr:1,2' is not min-snr[:GAMMA] with GAMMA"},
	    {"min-snr:x", "'min-snr:x' is not min-snr[:GAMMA] with GAMMA"},
	    {"sigmoid:21", "'sigmoid:21' is not sigmoid[:BIAS] with BIAS a number from -20 to 20"},
	    {"none:1", "'none:1' is not none, which takes no number"},
	};
	static const char *const wrong_law[][2] = {
	    {"logit-normal:1", "'logit-normal:1' is not logit-normal[:MEAN,STD] with MEAN a number from -20 to 20, STD a number from 0.001 to 20"},
	    {"logit-normal:0,0", "'logit-normal:0,0' is not logit-normal[:MEAN,STD] with MEAN"},
	    {"lognormal:1,2,3", "'lognormal:1,2,3' is not lognormal[:MEAN,STD] with MEAN"},
	    {"uniform:0,1", "'uniform:0,1' is not uniform, which takes no number"},
	    {"discrete:5", "'discrete:5' is not discrete, which takes no number"},
	};
	struct weighting w;
	struct path_choice choice;
	struct time_law law;
	struct err e;
	int numbered;

	(void)state;
	for (size_t i = 0; i < sizeof weightings / sizeof *weightings; i++) {
		assert_int_equal(weighting_parse(weightings[i].text, &w, &e), 0);
		assert_string_equal(weighting_name(&w, &numbered), weightings[i].name);
		assert_true(w.by == weightings[i].by && numbered == (i >= 2));
	}
	for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
		assert_int_equal(time_law_parse(laws[i].text, &law, &e), 0);
		assert_string_equal(time_law_name(&law, &numbered), laws[i].name);
		assert_true(law.mean == laws[i].mean && law.std == laws[i].std && numbered == (laws[i].std > 0));
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		e = (struct err){0};
		assert_int_equal(weighting_parse(wrong[i], &w, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, "none, velocity, min-snr[:GAMMA], edm[:STD], sigmoid[:BIAS]"));
		e = (struct err){0};
		assert_int_equal(time_law_parse(wrong[i], &law, &e), -1);
		assert_non_null(strstr(e.msg, "uniform, logit-normal[:MEAN,STD], lognormal[:MEAN,STD], discrete"));
	}
	for (size_t i = 0; i < sizeof wrong_weighting / sizeof *wrong_weighting; i++) {
		e = (struct err){0};
		assert_int_equal(weighting_parse(wrong_weighting[i][0], &w, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, wrong_weighting[i][1]));
	}
	for (size_t i = 0; i < sizeof wrong_law / sizeof *wrong_law; i++) {
		e = (struct err){0};
		assert_int_equal(time_law_parse(wrong_law[i][0], &law, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, wrong_law[i][1]));
	}
	for (int i = 0; path_choice_names[i]; i++)
		assert_string_equal(path_choice_names[i], choices[i].name);
	assert_string_equal(choices[2].config, "linear_betas");
	assert_int_equal(path_choice_parse("linear_betas", &choice, &e), -1);
	/* Defaults need no words. */
	w = (struct weighting){WEIGHTING_VELOCITY, 0};
	assert_int_equal(weighting_reduced(w, PREDICT_X0).kind, WEIGHTING_USUAL);
	assert_int_equal(weighting_reduced(w, PREDICT_EPSILON).kind, WEIGHTING_VELOCITY);
	w.kind = WEIGHTING_NONE;
	assert_int_equal(weighting_reduced(w, PREDICT_EPSILON).kind, WEIGHTING_USUAL);
	assert_int_equal(weighting_reduced(w, PREDICT_X0).kind, WEIGHTING_NONE);
}

/* On the linear path an error e of the velocity is an error t e of x0 and (1 - t) e of epsilon. The published weights are converted accordingly. */
static void weights(void **state)
{
	struct weighting none = {WEIGHTING_NONE, 0}, snr = {WEIGHTING_MIN_SNR, 5}, edm = {WEIGHTING_EDM, .5}, sigmoid = {WEIGHTING_SIGMOID, -1.5};

	(void)state;
	for (double t = .03; t < 1; t += .04) {
		double u = 1 - t, x0 = t * t, eps = u * u, s = t / u;

		for (int i = 0; i < PATHS; i++)
			for (int k = 0; k < PREDICTIONS; k++)
				assert_true(weighting_at(&none, paths[i], (enum prediction)k, t) == 1);
		assert_true(fabs(weighting_at(&snr, &path_linear, PREDICT_VELOCITY, t) - fmin(eps, 5 * x0)) < 1e-12);
		assert_true(fabs(weighting_at(&snr, &path_linear, PREDICT_X0, t) - fmin(eps / x0, 5)) < 1e-9);
		assert_true(fabs(weighting_at(&snr, &path_linear, PREDICT_EPSILON, t) - fmin(1, 5 * x0 / eps)) < 1e-12);
		assert_true(fabs(weighting_at(&edm, &path_linear, PREDICT_VELOCITY, t) - (eps + x0 / .25)) < 1e-12);
		assert_true(fabs(weighting_at(&edm, &path_linear, PREDICT_X0, t) / ((s * s + .25) / (s * .5 * s * .5)) - 1) < 1e-12);
		assert_true(fabs(weighting_at(&sigmoid, &path_linear, PREDICT_VELOCITY, t) - t * u / (exp(1.5) * eps + x0)) < 1e-12);
	}
	/* Where alpha^2 + sigma^2 = 1, min-SNR of v_prediction is min(SNR, gamma) / (SNR + 1) (Hang et al. 2023). */
	for (double t = .05; t < 1; t += .05) {
		double r = exp(path_at(&path_cosine, t).logsnr);

		assert_true(fabs(weighting_at(&snr, &path_cosine, PREDICT_ANGULAR, t) - fmin(r, 5) / (r + 1)) < 1e-12);
	}
	/* Finite and not negative everywhere, the ends included. */
	for (int i = 0; i < PATHS; i++)
		for (int k = 0; k < PREDICTIONS; k++)
			for (int w = WEIGHTING_USUAL; w <= WEIGHTING_SIGMOID; w++)
				for (double t = 0; t <= 1; t += 1. / 512) {
					const struct weighting one = {(enum weighting_kind)w, .5};
					double at = fmin(fmax(t, paths[i]->lo), paths[i]->hi),
					       v = weighting_at(&one, paths[i], (enum prediction)k, at);

					assert_true(isfinite((float)v) && v >= 0);
				}
}

static void times(void **state)
{
	enum { DRAWS = 4000 };
	const struct time_law uniform = {TIME_UNIFORM, 0, 0}, discrete = {TIME_DISCRETE, 0, 0}, logit = {TIME_LOGIT_NORMAL, -1.2, 1.2};
	const struct time_law normal = {TIME_LOGNORMAL, -1.2, 1.2};

	(void)state;
	for (int i = 0; i < PATHS; i++) {
		const struct path *p = paths[i];
		const struct schedule *s = schedule_of(p);
		double sum = 0, steps = s ? (double)s->steps : 1000, least = 1, most = 0;

		for (uint64_t k = 0; k < DRAWS; k++) {
			double u = time_sample(&uniform, NULL, p, 5, RNG_TEST, 0, k), d = time_sample(&discrete, NULL, p, 5, RNG_TEST, 0, k);
			double l = time_sample(&logit, NULL, &path_linear, 5, RNG_TEST, 0, k), g = time_sample(&normal, NULL, p, 5, RNG_TEST, 0, k);
			double logsnr = path_at(&path_linear, l).logsnr, nearest = rint(d * steps);

			assert_true(u >= p->lo && u <= p->hi && d >= p->lo && d <= p->hi && g >= p->lo && g <= p->hi);
			sum += (u - p->lo) / (p->hi - p->lo);
			assert_true(fabs(d * steps - nearest) < 1e-9);
			least = fmin(least, d);
			most = fmax(most, d);
			/* The same draw of sigma/alpha on every path: on the linear one a logit-normal time. */
			if (logsnr < path_at(p, p->lo).logsnr && logsnr > path_at(p, p->hi).logsnr)
				assert_true(fabs(path_at(p, g).logsnr - logsnr) < 1e-6 * fmax(1, fabs(logsnr)));
			else
				assert_true(g == p->lo || g == p->hi);
		}
		assert_true(fabs(sum / DRAWS - .5) < 5 * sqrt(1. / 12 / DRAWS));
		/* 4000 draws include some of the first and the last of a thousand steps. */
		assert_true(least < p->lo + 5 / steps && most > p->hi - 5 / steps);
	}
}

/* A finite set of five points in four dimensions. */
enum { N = 5, D = 4 };
static const float points[N * D] = {.9f, -.4f, .2f, .7f, -.8f, .5f, .1f, -.6f, .3f, .8f, -.9f, 0, -.2f, -.7f, .6f, -1, 1, .1f, .4f, -.3f};
static const int64_t all[2] = {0, N};
static const struct finite_set set = {.n = N, .d = D, .sample = points, .clusters = 1, .first = all};

/* Given x_t = x the sample is j with probability p_j, which determines the noise, so the expected loss of a prediction is a finite sum. For every
 * weight it is minimal at law_predict, where it equals the weighted posterior variance of the target. */
static void optimum_given_x(void **state)
{
	static const char *const weightings[] = {"none", "velocity", "min-snr", "edm", "sigmoid:-1"};
	struct law *f = finite_new(&set, NULL, NULL);
	int checked = 0;

	(void)state;
	for (int i = 0; i < PATHS; i++)
		for (int k = 0; k < PREDICTIONS; k++)
			for (int w = 0; w < 5; w++)
				for (double u = .1; u < .95; u += .2) {
					struct objective_def o = {.prediction = (enum prediction)k};
					float t = (float)(paths[i]->lo + u * (paths[i]->hi - paths[i]->lo)), x[D], best[D];
					double post[N], sum = 0, top = -INFINITY, gradient[D] = {0}, size = 0, second = 0;
					struct objective_point p;

					assert_int_equal(weighting_parse(weightings[w], &o.weighting, NULL), 0);
					p = objective_at(&o, paths[i], t);
					assert_true(p.weight > 0);
					for (int j = 0; j < D; j++)
						x[j] = (float)(p.at.alpha * points[D + j] + p.at.sigma * (.3 * j - .5));
					law_predict(f, LAW_ALL, paths[i], o.prediction, 1, x, &t, best);
					for (int n = 0; n < N; n++) {
						post[n] = 0;
						for (int j = 0; j < D; j++)
							post[n] -= pow((x[j] - p.at.alpha * points[n * D + j]) / p.at.sigma, 2) / 2;
						top = fmax(top, post[n]);
					}
					for (int n = 0; n < N; n++)
						sum += post[n] = exp(post[n] - top);
					for (int n = 0; n < N; n++)
						for (int j = 0; j < D; j++) {
							double eps = (x[j] - p.at.alpha * points[n * D + j]) / p.at.sigma;
							double target = p.from_x0 * points[n * D + j] + p.from_eps * eps;

							gradient[j] += 2 * p.weight * post[n] / sum * (best[j] - target);
							size += p.weight * post[n] / sum * fabs(target);
							second += p.weight * post[n] / sum;
						}
					/* best is rounded to float. */
					for (int j = 0; j < D; j++)
						assert_true(fabs(gradient[j]) < 1e-6 * (size + second));
					checked++;
				}
	assert_true(checked == PATHS * PREDICTIONS * 5 * 5);
	law_free(f);
}

/* Over fixed draws of (x0, eps) at one time, as the trainer makes them: the mean loss of the optimal prediction is the mean of the closed form
 * (the weighted posterior variance), and its derivative along the prediction itself vanishes; both to five standard errors. */
static void optimum_over_draws(void **state)
{
	enum { DRAWS = 4000 };
	struct law *f = finite_new(&set, NULL, NULL);

	(void)state;
	for (int i = 0; i < PATHS; i++)
		for (int k = 0; k < PREDICTIONS; k++) {
			struct objective_def o = {.prediction = (enum prediction)k, .weighting = {WEIGHTING_MIN_SNR, 5}};
			float t = (float)(.6 * paths[i]->hi + .4 * paths[i]->lo), x[D], eps[D], target[D], best[D];
			struct objective_point p = objective_at(&o, paths[i], t);
			double slope[2] = {0}, gap[2] = {0};

			for (uint64_t n = 0; n < DRAWS; n++) {
				const float *x0 = points + D * (int64_t)rng_below(N, 9, RNG_TEST, 0, n, 0);
				double mean[D], a, b, mass, loss = 0, along = 0, expected = 0;

				rng_normal(eps, D, 9, RNG_TEST, 1, n);
				path_noise(&p.at, x, x0, eps, D);
				path_target(&p.at, o.prediction, target, x0, eps, D);
				law_predict(f, LAW_ALL, paths[i], o.prediction, 1, x, &t, best);
				law_posterior(f, LAW_ALL, 1, x, &p.at, &mass, mean);
				prediction_relate(&p.at, PREDICT_X0, o.prediction, &a, &b);
				for (int j = 0; j < D; j++) {
					loss += p.weight * pow(best[j] - target[j], 2);
					along += 2 * p.weight * (best[j] - target[j]) * best[j];
				}
				/* E[x0^2 | x] - mean^2, computed from the posterior. */
				for (int j = 0; j < D; j++) {
					double sum = 0, square = 0;

					for (int m = 0; m < N; m++) {
						double q = 0;

						for (int l = 0; l < D; l++)
							q += pow((x[l] - p.at.alpha * points[m * D + l]) / p.at.sigma, 2) / 2;
						sum += exp(-q);
						square += exp(-q) * points[m * D + j] * points[m * D + j];
					}
					expected += p.weight * b * b * (square / sum - mean[j] * mean[j]);
				}
				slope[0] += along / DRAWS;
				slope[1] += along * along / DRAWS;
				gap[0] += (loss - expected) / DRAWS;
				gap[1] += (loss - expected) * (loss - expected) / DRAWS;
			}
			assert_true(fabs(slope[0]) < 5 * sqrt(slope[1] / DRAWS) + 1e-6);
			assert_true(fabs(gap[0]) < 5 * sqrt(gap[1] / DRAWS) + 1e-6);
		}
	law_free(f);
}

/* A model of *count exact experts of the whole set, one for each path and prediction. Caller frees. */
static char *make_model(const char *name, int only_path, int *count)
{
	char *model = str_new("%s/%s", dir, name);
	json_t *stamp = json_object();
	struct err e = {0};

	*count = 0;
	for (int i = 0; i < PATHS; i++)
		for (int k = 0; k < PREDICTIONS && (only_path < 0 || i == only_path); k++) {
			const struct path_choice *c = &choices[i];
			struct model_config m = {.net = {.def = net_exact_of(NET_EXPERT), .channels = 1, .out_channels = 1, .size = 2},
			                         .cluster = -1,
			                         .betas = c->betas,
			                         .sigma_data = c->sigma_data};
			char *expert = str_new("%s/expert_%d", model, (*count)++);

			snprintf(m.path, sizeof m.path, "%s", c->config);
			snprintf(m.prediction, sizeof m.prediction, "%s", prediction_name((enum prediction)k));
			if (dir_make(model, &e) || law_model_write(expert, &m, &set, stamp, &e))
				fail_msg("%s", e.msg);
			mem_free(expert);
		}
	json_decref(stamp);
	return model;
}

static const struct exact truth = {.n = N, .d = D, .clusters = 1, .mean = points};

/* |out - want| / |want| of rows of D. */
static double error_of(const float *out, const double *want)
{
	double num = 0, den = 0;

	for (int j = 0; j < D; j++) {
		num += (out[j] - want[j]) * (out[j] - want[j]);
		den += want[j] * want[j];
	}
	return sqrt(num / den);
}

/* Whether the path has this log-SNR. */
static int inside(const struct path *p, double logsnr)
{
	return logsnr < path_at(p, p->lo).logsnr && logsnr > path_at(p, p->hi).logsnr;
}

/* Every objective's optimal expert is the same velocity in a mixed ensemble. 1e-5: the input, the prediction and x0hat are rounded to float,
 * and x0 from epsilon multiplies that by (1 - t)/t or t/(1 - t), at most 20 here. */
static void mixed_ensemble(void **state)
{
	int count, compared = 0;
	char *model = make_model("mixed", -1, &count);
	struct device *dev = device_cpu(NULL, DT_F32);
	struct ensemble_options o = {.policy = policy_of("prior"), .capacity = 1, .device = dev};
	struct ensemble s;
	struct err e = {0};

	(void)state;
	if (ensemble_open(&s, model, &o, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s.k, count);
	for (float t = .05f; t < .96f; t += .1f) {
		float x[D], v[D];
		double want[D];

		for (int j = 0; j < D; j++)
			x[j] = (1 - t) * points[2 * D + j] + t * (.4f - .3f * (float)j);
		exact_velocity(&truth, t, EXACT_ALL, x, want);
		for (int k = 0; k < count; k++) {
			if (!inside(paths[k / PREDICTIONS], path_at(&path_linear, t).logsnr))
				continue;
			assert_int_equal(s.expert[k].velocity(s.expert[k].arg, 1, x, &t, NULL, v, &e), 0);
			assert_true(error_of(v, want) < 1e-5);
			compared++;
		}
	}
	assert_true(compared > 9 * count);
	ensemble_release(&s);
	device_free(dev);
	mem_free(model);
}

/* On their own path, as solvers of discrete time use them: the experts of a path are converted to one prediction at the schedule's x, for which
 * alpha^2 + sigma^2 is 1, unlike on some paths. */
static void own_path(void **state)
{
	(void)state;
	for (int i = 0; i < PATHS; i++) {
		int count;
		char *name = str_new("own-%d", i), *model = make_model(name, i, &count);
		struct device *dev = device_cpu(NULL, DT_F32);
		struct ensemble_options o = {.policy = policy_of("prior"), .capacity = 1, .device = dev, .own = 1};
		struct ensemble s;
		struct err e = {0};

		if (ensemble_open(&s, model, &o, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(s.kind, PREDICT_EPSILON);
		for (int64_t step = 50; step < s.schedule->steps; step += 100) {
			float t = (float)schedule_time(s.schedule, (double)step), x[D], out[D];
			struct path_point p = path_at(&s.schedule->path, t);
			double want[D];

			assert_true(fabs(p.alpha * p.alpha + p.sigma * p.sigma - 1) < 1e-12);
			if (p.alpha > 20 * p.sigma)
				continue;
			for (int j = 0; j < D; j++)
				x[j] = (float)(p.alpha * points[3 * D + j] + p.sigma * (.4 - .3 * j));
			exact_moments(&truth, &s.schedule->path, t, EXACT_ALL, x, NULL, want);
			for (int k = 0; k < count; k++) {
				assert_int_equal(s.expert[k].velocity(s.expert[k].arg, 1, x, &t, NULL, out, &e), 0);
				/* epsilon from x0 multiplies float rounding by alpha/sigma. */
				assert_true(error_of(out, want) < 1e-5);
			}
		}
		ensemble_release(&s);
		device_free(dev);
		mem_free(model);
		mem_free(name);
	}
}

/* The same for experts of different paths, which are evaluated at equal log-SNR and converted to x0. */
static void own_path_of_many(void **state)
{
	int count, compared = 0;
	char *model = make_model("mixed", -1, &count);
	struct device *dev = device_cpu(NULL, DT_F32);
	struct ensemble_options o = {.policy = policy_of("prior"), .capacity = 1, .device = dev, .own = 1};
	struct ensemble s;
	struct err e = {0};

	(void)state;
	if (ensemble_open(&s, model, &o, &e))
		fail_msg("%s", e.msg);
	assert_true(s.k == count && s.kind == PREDICT_X0 && s.out == D);
	for (int64_t step = 50; step < s.schedule->steps - 50; step += 100) {
		float t = (float)schedule_time(s.schedule, (double)step), x[D], out[D];
		struct path_point p = path_at(&s.schedule->path, t);
		double want[D];

		for (int j = 0; j < D; j++)
			x[j] = (float)(p.alpha * points[3 * D + j] + p.sigma * (.4 - .3 * j));
		exact_moments(&truth, &s.schedule->path, t, EXACT_ALL, x, want, NULL);
		for (int k = 0; k < count; k++) {
			if (!inside(paths[k / PREDICTIONS], p.logsnr))
				continue;
			assert_int_equal(s.expert[k].velocity(s.expert[k].arg, 1, x, &t, NULL, out, &e), 0);
			/* x0 from epsilon multiplies float rounding by sigma/alpha, at most 20 here. */
			assert_true(error_of(out, want) < 1e-5);
			compared++;
		}
	}
	assert_true(compared > 7 * count);
	ensemble_release(&s);
	device_free(dev);
	mem_free(model);
}

/* n pictures of expert 0 of `model`. */
static void draw(const char *model, const char *solver, int64_t steps, int n, float *x)
{
	struct device *dev = device_cpu(NULL, DT_F32);
	struct solver_choice c;
	struct ensemble s;
	struct err e = {0};
	int64_t index[64];

	assert_int_equal(solver_parse(solver, &c, &e), 0);
	struct ensemble_options o = {.policy = policy_of("expert:0"), .capacity = n, .device = dev, .own = c.discrete};

	if (ensemble_open(&s, model, &o, &e))
		fail_msg("%s", e.msg);
	struct mixture m = {.k = s.k,
	                    .d = s.d,
	                    .expert = s.expert,
	                    .policy = o.policy,
	                    .cfg = 1,
	                    .device = dev,
	                    .out = c.discrete ? s.out : 0,
	                    .own = c.discrete ? &s.schedule->path : NULL};
	struct sampler sm = {.mixture = &m,
	                     .solver = {c.kind, steps, 1, 0},
	                     .discrete = c.discrete ? &c.how : NULL,
	                     .schedule = s.schedule,
	                     .kind = s.kind,
	                     .seed = 3,
	                     .batch = n};
	struct sampler_state *st = sampler_new(&sm, &e);

	if (!st)
		fail_msg("%s", e.msg);
	for (int i = 0; i < n; i++)
		index[i] = i;
	if (sampler_run(st, x, &(struct sampler_call){.n = n, .index = index}, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	sampler_free(st);
	ensemble_release(&s);
	device_free(dev);
}

/* The mean distance of the pictures to the nearest point of the set, at which the flow must end. */
static double off(const float *x, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		double least = INFINITY;

		for (int k = 0; k < N; k++) {
			double q = 0;

			for (int j = 0; j < D; j++)
				q += pow(x[i * D + j] - points[k * D + j], 2);
			least = fmin(least, sqrt(q));
		}
		sum += least / n;
	}
	return sum;
}

/* Solvers of discrete time sample a flow expert, on the linear path and on gvp, at equal log-SNR: the pictures are those of the flow with many small
 * steps, and a higher order is closer with the same number of steps. The median ignores pictures whose trajectories diverge near the border between
 * two points. */
static void flows_by_dpm(void **state)
{
	enum { PICTURES = 32 };
	static const char *const solvers[] = {"dpm++2m", "dpm++1", "ddim,spacing=trailing", "dpm++2s", "euler-discrete"};

	(void)state;
	for (int i = 0; i < PATHS; i++) {
		float flow[PICTURES * D], x[PICTURES * D];
		int count;
		char *name = str_new("draw-%d", i), *model = make_model(name, i, &count);

		draw(model, "heun", 400, PICTURES, flow);
		assert_true(off(flow, PICTURES) < .01);
		for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++) {
			int near = 0;

			draw(model, solvers[k], 40, PICTURES, x);
			for (int p = 0; p < PICTURES; p++) {
				double q = 0;

				for (int j = 0; j < D; j++)
					q += pow(x[p * D + j] - flow[p * D + j], 2);
				near += q < .05 * .05;
			}
			print_message("%s %s: %d of %d where the flow ends, %.4f off the set\n", path_texts[i], solvers[k], near, PICTURES,
			              off(x, PICTURES));
			assert_true(off(x, PICTURES) < .02);
			assert_true(near >= PICTURES * 3 / 4);
		}
		mem_free(model);
		mem_free(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(weights),
	    cmocka_unit_test(times),
	    cmocka_unit_test(optimum_given_x),
	    cmocka_unit_test(optimum_over_draws),
	    cmocka_unit_test(mixed_ensemble),
	    cmocka_unit_test(own_path),
	    cmocka_unit_test(own_path_of_many),
	    cmocka_unit_test(flows_by_dpm),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
