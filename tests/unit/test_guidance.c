/* diffusion/guidance: its texts; every method in closed form, on the linear path and on a discrete one; intervals, steps of velocity 0, momentum and
 * autoguidance in the mixture and the sampler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/sampler.h"
#include "diffusion/solverchoice.h"
#include "tests/unit/exact.h"

/* Four Gaussians of three dimensions. Their class is 0 or 1; an expert has one of each class. */
enum { D = 3, ROWS = 6, CLASSES = 2, K = 2 };
static const float means[4 * D] = {1, -1, .5f, -.8f, .6f, .2f, .1f, 1.2f, -1, -.3f, -.4f, .9f};
static const int32_t classes[4] = {0, 1, 0, 1}, owners[4] = {0, 0, 1, 1};
static const struct exact all = {.n = 4, .d = D, .clusters = CLASSES, .mean = means, .cluster = classes, .std = .3};
static const struct exact halves[K] = {{.n = 2, .d = D, .clusters = CLASSES, .mean = means, .cluster = classes, .std = .3},
                                       {.n = 2, .d = D, .clusters = CLASSES, .mean = means + 2 * D, .cluster = classes + 2, .std = .3}};
static const struct exact by_owner = {.n = 4, .d = D, .clusters = K, .mean = means, .cluster = owners, .std = .3};
/* The same with wider Gaussians: a guide that is worse in the same way. */
static const struct exact blurred = {.n = 4, .d = D, .clusters = CLASSES, .mean = means, .cluster = classes, .std = .6};
static const struct betas betas = {1000, 1e-4, .02, NULL};

struct network {
	const struct exact *m;
	const struct path *own; /* predicts epsilon on it; NULL: the velocity on the linear path */
	int64_t rows, unconditional;
};

static int predict(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	struct network *w = arg;

	(void)e;
	w->rows += n;
	for (int64_t i = 0; i < n; i++) {
		int cluster = c->label && c->label[i] < CLASSES ? c->label[i] : EXACT_ALL;
		double out[D];

		w->unconditional += cluster == EXACT_ALL;
		if (w->own)
			exact_moments(w->m, w->own, t[i], cluster, x + i * D, NULL, out);
		else
			exact_velocity(w->m, t[i], cluster, x + i * D, out);
		for (int j = 0; j < D; j++)
			v[i * D + j] = (float)out[j];
	}
	return 0;
}

static struct expert expert_of(struct network *w, int64_t capacity)
{
	return (struct expert){.velocity = predict, .arg = w, .capacity = capacity, .classes = CLASSES, .flops = 1e9};
}

static void noisy(float *x, double alpha, double sigma)
{
	float z[ROWS * D];

	rng_normal(z, ROWS * D, 3, RNG_TEST, 0, 0);
	for (int i = 0; i < ROWS * D; i++)
		x[i] = (float)(alpha * (double)means[i % (4 * D)] + sigma * (double)z[i]);
}

/* ---- the methods, as their papers write them ---- */

static double dot(const double *a, const double *b)
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double deviation(const double *a)
{
	double mean = (a[0] + a[1] + a[2]) / 3, sum = 0;

	for (int j = 0; j < D; j++)
		sum += (a[j] - mean) * (a[j] - mean);
	return sqrt(sum / (D - 1));
}

struct way {
	const char *method;
	double rescale;
	char space; /* the kind of prediction that it acts on: x0, v or e(psilon) */
};

enum { SCALE = 3 };

/* p (D) = the guided prediction from c and u, all of w->space. */
static void guided(const struct way *w, const struct guidance *g, const double *c, const double *u, double *p)
{
	double d[D], k = dot(c, u) / dot(u, u), norm, f;

	for (int j = 0; j < D; j++) {
		d[j] = c[j] - u[j];
		p[j] = u[j] + SCALE * d[j];
		if (*w->method == 'z')
			p[j] = k * u[j] + SCALE * (c[j] - k * u[j]);
	}
	norm = sqrt(dot(d, d));
	f = g->limit > 0 && norm > g->limit ? g->limit / norm : 1;
	for (int j = 0; j < D && *w->method == 'a'; j++) {
		double along = dot(d, c) / dot(c, c) * c[j];

		p[j] = c[j] + (SCALE - 1) * f * (d[j] - along + g->parallel * along);
	}
	f = deviation(c) / deviation(p);
	for (int j = 0; j < D; j++)
		p[j] = w->rescale * p[j] * f + (1 - w->rescale) * p[j];
}

