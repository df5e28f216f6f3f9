/* diffusion/route, mixture, sampler: the decomposition, the policies, and the inputs that results may depend on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/torchrng.h"
#include "diffusion/sampler.h"
#include "tests/unit/exact.h"

enum { MAX_K = 6 };

/* An ensemble of exact experts and the exact router over one set of components. */
struct ensemble {
	struct exact m;
	struct exact_expert arg[MAX_K];
	struct expert expert[MAX_K];
	struct router router;
	struct mixture mixture;
};

static void ensemble_init(struct ensemble *s, const struct exact *m, const char *route, int64_t capacity)
{
	struct err e = {0};

	memset(s, 0, sizeof *s);
	s->m = *m;
	for (int k = 0; k < m->clusters; k++) {
		s->arg[k] = (struct exact_expert){&s->m, k};
		s->expert[k] = (struct expert){.velocity = exact_expert_run, .arg = &s->arg[k], .capacity = capacity, .flops = 10e9};
	}
	s->router = (struct router){exact_router_run, &s->m, capacity, 1e9};
	s->mixture = (struct mixture){.k = m->clusters, .d = m->d, .expert = s->expert, .router = &s->router, .cfg = 1, .seed = 5};
	assert_int_equal(policy_parse(route, &s->mixture.policy, &e), 0);
}

/* 40 points of 6 dimensions in 5 unequal clusters. */
enum { POINTS = 40, DIM = 6 };
static float points_x[POINTS * DIM];
static int32_t points_k[POINTS];
static struct exact points = {POINTS, DIM, 5, points_x, NULL, points_k, 0};

static int make_points(void **state)
{
	static const int first[] = {0, 15, 25, 33, 38, POINTS};

	(void)state;
	rng_normal(points_x, POINTS * DIM, 1, RNG_TEST, 0, 0);
	for (int k = 0; k < 5; k++)
		for (int j = first[k]; j < first[k + 1]; j++)
			points_k[j] = k;
	return 0;
}

static void noisy(float *x, double t, int64_t i)
{
	struct path_point p = path_at(&path_linear, t);
	float eps[DIM];

	rng_normal(eps, DIM, 2, RNG_TEST, 0, (uint64_t)i);
	path_noise(&p, x, points_x + i % POINTS * DIM, eps, DIM);
}

static void posterior(const struct exact *m, double t, const float *x, double *p)
{
	double top = -INFINITY, sum = 0;

	exact_logits(m, t, x, p);
	for (int k = 0; k < m->clusters; k++)
		top = fmax(top, p[k]);
	for (int k = 0; k < m->clusters; k++)
		sum += p[k] = exp(p[k] - top);
	for (int k = 0; k < m->clusters; k++)
		p[k] /= sum;
}

/* u = sum_k p(k | x, t) v_k within the rounding of doubles: sums of 40 terms, and v divides by t, so 1e-12 / t. */
static void decomposition_is_exact(void **state)
{
	struct exact blurred = points;
	const struct exact *const sets[] = {&points, &blurred};

	(void)state;
	blurred.std = .3;
	for (int s = 0; s < 2; s++)
		for (int i = 0; i < 60; i++) {
			double t = .02 + .98 * i / 59, p[MAX_K], u[DIM], v[DIM], sum[DIM] = {0};
			float x[DIM];

			noisy(x, t, i);
			posterior(sets[s], t, x, p);
			exact_velocity(sets[s], t, EXACT_ALL, x, u);
			for (int k = 0; k < 5; k++) {
				exact_velocity(sets[s], t, k, x, v);
				for (int j = 0; j < DIM; j++)
					sum[j] += p[k] * v[j];
			}
			for (int j = 0; j < DIM; j++)
				assert_true(fabs(sum[j] - u[j]) < 1e-12 / t);
		}
}

