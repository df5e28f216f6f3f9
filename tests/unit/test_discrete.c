/* diffusion/discrete: every solver against diffusers' schedulers, the values of their tests, and closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/torchrng.h"
#include "diffusion/scheduler.h"
#include "diffusion/solverchoice.h"
#include "tests/golden/discrete_values.h"
#include "tests/unit/exact.h"

enum { B = 4, COLS = 192, N = B * COLS };

/* The dummy network of the tests of diffusers' schedulers, with a variance if requested. */
struct dummy {
	struct torch_rng rng;
	const struct schedule *s;
	int64_t out_cols;
	double scale; /* of the step's output */
	float *x;
	const struct discrete_plan *plan;
};

static int dummy_field(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	const struct dummy *d = arg;
	double t = time * d->s->unit, f = t / (t + 1);

	(void)step;
	(void)e;
	for (int64_t b = 0; b < B; b++)
		for (int64_t i = 0; i < d->out_cols; i++) {
			float v = x[b * COLS + i % COLS];

			out[b * d->out_cols + i] = i < COLS ? (float)(v * f) : (float)(.1 * v - .3);
		}
	return 0;
}

static int torch_noise(void *arg, float *z, int64_t step, struct err *e)
{
	struct dummy *d = arg;

	(void)step;
	(void)e;
	torch_randn(&d->rng, z, N);
	return 0;
}

/* arange(768) / 768 laid out (C, H, W, B), as (B, C, H, W). */
static void start(float *x)
{
	for (int64_t b = 0; b < B; b++)
		for (int64_t i = 0; i < COLS; i++)
			x[b * COLS + i] = (float)(i * B + b) / N;
}

static void solve(const char *solver, const char *path, const struct betas *betas, const char *kind, int64_t steps, int learned,
                  discrete_field *field, float *x)
{
	struct device *d = device_cpu(NULL, DT_F32);
	int64_t out_cols = learned ? 2 * COLS : COLS;
	float *work = mem_zalloc((size_t)discrete_work(B, COLS, out_cols), sizeof *work);
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	struct dummy net = {.s = &s, .out_cols = out_cols, .x = x, .plan = &p};
	struct discrete_run r = {d, B, COLS, out_cols, field, torch_noise, &net};

	torch_seed(&net.rng, 0);
	assert_int_equal(schedule_init(&s, path, betas, NULL), 0);
	assert_int_equal(solver_parse(solver, &c, NULL), 0);
	assert_true(c.discrete);
	assert_int_equal(discrete_plan_make(&p, &c.how, steps, &s, (enum prediction)prediction_find(kind), learned, NULL), 0);
	start(x);
	/* The work space begins with NaN, because unwritten parts must not be read. */
	memset(work, 0xff, (size_t)discrete_work(B, COLS, out_cols) * sizeof *work);
	assert_int_equal(discrete_solve(&p, &r, x, work, NULL), 0);
	discrete_plan_release(&p);
	schedule_release(&s);
	mem_free(work);
	device_free(d);
}

static const struct betas linear = {1000, 1e-4, .02, NULL}, scaled = {1000, .00085, .012, NULL};

/* diffusers computes tables, coefficients and steps in float. Products of a thousand alphas, and differences of exp and log, have relative errors of
 * about 1e-5, which steps of low order at high noise multiply. */
static void as_diffusers(void **state)
{
	static float x[N];
	double worst = 0;

	(void)state;
	for (size_t i = 0; i < sizeof golden_discrete / sizeof *golden_discrete; i++) {
		double scale = 1, error = 0;

		solve(golden_discrete[i].solver, golden_discrete[i].path, strcmp(golden_discrete[i].path, "linear_betas") ? &scaled : &linear,
		      golden_discrete[i].prediction, golden_discrete[i].steps, golden_discrete[i].learned, dummy_field, x);
		for (int k = 0; k < 8; k++) {
			scale = fmax(scale, fabs(golden_discrete[i].at[k]));
			error = fmax(error, fabs(x[109 * k] - golden_discrete[i].at[k]));
		}
		if (error > 2e-4 * scale)
			print_message("%s on %s, %s, %d steps: %g of %g\n", golden_discrete[i].solver, golden_discrete[i].path,
			              golden_discrete[i].prediction, (int)golden_discrete[i].steps, error, scale);
		worst = fmax(worst, error / scale);
	}
	assert_true(worst < 2e-4);
}