/* x0 (D) of the guided prediction for a class at x (D), alpha x0 + sigma eps. */
static void expected(const struct way *w, const struct guidance *g, const struct path *path, double t, int class, const float *x, double *x0)
{
	struct path_point at = path_at(path, t);
	double both[2][D], p[D], sum = at.alpha + at.sigma;

	for (int side = 0; side < 2; side++) {
		double eps[D];

		exact_moments(&all, path, t, side ? EXACT_ALL : class, x, x0, eps);
		for (int j = 0; j < D; j++)
			both[side][j] = w->space == 'x' ? x0[j] : w->space == 'e' ? eps[j] : eps[j] - x0[j];
	}
	guided(w, g, both[0], both[1], p);
	for (int j = 0; j < D; j++)
		x0[j] = w->space == 'x'   ? p[j]
		        : w->space == 'e' ? ((double)x[j] - at.sigma * p[j]) / at.alpha
		                          : ((double)x[j] - at.sigma * p[j]) / sum; /* of v = eps - x0 on the linear path: x / sum - t v */
}

/* The x0 of a mixture of one network at x and t. */
static void computed(const struct guidance *g, const struct schedule *own, const struct guidance_native *native, double t, const float *x,
                     const int32_t *label, double *x0)
{
	struct network w = {&all, own ? &own->path : NULL, 0, 0};
	struct expert expert = expert_of(&w, 5);
	struct mixture m = {.k = 1,
	                    .d = D,
	                    .expert = &expert,
	                    .policy = policy_of("expert:0"),
	                    .cfg = SCALE,
	                    .guidance = *g,
	                    .native = native,
	                    .own = own ? &own->path : NULL,
	                    .kind = PREDICT_EPSILON};
	struct err e = {0};
	struct mixer *mixer = mixer_new(&m, ROWS, &e);
	struct path_point p = path_at(own ? &own->path : &path_linear, t);
	float v[ROWS * D];

	assert_non_null(mixer);
	assert_int_equal(mixer_velocity(mixer, v, &(struct mixture_call){.n = ROWS, .t = t, .step = 1, .x = x, .label = label}, NULL, &e), 0);
	for (int i = 0; i < ROWS * D; i++)
		x0[i] = own ? ((double)x[i] - p.sigma * (double)v[i]) / p.alpha : (double)x[i] - t * (double)v[i];
	mixer_free(mixer);
}

/* Conditions and their scores are known in closed form. A flow network and one that predicts epsilon on a discrete path give the same x0, inside the
 * expert and after mixing. Tolerance: velocities are floats of up to 20, and the fitted scale of zero and the deviations divide by small numbers. */