/* The mixer does the same in float: weights and velocities are rounded to 6e-8, times |v| of up to 4 / t. */
static void mixer_gives_the_marginal_flow(void **state)
{
	struct ensemble s;
	struct mixer *x;
	struct err e = {0};
	float in[8 * DIM], v[8 * DIM];

	(void)state;
	ensemble_init(&s, &points, "full", 3);
	x = mixer_new(&s.mixture, 8, &e);
	for (int i = 1; i <= 20; i++) {
		struct mixture_call c = {.n = 8, .t = .05 * i, .x = in};
		double u[DIM];

		for (int r = 0; r < 8; r++)
			noisy(in + r * DIM, c.t, 8 * i + r);
		assert_int_equal(mixer_velocity(x, v, &c, NULL, &e), 0);
		for (int r = 0; r < 8; r++) {
			exact_velocity(&points, (float)c.t, EXACT_ALL, in + r * DIM, u);
			for (int j = 0; j < DIM; j++)
				assert_true(fabs(v[r * DIM + j] - u[j]) < 3e-6 / c.t);
		}
	}
	mixer_free(x);
}

/* The posterior equals the shares at t = 1 and the true cluster near t = 0. At the optimum the gradient of the cross-entropy vanishes: over draws
 * (k, x_t), the mean of p_k - [k is the cluster], weighted by any function of x, is 0 within five standard errors. */
static void router_optimum(void **state)
{
	enum { N = 40000 };
	double p[MAX_K], sum[MAX_K] = {0}, weighted[MAX_K] = {0}, right = 0, tilted = 0;
	float x[DIM];

	(void)state;
	noisy(x, 1, 7);
	posterior(&points, 1, x, p);
	for (int k = 0; k < 5; k++)
		assert_true(fabs(p[k] - (double[]){15, 10, 8, 5, 2}[k] / POINTS) < 1e-12);
	noisy(x, .02, 36);
	posterior(&points, .02, x, p);
	assert_true(p[points_k[36]] > .999);
	for (int i = 0; i < N; i++) {
		int truth = points_k[i % POINTS];
		double z = 0;

		noisy(x, .6, i);
		posterior(&points, .6, x, p);
		right -= log(p[truth]);
		for (int k = 0; k < 5; k++) {
			double r = p[k] - (k == truth);

			sum[k] += r;
			weighted[k] += r * x[0];
			z += p[k] * (k == 1 ? exp(.1) : 1);
		}
		tilted -= log(p[truth] * (truth == 1 ? exp(.1) : 1) / z);
	}
	for (int k = 0; k < 5; k++) {
		assert_true(fabs(sum[k]) < 5 * .5 * sqrt(N));
		assert_true(fabs(weighted[k]) < 5 * .7 * sqrt(N));
	}
	assert_true(right < tilted);
}

static void same_velocity(const char *a, const char *b, double t)
{
	struct ensemble s[2];
	struct err e = {0};
	float in[32 * DIM], v[2][32 * DIM];

	for (int i = 0; i < 32; i++)
		noisy(in + i * DIM, t, i);
	for (int i = 0; i < 2; i++) {
		struct mixture_call c = {.n = 32, .t = t, .x = in};
		struct mixer *x;

		ensemble_init(&s[i], &points, i ? b : a, 7);
		x = mixer_new(&s[i].mixture, 32, &e);
		assert_int_equal(mixer_velocity(x, v[i], &c, NULL, &e), 0);
		mixer_free(x);
	}
	assert_memory_equal(v[0], v[1], sizeof v[0]);
}

static void limits_of_policies_are_bitwise(void **state)
{
	static const double at[] = {1, .9, .5, .1, .02};

	(void)state;
	for (int i = 0; i < 5; i++) {
		same_velocity("top-5", "full", at[i]);
		same_velocity("threshold:0", "full", at[i]);
		same_velocity("threshold:1", "top-1", at[i]);
		same_velocity("switch:0", "full", at[i]);
		same_velocity("switch:1", "top-1", at[i]);
		same_velocity("nucleus:0", "top-1", at[i]);
		same_velocity("nucleus:1", "full", at[i]);
		same_velocity("router|full@1,router|top-1@.5", at[i] > .5 ? "full" : "top-1", at[i]);
		same_velocity("router:1e-6|full", "top-1", at[i]);
		same_velocity("router|top-2|keep:1", "top-2", at[i]);
		same_velocity("top-2@1,expert:3@.9,top-1@.1", at[i] > .9 ? "top-2" : at[i] > .1 ? "expert:3" : "top-1", at[i]);
	}
}

