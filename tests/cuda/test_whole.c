/* The GPU against the CPU: memory and queues, whole training steps of a DiT and a router, training from the loader to the checkpoint, and
 * sampling. An error is the norm of a difference over the norm of the CPU's result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "data/dataset.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "kernels/profile.h"
#include "tests/cuda/remote.h"
#include "tests/cuda/wholestep.h"
#include "tests/unit/stripes.h"
#include "tests/unit/tinyrun.h"
#include "tests/unit/trunknet.h"
#include "train/trainer.h"

static char dir[] = "/tmp/ddm-cuda-XXXXXX", *shards;
static struct pool *pool;

static struct device *gpu(void)
{
	struct err e = {0};
	struct device *d = remote_open(pool, &e);

	if (!d) {
		printf("# needs cuda: %s\n", e.msg);
		skip();
	}
	return d;
}

static void well(struct device *d)
{
	struct err e = {0};

	if (d->sync(d, &e))
		fail_msg("%s", e.msg);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	pool = pool_new(2, NULL);
	shards = make_shards(dir, "shards", 0, 2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(shards);
	pool_free(pool);
	return dir_remove(dir, NULL);
}

static void near(const char *what, const float *got, const float *want, int64_t n, double tol)
{
	double err = step_distance(got, want, n);

	printf("# %s: error %.2e, %.0e allowed\n", what, err, tol);
	if (!(err <= tol))
		fail_msg("%s: error %.3g, %.3g allowed; the first values are %g and %g", what, err, tol, (double)got[0], (double)want[0]);
}

/* Copies that are longer than the staging buffers, of an odd length. */
static void memory(void **state)
{
	enum { N = 11000003 };
	struct device *d = gpu();
	struct device_memory before, after;
	unsigned char *host = mem_alloc(N), *back = mem_zalloc(N, 1), *pinned = d->alloc_host(d, N, "bytes", NULL);
	unsigned char *a = d->alloc(d, N, "bytes", NULL), *b;
	void *event = d->event_new(d);
	struct err e = {0};

	(void)state;
	device_get(d, back, a, N);
	for (int i = 0; i < N; i++)
		if (back[i])
			fail_msg("byte %d of new memory is %d", i, back[i]);
	d->memory(d, &before);
	b = d->alloc(d, N, "bytes", NULL);
	d->memory(d, &after);
	assert_true(after.used == before.used + N && after.peak >= after.used);
	for (int i = 0; i < N; i++)
		host[i] = (unsigned char)(i * 7 + i / 251);
	device_put(d, a, host, N);
	memset(host, 0, N); /* put has read it on return */
	device_copy(d, b, a, N);
	d->fill(d, 0, a, 0x5a, N);
	d->event_record(d, event, 0);
	d->event_follow(d, event, 1);
	d->fetch(d, 1, pinned, b, N);
	d->event_record(d, event, 1);
	assert_int_equal(d->event_passed(d, event, 1), 1);
	device_get(d, back, a, N);
	for (int i = 0; i < N; i++)
		if (pinned[i] != (unsigned char)(i * 7 + i / 251) || back[i] != 0x5a)
			fail_msg("byte %d came back as %d and %d", i, pinned[i], back[i]);
	assert_null(d->alloc(d, (size_t)1 << 50, "a petabyte", &e));
	assert_int_equal(e.code, ERR_NOMEM);
	printf("# %s\n", e.msg);
	well(d);
	d->event_free(d, event);
	d->release_host(d, pinned);
	d->release(d, a);
	d->release(d, b);
	mem_free(host);
	mem_free(back);
	device_free(d);
}

enum { ROWS = 6, USED = 5 };

static const struct {
	struct net_config common;
	struct trunk_config own;
} nets[] = {
    {{.def = &net_dit, .channels = 4, .out_channels = 4, .size = 16, .classes = 7, .class_dropout = .1, .time_scale = 1000},
     {.patch = 2, .hidden = 128, .depth = 2, .heads = 2, .mlp_ratio = 4}},
    {{.def = &net_dit, .channels = 3, .out_channels = 3, .size = 12, .time_scale = 1000},
     {.patch = 4, .hidden = 144, .depth = 2, .heads = 2, .mlp_ratio = 3}},
    {{.def = &net_router, .channels = 4, .size = 16, .clusters = 5, .time_scale = 1000},
     {.patch = 2, .hidden = 96, .depth = 2, .heads = 3, .mlp_ratio = 4}},
};