static void methods_in_closed_form(void **state)
{
	static const struct way ways[] = {
	    {"cfg", 0, 'x'},       {"cfg", 0, 'v'},  {"apg", 0, 'x'},  {"apg:r=.5", 0, 'x'}, {"apg:r=.4,eta=.3", 0, 'x'},
	    {"apg:eta=1", 0, 'x'}, {"zero", 0, 'v'}, {"cfg", .7, 'e'}, {"cfg", 1, 'e'}};
	static const int32_t label[ROWS] = {0, 1, 1, 0, 1, 0};
	static const struct guidance_native epsilon = {&path_cosine, PREDICT_EPSILON};
	struct schedule s;

	(void)state;
	assert_int_equal(schedule_init(&s, "linear_betas", &betas, NULL), 0);
	for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
		for (int mixed = 0; mixed < 2; mixed++)
			for (int i = 1; i < 6; i++) {
				double own_t = .15 * i, t, x0[ROWS * D], want[D];
				struct path_point p = path_at(&s.path, own_t);
				struct guidance g = {.rescale = ways[k].rescale, .mixed = mixed};
				float x[ROWS * D], y[ROWS * D];
				struct err e = {0};

				assert_int_equal(guidance_parse(&g, ways[k].method, &e), 0);
				noisy(y, p.alpha, p.sigma);
				computed(&g, &s, NULL, own_t, y, label, x0);
				for (int r = 0; r < ROWS; r++) {
					expected(&ways[k], &g, &s.path, own_t, label[r], y + r * D, want);
					for (int j = 0; j < D; j++)
						assert_true(fabs(x0[r * D + j] - want[j]) < 3e-5 / p.alpha);
				}
				if (mixed && g.rescale > 0)
					continue; /* on velocities */
				t = path_time(&path_linear, p.logsnr);
				for (int j = 0; j < ROWS * D; j++)
					x[j] = y[j] / (float)(p.alpha + p.sigma);
				computed(&g, NULL, &epsilon, t, x, label, x0);
				for (int r = 0; r < ROWS; r++) {
					expected(&ways[k], &g, &path_linear, t, label[r], x + r * D, want);
					for (int j = 0; j < D; j++)
						assert_true(fabs(x0[r * D + j] - want[j]) < 3e-5 / p.alpha);
				}
			}
	schedule_release(&s);
}

/* Rescaling acts on what a network predicts: on velocities for a flow network and after mixing. At t = 1 epsilon follows from x alone, and the limit
 * is taken. */
static void rescaling_of_velocities(void **state)
{
	static const struct way way = {"cfg", .6, 'v'};
	static const int32_t label[ROWS] = {0, 1, 1, 0, 1, 0};
	static const struct guidance_native natives[] = {{&path_linear, PREDICT_VELOCITY}, {&path_cosine, PREDICT_EPSILON}};
	struct guidance g = {.rescale = .6};
	double x0[ROWS * D], near[ROWS * D], want[D];
	float x[ROWS * D];

	(void)state;
	noisy(x, .5, .5);
	for (int way_of = 0; way_of < 3; way_of++) {
		g.mixed = way_of == 2;
		computed(&g, NULL, way_of ? &natives[way_of - 1] : NULL, .5, x, label, x0);
		if (way_of == 2) /* mixed: what the network predicts does not matter */
			computed(&g, NULL, &natives[1], .5, x, label, x0);
		for (int r = 0; r < ROWS; r++) {
			expected(&way, &g, &path_linear, .5, label[r], x + r * D, want);
			for (int j = 0; j < D; j++)
				assert_true(fabs(x0[r * D + j] - want[j]) < 3e-5);
		}
	}
	g.mixed = 0;
	noisy(x, 0, 1);
	computed(&g, NULL, &natives[1], 1, x, label, x0);
	computed(&g, NULL, &natives[1], .998, x, label, near);
	for (int i = 0; i < ROWS * D; i++)
		assert_true(fabs(x0[i] - near[i]) < .02);
}

/* ---- mixtures and samplers ---- */

/* Two experts with a router. */
struct ensemble {
	struct network network[K], bad[K];
	struct expert expert[K], guide[K];
	struct router router;
	struct mixture m;
};

static void ensemble_init(struct ensemble *s, const char *route, double scale, const char *method)
{
	struct err e = {0};

	memset(s, 0, sizeof *s);
	for (int k = 0; k < K; k++) {
		s->network[k] = (struct network){.m = &halves[k]};
		s->bad[k] = (struct network){.m = &blurred};
		s->expert[k] = expert_of(&s->network[k], 4);
		s->guide[k] = expert_of(&s->bad[k], 3);
		s->guide[k].flops = .5e9;
	}
	s->router = (struct router){exact_router_run, (void *)(uintptr_t)&by_owner, ROWS, 0};
	s->m = (struct mixture){.k = K, .d = D, .expert = s->expert, .router = &s->router, .cfg = scale};
	assert_int_equal(policy_parse(route, &s->m.policy, &e), 0);
	assert_int_equal(guidance_parse(&s->m.guidance, method, &e), 0);
}