/* One row and one expert at a time, no gathering. */
static void grouping_changes_nothing(void **state)
{
	static const char *const routes[] = {"full", "top-1", "top-2", "threshold:.1", "sample"};
	struct err e = {0};
	float in[32 * DIM], v[32 * DIM];

	(void)state;
	for (int i = 0; i < 32; i++)
		noisy(in + i * DIM, .7, i);
	for (int r = 0; r < 5; r++) {
		struct mixture_call c = {.n = 32, .t = .7, .x = in};
		struct ensemble s;
		struct mixer *x;

		ensemble_init(&s, &points, routes[r], 9);
		x = mixer_new(&s.mixture, 32, &e);
		assert_int_equal(mixer_velocity(x, v, &c, NULL, &e), 0);
		for (int i = 0; i < 32; i++) {
			float u[DIM], sum[DIM] = {0}, t = .7f;
			int terms = 0;

			for (int k = 0; k < 5; k++) {
				float w = (float)mixer_weights(x)[i * 5 + k];

				if (mixer_weights(x)[i * 5 + k] == 0)
					continue;
				exact_expert_run(&s.arg[k], 1, in + i * DIM, &t, NULL, u, &e);
				for (int j = 0; j < DIM; j++)
					sum[j] = terms ? sum[j] + w * u[j] : w * u[j];
				terms++;
			}
			assert_memory_equal(sum, v + i * DIM, sizeof sum);
		}
		mixer_free(x);
	}
}

static void sample(const struct ensemble *s, float *out, int64_t first, int64_t n, int64_t batch, enum solver_kind kind, struct pool *pool)
{
	static const double shares[] = {15, 10, 8, 5, 2};
	struct mixture m = s->mixture;
	struct sampler sm = {.mixture = &m, .solver = {kind, 6, 1, 0}, .seed = 9, .batch = batch};
	struct err e = {0};
	struct sampler_state *st;

	m.shares = shares;
	m.device = pool ? device_cpu(pool, DT_F32) : NULL;
	st = sampler_new(&sm, &e);
	assert_non_null(st);
	for (int64_t i = 0; i < n; i += batch) {
		int64_t index[64], rows = n - i < batch ? n - i : batch;
		int32_t chosen[64];

		for (int64_t j = 0; j < rows; j++) {
			index[j] = first + i + j;
			chosen[j] = (int32_t)(index[j] % 5);
		}
		assert_int_equal(sampler_run(st, out + i * DIM, &(struct sampler_call){.n = rows, .index = index, .chosen = chosen}, NULL, NULL, &e),
		                 0);
	}
	sampler_free(st);
	device_free(m.device);
}

/* Image i depends only on the seed and i, not on the batch, the experts' capacity, the number of images, the first image, or the number of
 * threads. */
static void images_depend_on_seed_and_index_alone(void **state)
{
	static const char *const routes[] = {"full",
	                                     "top-1",
	                                     "top-2",
	                                     "threshold:.2",
	                                     "switch:.5",
	                                     "sample",
	                                     "oracle",
	                                     "prior",
	                                     "expert:3",
	                                     "uniform|sample",
	                                     "prior|top-2",
	                                     "router:2|top-1|keep:.2",
	                                     "budget:250",
	                                     "router|top-2|raw|keep:.1",
	                                     "prior|sample@1,router|sample@.7,uniform|full@.3"};
	float all[20 * DIM], part[20 * DIM];
	struct err e = {0};
	struct pool *pool = pool_new(3, &e);

	(void)state;
	for (size_t r = 0; r < sizeof routes / sizeof *routes; r++)
		for (int kind = 0; kind < 2; kind++) {
			struct ensemble s;

			ensemble_init(&s, &points, routes[r], 64);
			sample(&s, all, 0, 20, 64, (enum solver_kind)kind, NULL);
			ensemble_init(&s, &points, routes[r], 2);
			sample(&s, part, 0, 20, 7, (enum solver_kind)kind, pool);
			assert_memory_equal(all, part, sizeof all);
			sample(&s, part, 13, 5, 1, (enum solver_kind)kind, NULL);
			assert_memory_equal(all + 13 * DIM, part, 5 * DIM * sizeof *all);
			assert_memory_not_equal(all, all + DIM, DIM * sizeof *all);
		}
	pool_free(pool);
}