static void same_gradients(const struct step *got, const struct step *want, double tol)
{
	const char *which;
	double worst = step_gradient_error(got, want, &which);

	printf("# gradients: worst error %.2e, of %s, %.0e allowed\n", worst, which, tol);
	if (!(worst <= tol))
		fail_msg("gradient of %s: error %.3g, %.3g allowed", which, worst, tol);
}

static void same_step(struct device *d, enum precision precision, double tol)
{
	struct device *cpu = device_cpu(pool, DT_F32);
	struct err e = {0};

	if (device_set_precision(d, precision, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
		struct net_config net = trunk_net(nets[i].common, nets[i].own);
		struct step a, b, again;
		int bf16 = precision == PRECISION_BF16;

		printf("# network %d, %s\n", (int)i, precision_names[precision]);
		step_run(&a, &net, cpu, &(struct step_options){ROWS, USED, .times = 1});
		step_run(&b, &net, d, &(struct step_options){ROWS, USED, bf16, .times = 1});
		step_run(&again, &net, d, &(struct step_options){ROWS, USED, bf16, .times = 3});
		if (!(step_distance(b.out, a.out, a.outs) <= tol && step_gradient_error(&b, &a, NULL) <= 4 * tol))
			step_explain(&net, cpu, d, ROWS, USED, bf16, 4 * tol);
		near("output", b.out, a.out, a.outs, tol);
		near("loss", b.each, a.each, USED, tol);
		same_gradients(&b, &a, 4 * tol);
		/* The third run is launched as a graph if the device has graphs. */
		assert_memory_equal(b.out, again.out, (size_t)a.outs * sizeof *a.out);
		assert_memory_equal(b.grads, again.grads, (size_t)a.params.trainable * sizeof *a.grads);
		if (d->uncaptured[0])
			fail_msg("a step was not captured: %s", d->uncaptured);
		step_free(&a);
		step_free(&b);
		step_free(&again);
	}
	device_free(cpu);
}

static void steps_in(enum precision precision, double tol)
{
	struct device *d = gpu();

	if (precision != PRECISION_F32 && !(d->storage >> DT_BF16 & 1)) {
		device_free(d);
		printf("# needs cuda: this device computes in float alone\n");
		skip();
	}
	same_step(d, precision, tol);
	device_free(d);
}

/* The order of sums differs: a few hundred roundings of 6e-8. */
static void steps_f32(void **state)
{
	(void)state;
	steps_in(PRECISION_F32, 2e-5);
}

/* Factors have 10 bits: 3e-4 for one product, and a dozen products follow each other. */
static void steps_tf32(void **state)
{
	(void)state;
	steps_in(PRECISION_TF32, 5e-3);
}

/* All values have 8 bits. */
static void steps_bf16(void **state)
{
	(void)state;
	steps_in(PRECISION_BF16, 4e-2);
}

enum { CURVE = 200, SMALL_CURVE = 12 };

/* Steps of a curve, and how many of the last are averaged. */
static int curve_steps(void)
{
	return remote_small() ? SMALL_CURVE : CURVE;
}

static int curve_tail(void)
{
	return curve_steps() / 4;
}

struct curve {
	double loss[CURVE + 1];
	volatile sig_atomic_t stop;
	int64_t stop_at;
};

static void on_step(void *arg, const struct train_step *s)
{
	struct curve *c = arg;

	if (s->step <= CURVE)
		c->loss[s->step] = s->loss;
	if (s->step == c->stop_at)
		c->stop = 1;
}

static void on_line(void *arg, const char *line)
{
	(void)arg;
	printf("# %s\n", line);
}

static struct train_options options(const struct net_def *def, const char *out, enum precision precision, int64_t steps)
{
	struct train_options o = tiny_run(def, shards, out);

	trunk_edit(&o.net)->hidden = 64;
	trunk_edit(&o.net)->mlp_ratio = 4;
	o.steps = steps;
	o.batch = remote_small() ? 4 : 16;
	o.accumulate = 2;
	o.lr = 2e-3;
	o.checkpoint.steps = 7;
	o.sample_every = 0;
	o.validate_samples = 0;
	o.log_every = 1;
	o.precision = precision;
	if (def == &net_dit)
		o.condition = CONDITION_CLASS;
	return o;
}

/* Train on a device. If stop_at is not 0, the run is interrupted after that step and continued. */
static void train_on(struct device *d, struct train_options o, struct curve *c)
{
	struct train_hooks h = {.step = on_step, .say = on_line, .arg = c, .stop = &c->stop};
	struct err e = {0};

	if (device_set_precision(d, o.precision, &e))
		fail_msg("%s", e.msg);
	if (c->stop_at) {
		assert_int_equal(train_run(&o, d, &h, &e), -1);
		if (e.code != ERR_AGAIN)
			fail_msg("%s", e.msg);
		e = (struct err){0};
	}
	c->stop_at = 0;
	c->stop = 0;
	if (train_run(&o, d, &h, &e))
		fail_msg("%s", e.msg);
}

static double mean_of(const double *x, int from, int to)
{
	double sum = 0;

	for (int i = from; i < to; i++)
		sum += x[i] / (to - from);
	return sum;
}

/* The curves diverge slowly, as rounding errors grow. The first steps agree closely, the mean of the last quarter within their noise. A small
 * curve has not learned anything yet. */
static void loss_curves(void **state)
{
	static const enum precision ways[] = {PRECISION_F32, PRECISION_BF16};
	struct device *d = gpu(), *cpu = device_cpu(pool, DT_F32);
	struct curve a = {.stop_at = 0}, b;
	char *out = path_join(dir, "curve-cpu");
	int steps = curve_steps(), tail = curve_tail();

	(void)state;
	train_on(cpu, options(&net_dit, out, PRECISION_F32, steps), &a);
	mem_free(out);
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
		double first = 0, last, want = mean_of(a.loss, steps - tail + 1, steps + 1), spread = 0;
		int bf16 = ways[w] == PRECISION_BF16;

		if (bf16 && !(d->storage >> DT_BF16 & 1))
			continue;
		out = str_new("%s/curve-%d", dir, (int)w);
		b = (struct curve){.stop_at = 0};
		train_on(d, options(&net_dit, out, ways[w], steps), &b);
		for (int s = 1; s <= 5; s++)
			first = fmax(first, fabs(b.loss[s] / a.loss[s] - 1));
		for (int s = steps - tail + 1; s <= steps; s++)
			spread += (a.loss[s] - want) * (a.loss[s] - want) / tail;
		spread = sqrt(spread / tail);
		last = mean_of(b.loss, steps - tail + 1, steps + 1);
		printf("# %s: first five steps within %.2e, last quarter %.5f, of the CPU %.5f, standard error %.5f\n", precision_names[ways[w]],
		       first, last, want, spread);
		assert_true(want < .8 * a.loss[1] || remote_small());
		if (!(first < (bf16 ? 3e-2 : 1e-3)) || !(fabs(last - want) < 4 * spread + .02 * want))
			fail_msg("%s: loss %.5f of the last quarter, of the CPU %.5f; the first five within %.3g", precision_names[ways[w]], last,
			         want, first);
		mem_free(out);
	}
	device_free(d);
	device_free(cpu);
}