static void velocity(struct ensemble *s, const struct mixture_call *c, float *v, struct mixture_stats *stats)
{
	struct err e = {0};
	struct mixer *mixer = mixer_new(&s->m, ROWS, &e);

	assert_non_null(mixer);
	assert_int_equal(mixer_velocity(mixer, v, c, stats, &e), 0);
	mixer_free(mixer);
}

static const int32_t labels[ROWS] = {1, 0, 0, 1, 1, 0};

/* A linear method is the same inside the experts and after mixing; the others are not. Tolerance: float rounding of velocities below 20. */
static void linear_inside_and_after(void **state)
{
	static const char *const methods[] = {"cfg", "apg", "zero:0"};
	float x[ROWS * D], inside[ROWS * D], after[ROWS * D];
	struct mixture_call c = {.n = ROWS, .t = .7, .x = x, .label = labels};
	struct ensemble s;

	(void)state;
	noisy(x, .3, .7);
	for (int i = 0; i < 4; i++) {
		float worst = 0;

		ensemble_init(&s, "full", 2.5, methods[i % 3]);
		s.m.guide = i == 3 ? s.guide : NULL;
		velocity(&s, &c, inside, NULL);
		s.m.guidance.mixed = 1;
		velocity(&s, &c, after, NULL);
		for (int j = 0; j < ROWS * D; j++)
			worst = fmaxf(worst, fabsf(inside[j] - after[j]));
		assert_true(i % 3 ? worst > 1e-2f : worst < 1e-5f);
	}
}

static void sample(struct ensemble *s, const char *solver, int64_t steps, int64_t batch, float *x)
{
	struct solver_choice c;
	struct sampler sm = {.mixture = &s->m, .seed = 4, .batch = batch};
	struct sampler_state *st;
	struct err e = {0};

	assert_int_equal(solver_parse(solver, &c, &e), 0);
	sm.solver = (struct solver){.kind = c.kind, .steps = steps, .from = 1, .adapt = c.adapt};
	st = sampler_new(&sm, &e);
	assert_non_null(st);
	for (int64_t i = 0; i < ROWS; i += batch) {
		int64_t index[ROWS] = {i, i + 1, i + 2, i + 3, i + 4, i + 5};
		struct sampler_call call = {.n = batch, .index = index, .label = labels + i};

		assert_int_equal(sampler_run(st, x + i * D, &call, NULL, NULL, &e), 0);
	}
	sampler_free(st);
}

/* No result depends on the batch, in which other trajectories come before and beside; with a momentum too. It does something, and starts at 0: one
 * step is the same without it. */
static void batches_and_momentum(void **state)
{
	static const char *const methods[] = {"apg:r=2", "zero:2", "apg:beta=-.5", "apg:r=1.5,beta=-.75,eta=.2"};
	struct ensemble s;

	(void)state;
	for (int i = 0; i < 4; i++)
		for (int rescaled = 0; rescaled < 2; rescaled++) {
			float a[ROWS * D], b[ROWS * D];

			ensemble_init(&s, "top-1", 2.5, methods[i]);
			s.m.guidance.mixed = i > 1;
			s.m.guidance.rescale = rescaled ? .7 : 0;
			sample(&s, "euler", 8, ROWS, a);
			for (int64_t batch = 1; batch < 4; batch++) {
				sample(&s, "euler", 8, batch, b);
				assert_memory_equal(a, b, sizeof a);
			}
			s.m.guidance.momentum = 0;
			sample(&s, "euler", 8, ROWS, b);
			assert_true(!memcmp(a, b, sizeof a) == (i < 2));
			sample(&s, "euler", 1, ROWS, a);
			ensemble_init(&s, "top-1", 2.5, methods[i]);
			s.m.guidance.mixed = i > 1;
			s.m.guidance.rescale = rescaled ? .7 : 0;
			sample(&s, "euler", 1, ROWS, b);
			for (int j = 0; j < ROWS * D; j++) /* a momentum is stored as floats */
				assert_true(fabsf(a[j] - b[j]) < 1e-5f);
		}
}