/* Velocity = 10 k + label, which shows which expert got which label. */
struct probe {
	int k;
	int64_t rows, largest;
};

static int probe_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	struct probe *p = arg;

	const int32_t *label = c->label;

	(void)x;
	(void)t;
	(void)e;
	p->rows += n;
	p->largest = n > p->largest ? n : p->largest;
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)(10 * p->k + (label ? label[i] : 0));
	return 0;
}

/* Logits prefer expert round(x). */
static int probe_route(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	int k = *(const int *)arg;

	(void)t;
	(void)e;
	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < k; j++)
			logits[i * k + j] = -fabsf(x[i] - (float)j);
	return 0;
}

static void top_1_costs_one_expert(void **state)
{
	static int k = MAX_K;
	struct probe probe[MAX_K] = {{0}};
	struct expert expert[MAX_K];
	struct router router = {probe_route, &k, 4, 1e9};
	struct mixture m = {.k = MAX_K, .d = 1, .expert = expert, .router = &router, .policy = policy_of("top-1"), .cfg = 1};
	struct mixture_stats stats;
	float x[30], v[30];
	struct mixture_call c = {.n = 30, .t = .5, .x = x};
	struct err e = {0};
	struct mixer *mixer;
	int64_t rows = 0;

	(void)state;
	for (int j = 0; j < MAX_K; j++) {
		probe[j].k = j;
		expert[j] = (struct expert){.velocity = probe_run, .arg = &probe[j], .capacity = 4, .flops = 10e9};
	}
	for (int i = 0; i < 30; i++)
		x[i] = (float)(i * 7 % 5);
	mixture_stats_init(&stats, MAX_K, 1);
	mixer = mixer_new(&m, 30, &e);
	assert_int_equal(mixer_velocity(mixer, v, &c, &stats, &e), 0);
	for (int i = 0; i < 30; i++)
		assert_true(v[i] == 10 * x[i] && mixer_heaviest(mixer)[i] == (int)x[i]);
	for (int j = 0; j < MAX_K; j++) {
		rows += probe[j].rows;
		assert_true(probe[j].largest <= 4);
		assert_int_equal(probe[j].rows, j < 5 ? 6 : 0);
		assert_int_equal(stats.rows[j], probe[j].rows);
		assert_true((double)stats.mass[j] == MIXTURE_UNIT * (double)probe[j].rows);
	}
	assert_int_equal(rows, 30);
	assert_int_equal(stats.used, 30);
	assert_int_equal(stats.evaluations, 30);
	assert_true(fabs(mixture_gflop(&m, &stats) - 30 * 11) < 1e-9);
	assert_true(stats.entropy[0] > 0 && (double)stats.entropy[0] < 30 * log(MAX_K) * MIXTURE_UNIT);
	mixture_stats_release(&stats);
	mixer_free(mixer);
}

/* v_null + s (v_label - v_null), the null label being the number of classes; both halves in one call, and no more than capacity
 * rows. */
static void guidance(void **state)
{
	struct probe probe = {.k = 2};
	struct expert expert = {.velocity = probe_run, .arg = &probe, .capacity = 5, .classes = 7, .flops = 1};
	struct mixture m = {.k = 1, .d = 1, .expert = &expert, .policy = policy_of("expert:0"), .cfg = 3};
	float x[9] = {0}, v[9];
	int32_t label[9] = {0, 1, 2, 3, 4, 5, 6, -1, 2};
	struct mixture_call c = {.n = 9, .t = .5, .x = x, .label = label};
	struct err e = {0};
	struct mixer *mixer = mixer_new(&m, 9, &e);

	(void)state;
	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	for (int i = 0; i < 9; i++)
		assert_true(v[i] == (float)(27 + 3 * ((label[i] < 0 ? 7 : label[i]) - 7)));
	assert_int_equal(probe.rows, 18);
	assert_int_equal(probe.largest, 4);
	mixer_free(mixer);
	m.cfg = 1;
	probe.rows = 0;
	mixer = mixer_new(&m, 9, &e);
	assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
	for (int i = 0; i < 9; i++)
		assert_true(v[i] == (float)(20 + (label[i] < 0 ? 7 : label[i])));
	assert_int_equal(probe.rows, 9);
	mixer_free(mixer);
}