/* Sums and means of whole loops from tests/schedulers of diffusers 0.42, with its tolerances of 1e-2 and 1e-3. */
static void published_values(void **state)
{
	static const struct {
		const char *solver, *prediction;
		int64_t steps;
		double sum, mean; /* 0: unknown */
	} v[] = {
	    {"ddim,clip=1", "epsilon", 10, 172.0067, .223967},
	    {"ddpm,clip=1", "epsilon", 1000, 258.9606, .3372},
	    {"dpm++2m,final=min,lower=no", "epsilon", 10, 0, .3301},
	};
	static float x[N];

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		double sum = 0;

		solve(v[i].solver, "linear_betas", &linear, v[i].prediction, v[i].steps, 0, dummy_field, x);
		for (int k = 0; k < N; k++)
			sum += fabs(x[k]);
		if (v[i].sum > 0)
			assert_true(fabs(sum - v[i].sum) < 1e-2);
		assert_true(fabs(sum / N - v[i].mean) < 1e-3);
	}
}

/* scheduler_config.json with many keys, and the keys that are refused. */
static void schedulers(void **state)
{
	static const struct {
		const char *json, *solver; /* NULL: an error that names `key` */
		const char *key;
	} v[] = {
	    {"{'_class_name': 'DDPMScheduler'}", "ddpm,spacing=leading,clip=1,variance=small", NULL},
	    {"{'_class_name': 'DDPMParallelScheduler', 'clip_sample': false, 'variance_type': 'fixed_large_log', 'timestep_spacing': 'trailing'}",
	     "ddpm,spacing=trailing,variance=large", NULL},
	    {"{'_class_name': 'DDPMScheduler', 'variance_type': 'learned_range', 'clip_sample_range': 2.5, 'thresholding': false}",
	     "ddpm,spacing=leading,clip=2.5,variance=learned", NULL},
	    {"{'_class_name': 'DDIMScheduler', 'set_alpha_to_one': false, 'steps_offset': 1, 'clip_sample': false}",
	     "ddim,spacing=leading,offset=1,final=min", NULL},
	    {"{'_class_name': 'EulerDiscreteScheduler', 'use_karras_sigmas': true, 'final_sigmas_type': 'sigma_min', 'interpolation_type': 'linear'}",
	     "euler-discrete,spacing=linspace,final=min,sigmas=karras", NULL},
	    {"{'_class_name': 'DPMSolverMultistepScheduler'}", "dpm++2m,spacing=linspace", NULL},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'solver_order': 1}", "dpm++1,spacing=linspace", NULL},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'solver_order': 3, 'solver_type': 'heun', 'lower_order_final': false,"
	     " 'algorithm_type': 'deis', 'timestep_spacing': 'leading', 'steps_offset': 1}",
	     "dpm++3m,spacing=leading,offset=1,type=heun,lower=no", NULL},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'algorithm_type': 'sde-dpmsolver++', 'solver_type': 'bh2'}",
	     "dpm++2m,spacing=linspace,sde=yes", NULL},
	    {"{'_class_name': 'DPMSolverSinglestepScheduler', 'solver_order': 3}", "dpm++3s,lower=no", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler'}", "euler", NULL},
	    {"{}", NULL, "_class_name"},
	    {"{'_class_name': 'UniPCMultistepScheduler'}", "unipc2,spacing=linspace", NULL},
	    {"{'_class_name': 'UniPCMultistepScheduler', 'solver_order': 3, 'solver_type': 'bh1', 'lower_order_final': false, 'disable_corrector': "
	     "[],"
	     " 'use_karras_sigmas': true, 'timestep_spacing': 'trailing', 'final_sigmas_type': 'sigma_min', 'solver_p': null}",
	     "unipc3,spacing=trailing,final=min,sigmas=karras,type=bh1,lower=no", NULL},
	    {"{'_class_name': 'UniPCMultistepScheduler', 'predict_x0': false}", NULL, "predict_x0"},
	    {"{'_class_name': 'UniPCMultistepScheduler', 'disable_corrector': [0]}", NULL, "disable_corrector"},
	    {"{'_class_name': 'UniPCMultistepScheduler', 'solver_p': {}}", NULL, "solver_p"},
	    {"{'_class_name': 'UniPCMultistepScheduler', 'use_flow_sigmas': true}", NULL, "use_flow_sigmas"},
	    {"{'_class_name': 'PNDMScheduler'}", NULL, "_class_name"},
	    {"{'_class_name': 3}", NULL, "_class_name"},
	    {"{'_class_name': 'DDIMScheduler', 'clip_sample': 'yes'}", NULL, "clip_sample"},
	    {"{'_class_name': 'DDIMScheduler', 'steps_offset': -1}", NULL, "steps_offset"},
	    {"{'_class_name': 'DDIMScheduler', 'rescale_betas_zero_snr': true}", NULL, "rescale_betas_zero_snr"},
	    {"{'_class_name': 'DDPMScheduler', 'variance_type': 'learned'}", NULL, "variance_type"},
	    {"{'_class_name': 'DDPMScheduler', 'timestep_spacing': 3}", NULL, "timestep_spacing"},
	    {"{'_class_name': 'EulerDiscreteScheduler', 'interpolation_type': 'log_linear'}", NULL, "interpolation_type"},
	    {"{'_class_name': 'EulerDiscreteScheduler', 'timestep_type': 'continuous'}", NULL, "timestep_type"},
	    {"{'_class_name': 'EulerDiscreteScheduler', 'sigma_min': 0.1}", NULL, "sigma_min"},
	    {"{'_class_name': 'EulerDiscreteScheduler', 'use_beta_sigmas': true}", NULL, "use_beta_sigmas"},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'lambda_min_clipped': -5.1}", NULL, "lambda_min_clipped"},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'euler_at_final': true}", NULL, "euler_at_final"},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'solver_order': 4}", NULL, "solver_order"},
	    {"{'_class_name': 'DPMSolverMultistepScheduler', 'solver_order': 3, 'algorithm_type': 'sde-dpmsolver++'}", NULL, "solver_order"},
	    {"{'_class_name': 'DPMSolverSinglestepScheduler', 'algorithm_type': 'sde-dpmsolver++'}", NULL, "algorithm_type"},
	    {"{'_class_name': 'DPMSolverSinglestepScheduler', 'solver_order': 1}", NULL, "solver_order"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'shift': 3, 'base_shift': 7}", "euler,shift=3", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_dynamic_shifting': true, 'shift': 3}", "euler,mu=0.63", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_dynamic_shifting': true, 'base_shift': 0.25, 'max_shift': 2,"
	     " 'base_image_seq_len': 512, 'max_image_seq_len': 1536, 'time_shift_type': 'linear', 'shift_terminal': 0.02}",
	     "euler,mu=1.125,law=linear,terminal=0.02", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'shift_terminal': null, 'use_karras_sigmas': true}", "euler,sigmas=karras", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'shift': 0.5, 'use_exponential_sigmas': true, 'use_beta_sigmas': false}",
	     "euler,shift=0.5,sigmas=exponential", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_beta_sigmas': true}", "euler,sigmas=beta", NULL},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_beta_sigmas': true, 'use_karras_sigmas': true}", NULL, "use_beta_sigmas"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'shift': 0}", NULL, "shift"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'invert_sigmas': true}", NULL, "invert_sigmas"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'stochastic_sampling': true}", NULL, "stochastic_sampling"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'shift_terminal': 1}", NULL, "shift_terminal"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_dynamic_shifting': true, 'time_shift_type': 'cubic'}", NULL, "time_shift_type"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_dynamic_shifting': true, 'max_image_seq_len': 256}", NULL, "max_image_seq_len"},
	    {"{'_class_name': 'FlowMatchEulerDiscreteScheduler', 'use_dynamic_shifting': true, 'base_shift': 19, 'max_shift': 20,"
	     " 'max_image_seq_len': 257}",
	     NULL, "use_dynamic_shifting"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		char *text = mem_strdup(v[i].json), quoted[64];
		struct scheduler_solver s;
		struct solver_choice c;
		struct err e = {0};
		json_t *o;

		for (char *p = text; *p; p++)
			*p = *p == '\'' ? '"' : *p;
		o = json_loads(text, 0, NULL);
		assert_non_null(o);
		assert_int_equal(scheduler_solver(&s, o, 1024, "file", &e), v[i].solver ? 0 : -1);
		if (v[i].solver) {
			assert_string_equal(s.text, v[i].solver);
			assert_int_equal(solver_parse(s.text, &c, &e), 0);
		} else {
			assert_int_equal(e.code, ERR_DATA);
			snprintf(quoted, sizeof quoted, "\"%s\"", v[i].key);
			assert_non_null(strstr(e.msg, quoted));
		}
		json_decref(o);
		mem_free(text);
	}
}