/* m_2 = d_2 + beta m_1, with the differences d of x0, in the second of two steps. */
static void momentum_in_closed_form(void **state)
{
	struct ensemble s;
	float x[ROWS * D], v[ROWS * D];
	struct mixture_call c = {.n = ROWS, .x = x, .label = labels};
	struct err e = {0};
	struct mixer *mixer;
	double m[ROWS * D] = {0};

	(void)state;
	ensemble_init(&s, "expert:1", 3, "apg:beta=-.5,eta=1");
	s.m.guidance.mixed = 1;
	mixer = mixer_new(&s.m, ROWS, &e);
	for (c.evaluation = 0; c.evaluation < 3; c.evaluation++) {
		c.t = .9 - .2 * (double)c.evaluation;
		noisy(x, 1 - c.t, c.t);
		assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
		for (int r = 0; r < ROWS; r++) {
			double with[D], without[D];

			exact_moments(&halves[1], &path_linear, c.t, labels[r], x + r * D, with, NULL);
			exact_moments(&halves[1], &path_linear, c.t, EXACT_ALL, x + r * D, without, NULL);
			for (int j = 0; j < D; j++) {
				double *p = &m[r * D + j];

				*p = with[j] - without[j] - .5 * *p;
				assert_true(fabs((double)x[r * D + j] - c.t * (double)v[r * D + j] - (with[j] + 2 * *p)) < 1e-5);
			}
		}
	}
	mixer_free(mixer);
}

/* Outside the interval the prediction is that with the class, to the bit, and the networks run once a row. */
static void intervals(void **state)
{
	struct ensemble s, plain;
	float x[ROWS * D], v[ROWS * D], want[ROWS * D];

	(void)state;
	noisy(x, .5, .5);
	for (int i = 0; i < 5; i++)
		for (int mixed = 0; mixed < 2; mixed++) {
			const double t[] = {.3, .5, .7, .2, 1};
			int holds = i < 2;
			struct mixture_call c = {.n = ROWS, .t = t[i], .x = x, .label = labels};
			struct mixture_stats stats;

			mixture_stats_init(&stats, K, 1);
			ensemble_init(&s, "full", 2.5, "cfg");
			s.m.guidance.interval = (struct time_range){.3, .7};
			s.m.guidance.mixed = mixed;
			ensemble_init(&plain, "full", holds ? 2.5 : 1, "cfg");
			plain.m.guidance.mixed = mixed;
			velocity(&s, &c, v, &stats);
			velocity(&plain, &c, want, NULL);
			assert_memory_equal(v, want, sizeof v);
			assert_int_equal(s.network[0].rows, (1 + holds) * ROWS);
			assert_int_equal(s.network[0].unconditional, holds * ROWS);
			assert_true(fabs(mixture_gflop(&s.m, &stats) - K * ROWS * (1 + holds)) < 1e-9);
			mixture_stats_release(&stats);
		}
}

/* zero: the first steps do not move x on the linear path, and cost one evaluation a row; with a scale of 1 there is no guidance. */
static void still_steps(void **state)
{
	struct ensemble s;
	float x[ROWS * D], v[ROWS * D], y[ROWS * D];
	struct mixture_call c = {.n = ROWS, .t = .9, .x = x, .label = labels};
	struct schedule own;
	struct path_point p;
	struct network w;
	struct expert expert;
	struct mixture m;
	struct err e = {0};
	struct mixer *mixer;

	(void)state;
	noisy(x, .1, .9);
	ensemble_init(&s, "full", 2.5, "zero:2");
	for (c.step = 0; c.step < 3; c.step++) {
		velocity(&s, &c, v, NULL);
		for (int i = 0; i < ROWS * D; i++)
			assert_true((v[i] == 0) == (c.step < 2));
	}
	assert_int_equal(s.network[0].rows, 4 * ROWS);
	c.step = 0;
	s.m.guidance.interval = (struct time_range){.1, .8};
	velocity(&s, &c, v, NULL);
	assert_true(v[0] != 0);
	sample(&s, "euler", 1, ROWS, y);
	ensemble_init(&s, "full", 1, "zero:2");
	sample(&s, "euler", 1, ROWS, v);
	assert_memory_equal(y, v, sizeof y);

	/* On another path: eps - x0 = 0 where eps is the prediction. */
	assert_int_equal(schedule_init(&own, "linear_betas", &betas, NULL), 0);
	w = (struct network){&all, &own.path, 0, 0};
	expert = expert_of(&w, 5);
	m = (struct mixture){.k = 1, .d = D, .expert = &expert, .policy = policy_of("expert:0"), .cfg = 2, .own = &own.path, .kind = PREDICT_EPSILON};
	assert_int_equal(guidance_parse(&m.guidance, "zero", &e), 0);
	mixer = mixer_new(&m, ROWS, &e);
	p = path_at(&own.path, .5);
	c = (struct mixture_call){.n = ROWS, .t = .5, .x = x, .label = labels};
	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	for (int i = 0; i < ROWS * D; i++)
		assert_true(fabs((double)v[i] - (double)x[i] / (p.alpha + p.sigma)) < 1e-6);
	mixer_free(mixer);
	schedule_release(&own);
}