static void hash_of(const char *folder, const char *name, char hex[65])
{
	char *path = path_join(folder, name);
	struct err e = {0};

	if (sha256_file(path, hex, NULL, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
}

/* Two runs, and a third one with an interruption: the same bytes of weights and moments. */
static void repeats(const struct net_def *def, enum precision precision, const char *name)
{
	const char *weights = def == &net_dit ? "diffusion_pytorch_model.safetensors" : "model.safetensors";
	char hex[3][2][65];

	for (int k = 0; k < 3; k++) {
		struct device *d = gpu();
		struct curve c = {.stop_at = k == 2 ? 9 : 0};
		char *out = str_new("%s/%s-%s-%d", dir, name, precision_names[precision], k);

		train_on(d, options(def, out, precision, 20), &c);
		hash_of(out, weights, hex[k][0]);
		hash_of(out, "train/step-00000020/exp_avg_sq.safetensors", hex[k][1]);
		mem_free(out);
		device_free(d);
	}
	for (int k = 1; k < 3; k++)
		for (int i = 0; i < 2; i++)
			if (strcmp(hex[0][i], hex[k][i]))
				fail_msg("%s, %s: %s of %s are other bytes", name, precision_names[precision], i ? "moments" : "weights",
				         k == 1 ? "a second run" : "a run that was interrupted");
}

static void runs_repeat(void **state)
{
	struct device *d = gpu();
	int bf16 = d->storage >> DT_BF16 & 1;

	(void)state;
	device_free(d);
	repeats(&net_dit, PRECISION_F32, "dit");
	repeats(&net_router, PRECISION_F32, "router");
	if (bf16)
		repeats(&net_dit, PRECISION_BF16, "dit");
}

/* A profile changes no byte and keeps the graphs. It counts the same calls as a profile on the CPU, and each op took time. The peak memory of
 * the run is the planned one. */
static void profiles(void **state)
{
	struct device *d = gpu(), *cpu = device_cpu(pool, DT_F32);
	struct op_profile there[OP_COUNT], here[OP_COUNT];
	char *out = path_join(dir, "profiled"), *again = path_join(dir, "unprofiled"), x[65], y[65];
	struct train_options o = options(&net_dit, out, device_precision(d), 6);
	struct net_config net = trunk_net(nets[0].common, nets[0].own);
	struct curve c = {.stop_at = 0};
	struct device_memory m;
	struct train_plan plan;
	struct step step;
	struct profile *p;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		p = profile_new(i ? cpu : d);
		step_run(&step, &net, i ? cpu : d, &(struct step_options){ROWS, USED, .times = i || !d->capture_begin ? 3 : 4});
		profile_read(p, i ? here : there);
		profile_free(p);
		step_free(&step);
	}
	for (int i = 0; i < OP_COUNT; i++) {
		assert_int_equal(there[i].count, here[i].count);
		assert_true(there[i].flops == here[i].flops && there[i].bytes == here[i].bytes);
		assert_true(!there[i].count || there[i].seconds > 0);
	}
	o.profile = 1;
	o.validate_samples = 0;
	if (device_set_precision(d, o.precision, &e) || train_plan(&o, d, &plan, &e))
		fail_msg("%s", e.msg);
	d->memory(d, &m);
	printf("# opened: %.1f MB taken beside what is allocated\n", ((double)m.total - (double)m.free - (double)m.used) * 1e-6);
	device_free(d);
	d = gpu();
	train_on(d, o, &c);
	d->memory(d, &m);
	printf("# planned %.3f MB, at most %.3f MB; %.1f MB taken beside\n", (double)plan.device * 1e-6, (double)m.peak * 1e-6,
	       ((double)m.total - (double)m.free - (double)m.used) * 1e-6);
	assert_true(fabs((double)plan.device / (double)m.peak - 1) < .05);
	if (d->uncaptured[0])
		fail_msg("a step was not captured: %s", d->uncaptured);
	o.profile = 0;
	o.out = again;
	train_on(d, o, &c);
	hash_of(out, "diffusion_pytorch_model.safetensors", x);
	hash_of(again, "diffusion_pytorch_model.safetensors", y);
	assert_string_equal(x, y);
	device_free(d);
	device_free(cpu);
	mem_free(out);
	mem_free(again);
}

/* The logits of the CPU's router, call by call, so that the GPU uses the same experts. Otherwise the last bit of a logit may change a choice. */
struct replayed {
	const struct router *own;
	struct device *device;
	int64_t k, at;
	float *logits; /* (calls, k) in the order of the calls */
	int record;
};

enum { CALLS = 4096 };

static int replay(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	struct replayed *r = arg;
	size_t bytes = (size_t)(n * r->k) * sizeof *logits;
	float *host = mem_alloc(bytes);
	int rc = r->own->logits(r->own->arg, n, x, t, logits, e);

	assert_true(r->at + n <= CALLS);
	device_get(r->device, host, logits, bytes);
	if (r->record)
		memcpy(r->logits + r->at * r->k, host, bytes);
	else if (!(step_distance(host, r->logits + r->at * r->k, n * r->k) <= 2e-2))
		fail_msg("the router's logits at call row %d: error %.3g", (int)r->at, step_distance(host, r->logits + r->at * r->k, n * r->k));
	device_put(r->device, logits, r->logits + r->at * r->k, bytes);
	r->at += n;
	mem_free(host);
	return rc;
}

static void train_ensemble(void)
{
	static const char *const names[] = {"expert_0", "expert_1", "router"};
	struct device *cpu = device_cpu(pool, DT_F32);
	char *first = path_join(dir, "model/router/model.safetensors");

	for (int i = 0; i < 3 && !path_exists(first); i++) {
		char *out = str_new("%s/model/%s", dir, names[i]);
		struct train_options o = options(i < 2 ? &net_dit : &net_router, out, PRECISION_F32, 60);
		struct curve c = {.stop_at = 0};

		if (i < 2)
			o.cluster = i;
		o.objective.prediction = i == 1 ? PREDICT_X0 : PREDICT_VELOCITY;
		train_on(cpu, o, &c);
		mem_free(out);
	}
	mem_free(first);
	device_free(cpu);
}

enum { PICTURES = 7, BATCH = 4 };

/* Sample PICTURES pictures on a device: (PICTURES, d) in host memory. */
static float *sample_on(struct device *d, const char *route, double cfg, enum solver_kind solver, struct replayed *r, int64_t *count)
{
	char *folder = path_join(dir, "model");
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = 2 * BATCH, .device = d};
	struct ensemble s;
	struct mixture m;
	struct router router;
	struct sampler sampler;
	struct sampler_state *st;
	struct err e = {0};
	float *x;

	assert_int_equal(policy_parse(route, &o.policy, &e), 0);
	if (ensemble_open(&s, folder, &o, &e))
		fail_msg("%s", e.msg);
	*count = PICTURES * s.d;
	x = mem_zalloc((size_t)*count, sizeof *x);
	router = (struct router){replay, r, s.router.capacity, 0};
	r->own = &s.router;
	r->device = d;
	r->k = s.k;
	r->at = 0;
	m = (struct mixture){.k = s.k,
	                     .d = s.d,
	                     .expert = s.expert,
	                     .router = s.router.logits ? &router : NULL,
	                     .policy = o.policy,
	                     .cfg = cfg,
	                     .seed = 3,
	                     .device = d,
	                     .shares = s.shares};
	sampler = (struct sampler){.mixture = &m, .solver = {solver, 6, 1, 0}, .seed = 3, .batch = BATCH, .order = ensemble_order, .order_arg = &s};
	if (!(st = sampler_new(&sampler, &e)))
		fail_msg("%s", e.msg);
	for (int64_t at = 0; at < PICTURES; at += BATCH) {
		int64_t rows = PICTURES - at < BATCH ? PICTURES - at : BATCH, index[BATCH];
		int32_t label[BATCH];

		for (int64_t i = 0; i < rows; i++) {
			index[i] = 10 + at + i;
			label[i] = (int32_t)((at + i) % 2);
		}
		if (sampler_run(st, x + at * s.d, &(struct sampler_call){.n = rows, .index = index, .label = label}, NULL, NULL, &e))
			fail_msg("%s", e.msg);
	}
	sampler_free(st);
	ensemble_release(&s);
	mem_free(folder);
	return x;
}