/* diffusers' Euler continues from the output of scale_model_input, not from the sample. */
static int scaling_field(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	struct dummy *d = arg;

	dummy_field(arg, out, x, time, step, e);
	if (d->plan->step[step].scale != 1)
		memcpy(d->x, x, N * sizeof *x);
	return 0;
}

static void published_euler(void **state)
{
	static const struct betas long_table = {1100, 1e-4, .02, NULL};
	static float x[N];
	double sum = 0;

	(void)state;
	solve("euler-discrete", "linear_betas", &long_table, "epsilon", 10, 0, scaling_field, x);
	for (int k = 0; k < N; k++)
		sum += fabs(x[k]);
	assert_true(fabs(sum - 10.0807) < 1e-2 && fabs(sum / N - .0131) < 1e-3);
}

/* Gaussian data, for which the probability flow is linear: x(t) = m alpha + z sqrt(alpha^2 s^2 + sigma^2). */
static const float gauss_mean[] = {.8f, -.3f};
static const struct exact gauss = {.n = 1, .d = 2, .clusters = 1, .mean = gauss_mean, .std = .5};

struct perfect {
	const struct schedule *s;
	enum prediction kind;
	int64_t n;
};

static int perfect_field(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	const struct perfect *f = arg;
	struct path_point p = path_at(&f->s->path, time);

	(void)step;
	(void)e;
	for (int64_t i = 0; i < f->n; i++) {
		double x0[2], eps[2];

		exact_moments(&gauss, &f->s->path, time, EXACT_ALL, x + 2 * i, x0, eps);
		for (int j = 0; j < 2; j++)
			out[2 * i + j] = (float)(f->kind == PREDICT_X0        ? x0[j]
			                         : f->kind == PREDICT_EPSILON ? eps[j]
			                                                      : p.alpha * eps[j] - p.sigma * x0[j]);
	}
	return 0;
}