/* D_bad + w (D - D_bad) with the class in both; a scale of 1 is no guidance to the bit, without a run of the guide; a network that guides all experts
 * is the guide of each. */
static void autoguidance(void **state)
{
	struct ensemble s, one;
	float x[ROWS * D], v[ROWS * D], w[ROWS * D];
	struct mixture_call c = {.n = ROWS, .t = .6, .x = x, .label = labels};
	struct mixture_stats stats;

	(void)state;
	noisy(x, .4, .6);
	mixture_stats_init(&stats, K, 1);
	ensemble_init(&s, "full", 2, "cfg");
	s.m.guide = s.guide;
	velocity(&s, &c, v, &stats);
	for (int r = 0; r < ROWS; r++) {
		double good[D], half[D], bad[D], logits[K], p;

		exact_logits(&by_owner, c.t, x + r * D, logits);
		p = 1 / (1 + exp(logits[1] - logits[0]));
		exact_velocity(&halves[0], c.t, labels[r], x + r * D, good);
		exact_velocity(&halves[1], c.t, labels[r], x + r * D, half);
		exact_velocity(&blurred, c.t, labels[r], x + r * D, bad);
		for (int j = 0; j < D; j++)
			assert_true(fabs(2 * (p * good[j] + (1 - p) * half[j]) - bad[j] - (double)v[r * D + j]) < 1e-5);
	}
	assert_int_equal(s.network[0].rows, ROWS);
	assert_int_equal(s.network[0].unconditional, 0);
	assert_int_equal(s.bad[1].rows, ROWS);
	assert_int_equal(stats.guide_rows[1], ROWS);
	assert_true(fabs(mixture_gflop(&s.m, &stats) - ROWS * K * 1.5) < 1e-9);
	mixture_stats_release(&stats);

	ensemble_init(&one, "full", 1, "cfg");
	sample(&one, "heun", 7, ROWS, w);
	s.m.cfg = 1;
	s.bad[0].rows = 0;
	sample(&s, "heun", 7, 3, v);
	assert_memory_equal(v, w, sizeof v);
	assert_int_equal(s.bad[0].rows, 0);
	s.guide[1] = s.guide[0];
	s.m.cfg = 2;
	sample(&s, "heun", 7, ROWS, v);
	sample(&s, "heun", 7, 2, w);
	assert_memory_equal(v, w, sizeof v);
	assert_true(s.bad[0].rows > 0);
}

/* A network without classes can be guided by a worse one. */
static void unconditional_autoguidance(void **state)
{
	struct ensemble s;
	float x[ROWS * D], v[ROWS * D];
	struct mixture_call c = {.n = ROWS, .t = .6, .x = x};
	struct err e = {0};

	(void)state;
	noisy(x, .4, .6);
	ensemble_init(&s, "expert:0", 2, "cfg");
	s.expert[0].classes = s.expert[1].classes = s.guide[0].classes = s.guide[1].classes = 0;
	s.m.guide = s.guide;
	velocity(&s, &c, v, NULL);
	for (int r = 0; r < ROWS; r++) {
		double good[D], bad[D];

		exact_velocity(&halves[0], c.t, EXACT_ALL, x + r * D, good);
		exact_velocity(&blurred, c.t, EXACT_ALL, x + r * D, bad);
		for (int j = 0; j < D; j++)
			assert_true(fabs(2 * good[j] - bad[j] - (double)v[r * D + j]) < 1e-5);
	}
	s.m.guide = NULL;
	assert_null(mixer_new(&s.m, ROWS, &e));
	assert_int_equal(e.code, ERR_USAGE);
}