/* Velocity = x + the sum of the text's features + 100 the sum of its mask + 7 the sum of its pooled vector. */
static int reader_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)t;
	(void)e;
	assert_null(c->label);
	*(int64_t *)arg += n;
	for (int64_t i = 0; i < n; i++) {
		v[i] = x[i];
		for (int j = 0; j < 4; j++)
			v[i] += c->text[4 * i + j];
		for (int j = 0; c->mask && j < 2; j++)
			v[i] += 100 * c->mask[2 * i + j];
		for (int j = 0; c->pooled && j < 3; j++)
			v[i] += 7 * c->pooled[3 * i + j];
	}
	return 0;
}

/* Two experts that read texts, with a router: v_negative + s (v_text - v_negative) for each row's pair of texts, with any batch and capacity. The
 * router runs once per row. */
static void texts_guide(void **state)
{
	enum { N = 13, ROWS = 5 };
	static const float features[ROWS * 4] = {1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 4, 0, 8, 8, 8, 8, -1, -1, 0, .5f};
	static const float mask[ROWS * 2] = {0, 1, 0, 0, 1, 1, 0, 2, 0, 0};
	static const float pooled[ROWS * 3] = {1, 2, 4, 0, 0, 8, -2, 0, 0, .5f, 0, 0, 0, 0, 0};
	int64_t calls[2] = {0};
	int k = 2;
	struct expert expert[2] = {{.velocity = reader_run, .arg = &calls[0], .capacity = 6, .flops = 1, .text_tokens = 2, .text_width = 2},
	                           {.velocity = reader_run, .arg = &calls[1], .capacity = 5, .flops = 1, .text_tokens = 2, .text_width = 2}};
	struct router router = {probe_route, &k, 4, 1};
	struct mixture m = {.k = 2, .d = 1, .expert = expert, .router = &router, .policy = policy_of("top-1"), .cfg = 2.5};
	float x[N], v[N], one;
	int32_t text[N], negative[N];
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N; i++) {
		x[i] = (float)(i % 3 == 1);
		text[i] = i * 3 % ROWS;
		negative[i] = i % 2 ? 4 : 1;
	}
	for (int given = 0; given < 4; given++) {
		int masked = given & 1, pools = given >> 1;
		struct texts texts = {.features = features, .mask = masked ? mask : NULL, .rows = ROWS, .pooled = pools ? pooled : NULL};
		struct mixer *mixer;
		struct mixture_call c = {.n = N, .x = x, .texts = &texts, .text = text, .negative = negative};
		struct mixture_stats stats;

		expert[0].pooled_width = expert[1].pooled_width = pools ? 3 : 0;
		mixer = mixer_new(&m, N, &e);
		mixture_stats_init(&stats, 2, 1);
		calls[0] = calls[1] = 0;
		assert_int_equal(mixer_velocity(mixer, v, &c, &stats, &e), 0);
		assert_int_equal(calls[0] + calls[1], 2 * N);
		assert_int_equal(stats.router_rows, N);
		for (int i = 0; i < N; i++) {
			float u[2] = {x[i], x[i]};

			for (int side = 0; side < 2; side++)
				for (int j = 0, r = side ? negative[i] : text[i]; j < 4; j++)
					u[side] += features[4 * r + j] + (masked && j < 2 ? 100 * mask[2 * r + j] : 0) +
					           (pools && j < 3 ? 7 * pooled[3 * r + j] : 0);
			assert_true(v[i] == (float)(u[1] + 2.5 * (u[0] - u[1])));
			c = (struct mixture_call){.n = 1, .x = x + i, .texts = &texts, .text = text + i, .negative = negative + i};
			assert_int_equal(mixer_velocity(mixer, &one, &c, NULL, &e), 0);
			assert_memory_equal(&one, v + i, sizeof one);
		}
		mixture_stats_release(&stats);
		mixer_free(mixer);
	}
}