static int philox_noise(void *arg, float *z, int64_t step, struct err *e)
{
	const struct perfect *f = arg;

	(void)e;
	rng_normal(z, (size_t)(2 * f->n), 5, RNG_TEST, (uint64_t)step + 1, 0);
	return 0;
}

/* Sample n pictures with a perfect network; the initial normals are kept in z. */
static void sample(const char *solver, int64_t steps, enum prediction kind, int64_t n, float *x, float *z)
{
	struct device *d = device_cpu(NULL, DT_F32);
	float *work = mem_zalloc((size_t)discrete_work(n, 2, 2), sizeof *work);
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	struct perfect f = {&s, kind, n};
	struct discrete_run r = {d, n, 2, 2, perfect_field, philox_noise, &f};

	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	assert_int_equal(solver_parse(solver, &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, steps, &s, kind, 0, NULL), 0);
	rng_normal(x, (size_t)(2 * n), 5, RNG_TEST, 0, 0);
	memcpy(z, x, (size_t)(2 * n) * sizeof *z);
	assert_int_equal(discrete_solve(&p, &r, x, work, NULL), 0);
	discrete_plan_release(&p);
	schedule_release(&s);
	mem_free(work);
	device_free(d);
}

static double flow_error(const char *solver, int64_t steps, enum prediction kind)
{
	float x[64], z[64];
	double worst = 0;

	sample(solver, steps, kind, 32, x, z);
	for (int i = 0; i < 64; i++) {
		double m = gauss_mean[i % 2], s = .5;

		/* The chain begins at abar_T, where the noise lacks m alpha, and alpha^2 s^2 is below 1e-5 of the variance. */
		worst = fmax(worst, fabs(x[i] - (m + s * (z[i] - m * sqrt(4.0358e-5)))));
	}
	return worst;
}

/* The error of a plan in double, from a point of the flow at the highest noise of the table to the lowest, with Karras' sigmas. x0 is known for every
 * x and sigma, so only the solver's own error remains. */