/* ---- texts and refusals ---- */

static void texts(void **state)
{
	static const char *const good[][2] = {{"cfg", "cfg"},
	                                      {"apg", "apg"},
	                                      {"apg:r=0,beta=0,eta=0", "apg"},
	                                      {"apg:eta=.250,r=2.50", "apg:r=2.5,eta=0.25"},
	                                      {"apg:beta=-.75", "apg:beta=-0.75"},
	                                      {"zero", "zero"},
	                                      {"zero:1", "zero"},
	                                      {"zero:0", "zero:0"},
	                                      {"zero:steps=3", "zero:3"}};
	static const char *const bad[][2] = {{"cgf", "'cgf' is not one of cfg, apg, zero"},
	                                     {"cfg:r=1", "'cfg:r=1': cfg has no keys, and there is 'r'"},
	                                     {"apg:r", "'apg:r': 'r' is not KEY=VALUE"},
	                                     {"apg:q=1", "q"},
	                                     {"apg:r=-1", "-1"},
	                                     {"zero:-1", "-1"},
	                                     {"zero:x", "x"}};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct guidance g = {.rescale = .5};
		struct err e = {0};
		char *text;

		assert_int_equal(guidance_parse(&g, good[i][0], &e), 0);
		text = guidance_text(&g);
		assert_string_equal(text, good[i][1]);
		assert_true(g.rescale == .5);
		mem_free(text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct guidance g = {0};
		struct err e = {0};

		assert_int_equal(guidance_parse(&g, bad[i][0], &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		if (!strstr(e.msg, bad[i][1]))
			fail_msg("%s", e.msg);
	}
}

static void refused(struct ensemble *s, const char *solver, const char *why)
{
	struct solver_choice c;
	struct err e = {0};
	struct sampler sm = {.mixture = &s->m, .batch = ROWS};

	assert_int_equal(solver_parse(solver, &c, &e), 0);
	sm.solver = (struct solver){.kind = c.kind, .steps = 9, .from = 1, .adapt = c.adapt};
	assert_null(sampler_new(&sm, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, why));
}

static void refusals(void **state)
{
	static const char *const many[] = {"heun", "midpoint", "rk4", "edm-heun", "dopri5"};
	struct ensemble s;

	(void)state;
	ensemble_init(&s, "full", 2, "apg:beta=-.5");
	refused(&s, "euler", "needs --cfg-after-mixing");
	s.m.guidance.mixed = 1;
	for (size_t i = 0; i < sizeof many / sizeof *many; i++)
		refused(&s, many[i], "one evaluation a step");
	ensemble_init(&s, "full", 2, "zero");
	refused(&s, "dopri5", "use zero:0");
	ensemble_init(&s, "budget:1000", 2, "cfg");
	s.m.guidance.interval = (struct time_range){0, .5};
	refused(&s, "euler", "route budget");
	ensemble_init(&s, "full", 2, "cfg");
	s.m.guide = s.guide;
	s.guide[1].velocity = NULL;
	refused(&s, "euler", "the guide has no expert 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(methods_in_closed_form),
	                                   cmocka_unit_test(rescaling_of_velocities),
	                                   cmocka_unit_test(linear_inside_and_after),
	                                   cmocka_unit_test(batches_and_momentum),
	                                   cmocka_unit_test(momentum_in_closed_form),
	                                   cmocka_unit_test(intervals),
	                                   cmocka_unit_test(still_steps),
	                                   cmocka_unit_test(autoguidance),
	                                   cmocka_unit_test(unconditional_autoguidance),
	                                   cmocka_unit_test(texts),
	                                   cmocka_unit_test(refusals)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