static int still_run(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e)
{
	(void)arg;
	(void)x;
	(void)t;
	(void)c;
	(void)e;
	memset(v, 0, (size_t)n * 16 * sizeof *v);
	return 0;
}

/* Image i of a seed starts from row i of torch.randn(n, 16), in whatever order the images are requested. */
static void noise_of_torch(void **state)
{
	static const int64_t index[5] = {1, 3, 0, 2, 2};
	static const uint64_t seed[5] = {7, 7, 7, 8, 7};
	struct expert expert = {.velocity = still_run, .capacity = 5, .flops = 1};
	struct mixture m = {.k = 1, .d = 16, .expert = &expert, .policy = policy_of("expert:0"), .cfg = 1};
	struct sampler sm = {.mixture = &m, .solver = {SOLVER_EULER, 1, 1, 0}, .batch = 5, .torch = 1};
	float x[5 * 16], want[2][4 * 16];
	struct sampler_state *st;
	struct err e = {0};

	(void)state;
	for (uint64_t s = 0; s < 2; s++) {
		struct torch_rng r;

		torch_seed(&r, 7 + s);
		torch_randn(&r, want[s], 4 * 16);
	}
	st = sampler_new(&sm, &e);
	assert_int_equal(sampler_run(st, x, &(struct sampler_call){.n = 5, .index = index, .seed = seed}, NULL, NULL, &e), 0);
	for (int i = 0; i < 5; i++)
		assert_memory_equal(x + 16 * i, want[seed[i] - 7] + 16 * index[i], 16 * sizeof *x);
	sampler_free(st);
}