static double plan_error(const char *solver, int64_t steps)
{
	const double mean = .8, std = .5, z = 1.3;
	char text[64];
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	double hi, lo, x = 0, saved = 0, x0[4] = {0}, error;

	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	snprintf(text, sizeof text, "%s,final=min,lower=no,sigmas=karras", solver);
	assert_int_equal(solver_parse(text, &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, steps, &s, PREDICT_X0, 0, NULL), 0);
	hi = sqrt((1 - s.abar[s.steps - 1]) / s.abar[s.steps - 1]);
	lo = sqrt((1 - s.abar[0]) / s.abar[0]);
	for (int64_t i = 0; i <= steps; i++) {
		double place = fmin((double)i / (double)(steps - 1), 1),
		       ratio = pow(pow(hi, 1 / 7.) + place * (pow(lo, 1 / 7.) - pow(hi, 1 / 7.)), 7);
		double alpha = 1 / hypot(1, ratio), sigma = alpha * ratio, spread = alpha * alpha * std * std + sigma * sigma;
		double truth = mean * alpha + z * sqrt(spread);
		const struct discrete_step *t = &p.step[i < steps ? i : 0];

		if (i == 0)
			x = truth;
		error = fabs(x - truth);
		if (i == steps)
			break;
		x0[3] = x0[2];
		x0[2] = x0[1];
		x0[1] = x0[0];
		x0[0] = mean + alpha * std * std / spread * (x - alpha * mean);
		if (t->correct)
			x = t->corrected_saved * saved + t->corrected[0] * x0[0] + t->corrected[1] * x0[1] + t->corrected[2] * x0[2] +
			    t->corrected[3] * x0[3];
		saved = t->save ? x : saved;
		x = t->x * x + t->saved * saved + t->out * x0[0] + t->x0[0] * x0[0] + t->x0[1] * x0[1] + t->x0[2] * x0[2];
	}
	discrete_plan_release(&p);
	schedule_release(&s);
	return error;
}

/* Half the step divides the error by 2^order. dpm++3m has order 2, as published; dpm++3m-corrected has order 3. */
static void orders(void **state)
{
	static const struct {
		const char *solver;
		double order;
	} v[] = {{"dpm++1", 1},
	         {"dpm++2m", 2},
	         {"dpm++2m,type=heun", 2},
	         {"dpm++3m", 2},
	         {"dpm++3m-corrected", 3},
	         {"dpm++2s", 2},
	         {"dpm++3s", 3},
	         {"dpm++3s,type=heun", 3},
	         {"unipc1", 2},
	         {"unipc1,type=bh1", 2},
	         {"unipc2", 3},
	         {"unipc2,type=bh1", 3},
	         {"unipc3", 4},
	         {"unipc3,type=bh1", 4}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		double a = plan_error(v[i].solver, 97), b = plan_error(v[i].solver, 193), c = plan_error(v[i].solver, 385);

		print_message("%s: order %.2f, %.2f (errors %.2g, %.2g, %.2g)\n", v[i].solver, log2(a / b), log2(b / c), a, b, c);
		assert_true(fabs(log2(b / c) - v[i].order) < .15);
	}
	assert_true(plan_error("dpm++3m-corrected", 385) < plan_error("dpm++3m", 385) / 8);
}

/* Makes a plan on a table of 2^17 steps, and one more for euler-discrete, whose steps then are whole. The table is so fine that a step of the solver
 * is one of the continuous equation; abar falls to .08, so that the end depends on the start. */
static void make_fine(struct schedule *s, struct discrete_plan *p, const char *solver, int64_t steps)
{
	const int64_t most = 1 << 17;
	const struct betas fine = {most + !strncmp(solver, "euler", 5), .1 / (double)most, 5 / (double)most, NULL};
	struct solver_choice c;

	assert_int_equal(schedule_init(s, "linear_betas", &fine, NULL), 0);
	assert_int_equal(solver_parse(solver, &c, NULL), 0);
	assert_int_equal(discrete_plan_make(p, &c.how, steps, s, PREDICT_X0, 0, NULL), 0);
}

/* The error of a solver without noise from one x to the known end of the flow of the data N(mean, std^2), in double. */
static double fine_flow_error(const char *solver, int64_t steps)
{
	const double mean = .8, std = .5, z = 1.3;
	struct schedule s;
	struct discrete_plan p;
	double x = 0;

	make_fine(&s, &p, solver, steps);
	for (int64_t i = 0; i < steps; i++) {
		const struct discrete_step *t = &p.step[i];
		struct path_point at = path_at(&s.path, t->time);
		double spread = at.alpha * at.alpha * std * std + at.sigma * at.sigma, x0;

		if (i == 0)
			x = (mean * at.alpha + z * sqrt(spread)) / t->scale;
		x0 = mean + at.alpha * std * std / spread * (t->scale * x - at.alpha * mean);
		x = t->x * x + (t->x0[0] + t->out) * x0;
	}
	discrete_plan_release(&p);
	schedule_release(&s);
	return fabs(x - (mean + z * std));
}