static void sampling(void **state)
{
	static const struct {
		const char *route;
		double cfg;
		enum solver_kind solver;
	} ways[] = {{"top-1", 1, SOLVER_EULER}, {"top-1", 3, SOLVER_EULER}, {"top-2", 2, SOLVER_HEUN},
	            {"full", 1, SOLVER_HEUN},   {"prior", 1, SOLVER_HEUN},  {"expert:1", 2, SOLVER_EULER}};
	struct device *d = gpu(), *cpu = device_cpu(pool, DT_F32);
	struct err e = {0};

	(void)state;
	train_ensemble();
	if (device_set_precision(d, PRECISION_F32, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct replayed r = {.record = 1, .logits = mem_zalloc(CALLS * 2, sizeof(float))};
		int64_t n;
		float *a = sample_on(cpu, ways[i].route, ways[i].cfg, ways[i].solver, &r, &n), *b, *c;

		r.record = 0;
		b = sample_on(d, ways[i].route, ways[i].cfg, ways[i].solver, &r, &n);
		c = sample_on(d, ways[i].route, ways[i].cfg, ways[i].solver, &r, &n);
		near(ways[i].route, b, a, n, 1e-3);
		assert_memory_equal(b, c, (size_t)n * sizeof *b);
		mem_free(a);
		mem_free(b);
		mem_free(c);
		mem_free(r.logits);
	}
	well(d);
	device_free(d);
	device_free(cpu);
}

enum { MANY = 64, FEW_STEPS = 3 };

/* Pictures that are sampled, at most MANY. */
static int64_t many(void)
{
	return remote_small() ? 8 : MANY;
}

/* Sample many() pictures in batches of `batch` with the device's own router: (many(), d). */
static float *sample_many(struct device *d, const char *route, enum compact_type bulk, int64_t batch, int64_t *count)
{
	char *folder = path_join(dir, "model");
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = 2 * batch, .bulk = bulk, .device = d};
	struct ensemble s;
	struct mixture m;
	struct sampler sampler;
	struct sampler_state *st;
	struct err e = {0};
	int64_t index[MANY];
	int32_t label[MANY];
	float *x;

	assert_int_equal(policy_parse(route, &o.policy, &e), 0);
	if (ensemble_open(&s, folder, &o, &e))
		fail_msg("%s", e.msg);
	*count = many() * s.d;
	x = mem_zalloc((size_t)*count, sizeof *x);
	m = (struct mixture){
	    .k = s.k, .d = s.d, .expert = s.expert, .router = &s.router, .policy = o.policy, .cfg = 2, .seed = 3, .device = d, .shares = s.shares};
	sampler = (struct sampler){
	    .mixture = &m, .solver = {SOLVER_EULER, FEW_STEPS, 1, 0}, .seed = 3, .batch = batch, .order = ensemble_order, .order_arg = &s};
	if (!(st = sampler_new(&sampler, &e)))
		fail_msg("%s", e.msg);
	for (int64_t i = 0; i < many(); i++) {
		index[i] = 10 + i;
		label[i] = (int32_t)(i % 2);
	}
	for (int64_t at = 0; at < many(); at += batch) {
		struct sampler_call c = {.n = many() - at < batch ? many() - at : batch, .index = index + at, .label = label + at};

		if (sampler_run(st, x + at * s.d, &c, NULL, NULL, &e))
			fail_msg("%s", e.msg);
	}
	sampler_free(st);
	ensemble_release(&s);
	mem_free(folder);
	return x;
}