static void impossible_requests(void **state)
{
	struct ensemble s;
	struct err e = {0};

	(void)state;
	ensemble_init(&s, &points, "top-6", 4);
	assert_null(mixer_new(&s.mixture, 4, &e));
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	ensemble_init(&s, &points, "budget:109.9", 4);
	assert_null(sampler_new(&(struct sampler){.mixture = &s.mixture, .solver = {SOLVER_EULER, 10, 1, 0}, .batch = 4}, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_string_equal(e.msg, "route budget:109.9: 10 evaluations with one expert each take 110 GFLOP a picture");
	e.code = 0;
	ensemble_init(&s, &points, "expert:1", 4);
	s.expert[1].velocity = NULL;
	assert_null(mixer_new(&s.mixture, 4, &e));
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	ensemble_init(&s, &points, "full", 4);
	s.mixture.router = NULL;
	assert_null(mixer_new(&s.mixture, 4, &e));
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	ensemble_init(&s, &points, "full", 4);
	s.mixture.cfg = 2;
	assert_null(mixer_new(&s.mixture, 4, &e));
	assert_int_equal(e.code, ERR_USAGE);
}

/* Shares of 4000 draws within five standard errors; with classes, the shares of each class; an absent expert is left out. */
static void prior_draws_the_shares(void **state)
{
	enum { N = 4000 };
	struct ensemble s;
	const double shares[] = {4, 3, 2, 1, 0}, by_class[] = {1, 0, 0, 0, 0, 0, 0, 0, 1, 1};
	struct sampler sm = {.mixture = &s.mixture, .solver = {SOLVER_EULER, 1, 1, 0}, .seed = 3, .batch = N};
	struct err e = {0};
	struct sampler_state *st;
	static float x[N * DIM];
	static int64_t index[N];
	static int32_t label[N], got[N];
	int count[5] = {0};

	(void)state;
	ensemble_init(&s, &points, "prior", N);
	s.mixture.shares = shares;
	for (int i = 0; i < N; i++) {
		index[i] = i;
		label[i] = i & 1;
	}
	st = sampler_new(&sm, &e);
	assert_int_equal(sampler_run(st, x, &(struct sampler_call){.n = N, .index = index}, got, NULL, &e), 0);
	sampler_free(st);
	for (int i = 0; i < N; i++)
		count[got[i]]++;
	for (int k = 0; k < 5; k++)
		assert_true(abs(count[k] - (int)(N * shares[k] / 10)) <= 5 * .5 * sqrt(N) * (shares[k] > 0));
	s.mixture.class_shares = by_class;
	s.mixture.classes = 2;
	st = sampler_new(&sm, &e);
	assert_int_equal(sampler_run(st, x, &(struct sampler_call){.n = N, .index = index, .label = label}, got, NULL, &e), 0);
	sampler_free(st);
	for (int i = 0; i < N; i++)
		assert_true(i & 1 ? got[i] >= 3 : got[i] == 0);
	s.mixture.shares = s.mixture.class_shares = NULL;
	assert_null(sampler_new(&sm, &e));
	assert_int_equal(e.code, ERR_USAGE);
}

/* Squared distances to the four means of policy_masses. */
static int to_means(void *arg, double *squared, const float *x0, int64_t n, struct err *e)
{
	const float *mean = arg;

	(void)e;
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < 4; k++)
			squared[i * 4 + k] = pow((double)x0[2 * i] - mean[2 * k], 2) + pow((double)x0[2 * i + 1] - mean[2 * k + 1], 2);
	return 0;
}

/* Four Gaussians in the plane with shares .4 .3 .2 .1, exact experts and router, 50 Euler steps: the share of each cluster in the samples of a
 * policy, and its total variation from the shares. Means and deviation were chosen so that top-1, top-2 and the switch at .8 give the published
 * masses within .02. It is a result that full, prior and a draw per step then give the shares. 3000 samples have a standard error of .009, and
 * Euler's error is added: the tolerance is .03 per cluster (three standard errors), and .03 for the total variation. */
static void policy_masses(void **state)
{
	enum { N = 3000 };
	static const float mean[] = {0, 1.5f, 1.9f, -1.35f, -.8f, -2.7f, -5, .25f};
	static const double shares[] = {.4, .3, .2, .1};
	static const int32_t cluster[] = {0, 1, 2, 3};
	static const struct exact m = {4, 2, 4, mean, shares, cluster, .47};
	static const struct {
		const char *route;
		double mass[4], tv, used;
	} expected[] = {
	    {"full", {.40, .31, .20, .09}, .015, 4},
	    {"top-1", {.71, .20, .06, .03}, .31, 1},
	    {"top-2", {.47, .32, .15, .06}, .09, 2},
	    {"prior", {.40, .31, .19, .10}, .010, 1},
	    {"switch:.8", {.54, .29, .11, .07}, .14, 0},
	    {"sample", {.40, .30, .20, .10}, .006, 1},
	    /* One expert drawn by the shares is exact down to any t, and so is the full ensemble from there. */
	    {"prior@1,full@.6", {.40, .30, .20, .10}, .01, 0},
	    {"full@1,sample@.6", {.40, .30, .20, .10}, .01, 0},
	    {"uniform|sample", {.25, .25, .25, .25}, .20, 1},
	    /* From t = .5 on the nearest centroid is nearly always that of the picture's cluster. */
	    {"prior@1,distance|top-1@.5", {.40, .31, .20, .09}, .01, 1},
	    /* The GFLOP of top-2, but with more experts when the router is uncertain: closer to full. */
	    {"budget:1050", {.40, .31, .20, .09}, .015, 0},
	};
	static float x[N * 2];
	static int64_t index[N];

	(void)state;
	for (int i = 0; i < N; i++)
		index[i] = i;
	for (size_t r = 0; r < sizeof expected / sizeof *expected; r++) {
		struct ensemble s;
		struct sampler sm = {.mixture = &s.mixture, .solver = {SOLVER_EULER, 50, 1, 0}, .seed = 11, .batch = N};
		struct mixture_stats stats;
		struct err e = {0};
		struct sampler_state *st;
		double mass[4] = {0}, tv = 0;

		ensemble_init(&s, &m, expected[r].route, N);
		s.mixture.shares = shares;
		s.mixture.distances = to_means;
		s.mixture.distances_arg = (void *)(uintptr_t)mean;
		st = sampler_new(&sm, &e);
		mixture_stats_init(&stats, 4, 50);
		assert_int_equal(sampler_run(st, x, &(struct sampler_call){.n = N, .index = index}, NULL, &stats, &e), 0);
		for (int i = 0; i < N; i++) {
			double p[4];
			int best = 0;

			posterior(&m, 1e-3, x + 2 * i, p);
			for (int k = 1; k < 4; k++)
				best = p[k] > p[best] ? k : best;
			mass[best] += 1. / N;
		}
		for (int k = 0; k < 4; k++) {
			assert_true(fabs(mass[k] - expected[r].mass[k]) < .03);
			tv += .5 * fabs(mass[k] - shares[k]);
		}
		assert_true(fabs(tv - expected[r].tv) < .03);
		if (!strncmp(expected[r].route, "budget:", 7))
			assert_true(mixture_gflop(&s.mixture, &stats) <= N * 1050 && mixture_gflop(&s.mixture, &stats) > N * 1000);
		if (expected[r].used > 0)
			assert_true((double)stats.used / (double)stats.evaluations == expected[r].used);
		mixture_stats_release(&stats);
		sampler_free(st);
	}
}

/* At the first evaluation the weights are the shares; then exp(-D / T) of the sample that the evaluation before predicted, at its own state x. */
static void distances_follow_the_prediction(void **state)
{
	static float mean[] = {0, 1.5f, 1.9f, -1.35f, -.8f, -2.7f, -5, .25f};
	static const double shares[] = {4, 3, 2, 1};
	static const int32_t cluster[] = {0, 1, 2, 3};
	const struct exact m = {4, 2, 4, mean, NULL, cluster, .47};
	float x[2][3 * 2] = {{.3f, -1, 2, .5f, -3, 1}, {7, 7, -7, 0, 1, 1}}, v[2][3 * 2];
	struct ensemble s;
	struct err e = {0};
	struct mixer *mixer;

	(void)state;
	ensemble_init(&s, &m, "distance:2|full", 3);
	s.mixture.router = NULL;
	assert_null(mixer_new(&s.mixture, 3, &e));
	assert_string_equal(e.msg, "weights by distance need the centroids of the clusters");
	s.mixture.shares = shares;
	s.mixture.distances = to_means;
	s.mixture.distances_arg = mean;
	mixer = mixer_new(&s.mixture, 3, &e);
	for (int call = 0; call < 2; call++) {
		struct mixture_call c = {.n = 3, .step = call, .evaluation = call, .evaluations = 2, .t = call ? .4 : .75, .x = x[call]};

		assert_int_equal(mixer_velocity(mixer, v[call], &c, NULL, &e), 0);
		for (int i = 0; i < 3; i++) {
			const double *w = mixer_weights(mixer) + i * 4;
			float x0[2] = {(float)(x[0][2 * i] - .75 * v[0][2 * i]), (float)(x[0][2 * i + 1] - .75 * v[0][2 * i + 1])};
			double d[4], sum = 0;

			to_means(mean, d, x0, 1, &e);
			for (int k = 0; k < 4; k++)
				sum += exp(-d[k] / 2);
			for (int k = 0; k < 4; k++)
				assert_true(fabs(w[k] - (call ? exp(-d[k] / 2) / sum : shares[k] / 10)) < 1e-12);
		}
	}
	mixer_free(mixer);
	s.mixture.own = &path_linear;
	assert_null(mixer_new(&s.mixture, 3, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(decomposition_is_exact),
	    cmocka_unit_test(mixer_gives_the_marginal_flow),
	    cmocka_unit_test(router_optimum),
	    cmocka_unit_test(limits_of_policies_are_bitwise),
	    cmocka_unit_test(grouping_changes_nothing),
	    cmocka_unit_test(images_depend_on_seed_and_index_alone),
	    cmocka_unit_test(top_1_costs_one_expert),
	    cmocka_unit_test(guidance),
	    cmocka_unit_test(texts_guide),
	    cmocka_unit_test(noise_of_torch),
	    cmocka_unit_test(impossible_requests),
	    cmocka_unit_test(prior_draws_the_shares),
	    cmocka_unit_test(policy_masses),
	    cmocka_unit_test(distances_follow_the_prediction),
	};

	return cmocka_run_group_tests(tests, make_points, NULL);
}