/* The mean and the mean square of x0 given x, when x0 is drawn from two Gaussians. */
static void two_gaussians(const struct path_point *at, double x, double moment[2])
{
	static const double share[] = {.3, .7}, mean[] = {-.8, .6}, std = .3;
	double spread = at->alpha * at->alpha * std * std + at->sigma * at->sigma, total = 0;

	moment[0] = moment[1] = 0;
	for (int k = 0; k < 2; k++) {
		double off = x - at->alpha * mean[k], w = share[k] * exp(-.5 * off * off / spread),
		       m = mean[k] + at->alpha * std * std / spread * off;

		total += w;
		moment[0] += w * m;
		moment[1] += w * (m * m + std * std * at->sigma * at->sigma / spread);
	}
	moment[0] /= total;
	moment[1] /= total;
}

enum { KNOTS = 1201 };
static const double KNOT_END = 6;

/* Cubic interpolation of f (KNOTS), at even places from -KNOT_END to KNOT_END. */
static double interpolate(const double *f, double x)
{
	double at = (x + KNOT_END) / (2 * KNOT_END) * (KNOTS - 1), u;
	int i = (int)fmin(fmax(floor(at), 1), KNOTS - 3);

	u = at - i;
	return -u * (u - 1) * (u - 2) / 6 * f[i - 1] + (u + 1) * (u - 1) * (u - 2) / 2 * f[i] - (u + 1) * u * (u - 2) / 2 * f[i + 1] +
	       (u + 1) * u * (u - 1) / 6 * f[i + 2];
}

/* The errors of the mean and of the deviation of a chain's end, given its start. The reverse of the noising process ends in the posterior of x0. The
 * expectation of x and of x^2 at the end is computed backwards as a function of x, with five points of Gauss and Hermite for the noise of a step. */
static void chain_errors(const char *solver, int64_t steps, double error[2])
{
	static const double node[] = {0, 1.3556261799742659, -1.3556261799742659, 2.8569700138728056, -2.8569700138728056};
	static const double weight[] = {.5333333333333333, .22207592200561266, .22207592200561266, .011257411327720691, .011257411327720691};
	static double f[2][2][KNOTS];
	const double start = .4;
	struct schedule s;
	struct discrete_plan p;
	struct path_point at;
	double truth[2], got[2];
	int now = 0;

	make_fine(&s, &p, solver, steps);
	for (int j = 0; j < KNOTS; j++) {
		double x = KNOT_END * (2. * j / (KNOTS - 1) - 1);

		f[now][0][j] = x;
		f[now][1][j] = x * x;
	}
	for (int64_t i = steps - 1; i >= 0; i--, now = !now) {
		const struct discrete_step *t = &p.step[i];

		at = path_at(&s.path, t->time);
		for (int j = 0; j < KNOTS; j++) {
			double x = KNOT_END * (2. * j / (KNOTS - 1) - 1), moment[2], to;

			two_gaussians(&at, x, moment);
			to = t->x * x + (t->x0[0] + t->out) * moment[0];
			for (int k = 0; k < 2; k++) {
				double sum = 0;

				for (int q = 0; q < 5; q++)
					sum += weight[q] * interpolate(f[now][k], to + t->noise * node[q]);
				f[!now][k][j] = sum;
			}
		}
	}
	two_gaussians(&at, start, truth);
	for (int k = 0; k < 2; k++)
		got[k] = interpolate(f[now][k], start);
	error[0] = fabs(got[0] - truth[0]);
	error[1] = fabs(sqrt(got[1] - got[0] * got[0]) - sqrt(truth[1] - truth[0] * truth[0]));
	discrete_plan_release(&p);
	schedule_release(&s);
}

/* ddim and euler-discrete are of order 1 on the flow; the mean and the deviation of the samples of ddpm, and of ddim with noise, on the reverse of
 * the noising process. Near t = 0 sigma grows as the root of the step, so the errors of grids that are even in the step have terms log(N) / N, and
 * the measured order is a little below 1. */