/* Batches of all, 7 and 1 give the same bytes, although the router groups the pictures anew at every step. Without batch invariance they may differ.
 * */
static void any_batch(void **state)
{
	const int64_t batches[] = {many(), 7, 1};
	static const struct {
		const char *route;
		enum compact_type bulk;
	} ways[] = {{"top-1", COMPACT_NONE}, {"top-1", COMPACT_BF16}, {"full", COMPACT_BF16}};
	struct device *d = gpu();
	struct err e = {0};

	(void)state;
	train_ensemble();
	if (device_set_precision(d, PRECISION_F32, &e))
		fail_msg("%s", e.msg);
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
		for (int on = 0; on < 2; on++) {
			float *x[3] = {0};
			int64_t n;

			device_set_invariant(d, on);
			for (int b = 0; b < 3; b++)
				x[b] = sample_many(d, ways[w].route, ways[w].bulk, batches[b], &n);
			for (int b = 1; b < 3; b++) {
				int64_t differ = 0;

				for (int64_t i = 0; i < many(); i++)
					differ += memcmp(x[0] + i * (n / many()), x[b] + i * (n / many()), (size_t)(n / many()) * sizeof(float)) != 0;
				printf("# %s, %s%s: %d of %d pictures differ between batches of %d and %d\n", ways[w].route,
				       ways[w].bulk == COMPACT_BF16 ? "bf16" : "f32", on ? ", invariant" : "", (int)differ, (int)many(), (int)many(),
				       (int)batches[b]);
				assert_true(!on || !differ);
			}
			for (int b = 0; b < 3; b++)
				mem_free(x[b]);
		}
	well(d);
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(memory),     cmocka_unit_test(steps_f32),   cmocka_unit_test(steps_tf32),
	                                   cmocka_unit_test(steps_bf16), cmocka_unit_test(loss_curves), cmocka_unit_test(runs_repeat),
	                                   cmocka_unit_test(profiles),   cmocka_unit_test(sampling),    cmocka_unit_test(any_batch)};

	remote_filter();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