static void orders_of_fine_tables(void **state)
{
	static const char *const flows[] = {"ddim,spacing=leading", "ddim,spacing=trailing",        "ddim,spacing=quadratic",
	                                    "euler-discrete",       "euler-discrete,sigmas=logsnr", "euler-discrete,sigmas=karras"};
	static const char *const noisy[] = {"ddpm",       "ddpm,spacing=trailing",       "ddpm,variance=large", "ddpm,spacing=quadratic",
	                                    "ddim,eta=1", "ddim,eta=1,spacing=quadratic"};

	(void)state;
	for (size_t i = 0; i < sizeof flows / sizeof *flows; i++) {
		int more = !strncmp(flows[i], "euler", 5);
		double a = fine_flow_error(flows[i], 256 + more), b = fine_flow_error(flows[i], 512 + more),
		       c = fine_flow_error(flows[i], 1024 + more);

		print_message("%s: order %.3f, %.3f (errors %.2g, %.2g, %.2g)\n", flows[i], log2(a / b), log2(b / c), a, b, c);
		assert_true(fabs(log2(b / c) - 1) < .1);
	}
	for (size_t i = 0; i < sizeof noisy / sizeof *noisy; i++) {
		static const char *const of[] = {"mean", "deviation"};
		double a[2], b[2], c[2];

		chain_errors(noisy[i], 128, a);
		chain_errors(noisy[i], 256, b);
		chain_errors(noisy[i], 512, c);
		for (int k = 0; k < 2; k++) {
			print_message("%s: order of the %s %.3f, %.3f (errors %.2g, %.2g, %.2g)\n", noisy[i], of[k], log2(a[k] / b[k]),
			              log2(b[k] / c[k]), a[k], b[k], c[k]);
			assert_true(fabs(log2(b[k] / c[k]) - 1) < .1);
		}
	}
}

/* The deterministic solvers reach the end of the flow, those of higher order in fewer steps. final=min keeps the noise of step 0, .01, so zero is
 * compared. All kinds of predictions agree within rounding. */
static void flows_of_a_gaussian(void **state)
{
	static const enum prediction kinds[] = {PREDICT_X0, PREDICT_EPSILON, PREDICT_ANGULAR};
	double first, second, third, single;

	(void)state;
	first = flow_error("dpm++1", 50, PREDICT_X0);
	second = flow_error("dpm++2m", 50, PREDICT_X0);
	third = flow_error("dpm++3m", 50, PREDICT_X0);
	single = flow_error("dpm++2s", 50, PREDICT_X0);
	assert_true(first < .1 && second < first / 10 && single < first / 2 && third < first / 4);
	assert_true(fabs(flow_error("ddim,spacing=trailing", 50, PREDICT_X0) - first) < .2 * first);
	for (int k = 0; k < 3; k++) {
		float a[64], b[64], z[64];

		sample("dpm++2m", 20, PREDICT_X0, 32, a, z);
		sample("dpm++2m", 20, kinds[k], 32, b, z);
		for (int i = 0; i < 64; i++)
			assert_true(fabsf(a[i] - b[i]) < 2e-3f);
		assert_true(flow_error("euler-discrete", 400, kinds[k]) < .05);
		assert_true(flow_error("ddim", 1000, kinds[k]) < .02);
	}
}

/* Samples of the stochastic solvers have the distribution of the data: mean and standard deviation of 4096 within four standard errors, plus the
 * remaining noise of the first steps. */
static void noise_of_the_right_size(void **state)
{
	static const char *const solvers[] = {"ddpm", "ddpm,variance=large", "ddim,eta=1", "ddim,eta=.5", "ddpm,spacing=respaced"};
	enum { M = 4096 };
	static float x[2 * M], z[2 * M];

	(void)state;
	for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++) {
		double sum = 0, square = 0;

		sample(solvers[k], k == 4 ? 250 : 200, PREDICT_EPSILON, M, x, z);
		for (int i = 0; i < M; i++) {
			sum += x[2 * i];
			square += (double)x[2 * i] * x[2 * i];
		}
		sum /= M;
		assert_true(fabs(sum - .8) < 4 * .5 / sqrt(M) + .01);
		assert_true(fabs(sqrt(square / M - sum * sum) - .5) < 4 * .5 / sqrt(2 * M) + .01);
	}
}

/* DiT's timestep_respacing: space_timesteps(1000, "250"), "7", and "ddim50". */
static void steps_of_dit(void **state)
{
	static const int64_t seven[] = {999, 832, 666, 500, 333, 166, 0};
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	struct err e = {0};

	(void)state;
	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	assert_int_equal(solver_parse("ddpm,spacing=respaced", &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, 7, &s, PREDICT_EPSILON, 1, NULL), 0);
	for (int i = 0; i < 7; i++)
		assert_true(fabs(p.step[i].time * 1000 - (double)seven[i]) < 1e-9);
	assert_true(p.step[0].log_hi > p.step[0].log_lo && p.step[6].log_hi == p.step[6].log_lo && p.step[6].noise == 0);
	discrete_plan_release(&p);
	assert_int_equal(discrete_plan_make(&p, &c.how, 250, &s, PREDICT_EPSILON, 1, NULL), 0);
	assert_true(fabs(p.step[1].time * 1000 - 995) < 1e-9 && fabs(p.step[248].time * 1000 - 4) < 1e-9);
	discrete_plan_release(&p);
	assert_int_equal(discrete_plan_make(&p, &c.how, 1001, &s, PREDICT_EPSILON, 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	schedule_release(&s);
}

/* Steps even in sqrt k, and sigmas even in the log-SNR; then every kind of solver converges on these grids. */
static void grids(void **state)
{
	enum { STEPS = 12 };
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	double root = sqrt(999.), last = 0;

	(void)state;
	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	assert_int_equal(solver_parse("ddim,spacing=quadratic", &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, STEPS, &s, PREDICT_EPSILON, 0, NULL), 0);
	for (int i = 0; i < STEPS; i++)
		assert_true(fabs(sqrt(p.step[i].time * 1000) - root * (STEPS - 1 - i) / (STEPS - 1)) <=
		            .5 / fmax(root * (STEPS - 1 - i) / (STEPS - 1), 1));
	discrete_plan_release(&p);
	/* With all steps of the table none is skipped. */
	assert_int_equal(discrete_plan_make(&p, &c.how, 1000, &s, PREDICT_EPSILON, 0, NULL), 0);
	for (int i = 0; i < 1000; i++)
		assert_true(fabs(p.step[i].time * 1000 - (999 - i)) < 1e-9);
	discrete_plan_release(&p);
	/* The x0 of an epsilon network is x / alpha - sigma / alpha eps, with alpha^2 + sigma^2 = 1. */
	assert_int_equal(solver_parse("dpm++2m,sigmas=logsnr", &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, STEPS, &s, PREDICT_EPSILON, 0, NULL), 0);
	for (int i = 0; i < STEPS; i++) {
		double lambda = -log(-p.step[i].x0_out), first = -.5 * log((1 - s.abar[999]) / s.abar[999]),
		       end = -.5 * log((1 - s.abar[0]) / s.abar[0]);

		last = first + (end - first) * i / (STEPS - 1);
		assert_true(fabs(lambda - last) < 1e-9);
	}
	discrete_plan_release(&p);
	schedule_release(&s);
	assert_true(flow_error("dpm++2m,sigmas=logsnr", 50, PREDICT_X0) < flow_error("dpm++2m,sigmas=logsnr", 20, PREDICT_X0) / 3);
	assert_true(flow_error("dpm++1,spacing=quadratic", 200, PREDICT_X0) < flow_error("dpm++1,spacing=quadratic", 50, PREDICT_X0) / 3);
	assert_true(flow_error("euler-discrete,sigmas=logsnr", 200, PREDICT_X0) < flow_error("euler-discrete,sigmas=logsnr", 50, PREDICT_X0) / 3);
}

static void texts(void **state)
{
	static const char *const bad[] = {"",
	                                  "ddpm2",
	                                  "euler,spacing=leading",
	                                  "ddim,eta",
	                                  "ddim,eta=2",
	                                  "ddpm,eta=1",
	                                  "dpm++2m,variance=small",
	                                  "ddim,spacing=even",
	                                  "ddim,",
	                                  "ddim,clip=0",
	                                  "ddpm,final=min",
	                                  "dpm++1,type=euler",
	                                  "euler,churn=1",
	                                  "edm-heun,strength=1",
	                                  "sde,churn=2",
	                                  "sde,step=heun",
	                                  "sde,step=ancestral,strength=2",
	                                  "euler,step=ancestral",
	                                  "edm-heun,churn=-1",
	                                  "unipc2,type=heun"};
	struct solver_choice c;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		e = (struct err){0};
		assert_int_equal(solver_parse(bad[i], &c, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	for (int i = 0; solver_names[i]; i++) {
		assert_int_equal(solver_parse(solver_names[i], &c, NULL), 0);
		assert_string_equal(c.name, solver_names[i]);
	}
	assert_int_equal(solver_parse("ddim,eta=.5,spacing=trailing,clip=1,final=min", &c, NULL), 0);
	assert_true(c.how.eta == .5 && c.how.spacing == SPACING_TRAILING && c.how.clip == 1 && c.how.final_min == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_diffusers),
	    cmocka_unit_test(published_values),
	    cmocka_unit_test(published_euler),
	    cmocka_unit_test(orders),
	    cmocka_unit_test(orders_of_fine_tables),
	    cmocka_unit_test(flows_of_a_gaussian),
	    cmocka_unit_test(noise_of_the_right_size),
	    cmocka_unit_test(steps_of_dit),
	    cmocka_unit_test(grids),
	    cmocka_unit_test(texts),
	    cmocka_unit_test(schedulers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
