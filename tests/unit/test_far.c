/* A device whose memory the host cannot access: training, resuming, validation, sheets and sampling give the CPU's bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/dataset.h"
#include "file/fileio.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "net/trunkconfig.h"
#include "tests/unit/far.h"
#include "tests/unit/folderhash.h"
#include "tests/unit/samechain.h"
#include "tests/unit/stripes.h"
#include "tests/unit/tinyrun.h"
#include "train/trainer.h"

static char dir[] = "/tmp/ddm-far-XXXXXX", *shards;
static struct pool *pool;

static struct device *device_of(int far)
{
	return far ? device_far(pool) : device_cpu(pool, DT_F32);
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

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("no \"%s\" in:\n%s", what, text);
}

/* Whether a child process is killed by a memory fault. */
static int dies(void (*deed)(float *p), float *p)
{
	pid_t child = fork();
	int status;

	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		deed(p);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void reads(float *p)
{
	volatile float x = p[0];

	(void)x;
}

static void writes(float *p)
{
	*(volatile float *)p = 1;
}

static void it_is_far(void **state)
{
	struct device *d = device_far(pool);
	float *p = d->alloc(d, 3 * sizeof *p, "three", NULL), host[3] = {1, 2, 3}, back[3];
	float *seen = d->alloc_host(d, sizeof back, "three", NULL);
	void *event = d->event_new(d);

	(void)state;
	assert_true(dies(reads, p));
	assert_true(dies(writes, p));
	device_put(d, p, host, sizeof host);
	device_get(d, back, p, sizeof back);
	assert_memory_equal(back, host, sizeof back);
	assert_true(dies(reads, p));
	d->fetch(d, 0, seen, p, sizeof back);
	d->event_record(d, event, 0);
	assert_true(isnan(seen[0]));
	assert_int_equal(d->event_passed(d, event, 0), 0);
	assert_int_equal(d->event_passed(d, event, 1), 1);
	assert_memory_equal(seen, host, sizeof back);
	d->event_free(d, event);
	d->release_host(d, seen);
	d->release(d, p);
	device_free(d);
}

struct seen {
	volatile sig_atomic_t stop;
	int64_t stop_at, lines;
	double sum; /* of all numbers of the log lines, weighted by the step */
};

static void on_step(void *arg, const struct train_step *s)
{
	struct seen *w = arg;

	w->lines++;
	w->sum += (double)s->step * (s->loss + s->grad_norm + s->lr + (isnan(s->val_loss) ? 0 : s->val_loss));
	if (s->step == w->stop_at)
		w->stop = 1;
}

static struct train_options tiny(const struct net_def *def, const char *out)
{
	struct train_options o = tiny_run(def, shards, out);

	o.sample_every = 8;
	o.validate_every = 4;
	o.validate_samples = 7;
	o.log_every = 3;
	o.chain_every = 3; /* the run, the start, and after 3, 6 and 9 steps */
	return o;
}

/* Train without interruption; on the far device also with interruptions after steps 2 and 5. */
static void train_on(int far, struct train_options o, struct seen *w)
{
	static const int64_t stops[] = {2, 5, -1};
	struct train_hooks h = {.step = on_step, .arg = w, .stop = &w->stop};

	for (int i = w->stop_at ? 0 : 2; i < 3; i++) {
		struct device *d = device_of(far);
		struct device_memory m;
		struct err e = {0};
		int rc;

		w->stop = 0;
		w->stop_at = stops[i];
		rc = train_run(&o, d, &h, &e);
		if (rc != (i < 2 ? -1 : 0) || (i < 2 && e.code != ERR_AGAIN))
			fail_msg("%s", e.msg);
		d->memory(d, &m);
		assert_true(m.peak > 0 && m.used == 0);
		device_free(d);
	}
}

static void same_training(const char *name, struct train_options o)
{
	const char *weights = o.net.def == &net_dit ? "diffusion_pytorch_model.safetensors" : "model.safetensors";
	char *near = str_new("%s/cpu/%s", dir, name), *far = str_new("%s/far/%s", dir, name), *cut = str_new("%s/cut/%s", dir, name);
	struct seen a = {0}, b = {0}, c = {.stop_at = 1};

	o.out = near;
	train_on(0, o, &a);
	o.out = far;
	train_on(1, o, &b);
	assert_int_equal(a.lines, b.lines);
	assert_true(a.sum == b.sum);
	same_file(near, far, weights);
	same_file(near, far, "train/samples-00000008.png");
	same_file(near, far, "train/step-00000009/exp_avg_sq.safetensors");
	same_chain(near, far, 5);
	o.log_every = 1;
	o.out = cut;
	train_on(1, o, &c);
	same_file(near, cut, weights);
	mem_free(near);
	mem_free(far);
	mem_free(cut);
}

static void trains(void **state)
{
	struct train_options o = tiny(&net_dit, NULL);

	(void)state;
	o.condition = CONDITION_CLASS;
	o.accumulate = 3;
	same_training("expert_0", o);
	o.cluster = 1;
	o.objective.prediction = PREDICT_X0;
	o.recompute = 1;
	o.accumulate = 1;
	o.weight_decay = .1;
	same_training("expert_1", o);
	o = tiny(&net_router, NULL);
	same_training("router", o);
}

/* The moments stay on the host and are copied in five ranges, the last one shorter: the same bytes as moments on the device. */
static void offloads(void **state)
{
	struct train_options o = tiny(&net_dit, NULL);
	char *near = path_join(dir, "cpu/moments"), *far = path_join(dir, "far/moments");
	struct seen a = {0}, b = {.stop_at = 1};

	(void)state;
	o.weight_decay = .1;
	o.out = near;
	train_on(0, o, &a);
	o.out = far;
	o.offload = 2048;
	o.log_every = 1;
	train_on(1, o, &b);
	same_file(near, far, "diffusion_pytorch_model.safetensors");
	mem_free(near);
	mem_free(far);
}

/* The ways in which a step is submitted. */
enum way { WHOLE, IN_PARTS, IN_PARTS_NO_GRAPHS, OFFLOADED, PROFILED, NO_GRAPHS, WAYS };

/* Forward, backward and update are one graph each, captured at the second run. The work after a part is a graph for each kind: of four parts the
 * first begins the sum, the second completes a level of the tree, the third does neither. The update of offloaded moments is no graph, and in a
 * profiled run neither it nor the work after a part is; nor is the update of a step that a line of the log follows, which has norms by block. The
 * learning rate, the clipping and Adam's corrections change with the steps. The bytes equal those of a device without graphs. */
static void updates_by_graph(void **state)
{
	static const int64_t captures[WAYS] = {3, 6, 0, 2, 2, 0}, updates[WAYS] = {1, 4, 0, 0, 0, 0};
	char hash[WAYS][65];

	(void)state;
	for (int i = 0; i < WAYS; i++) {
		char *out = str_new("%s/graphs-%d", dir, i);
		struct train_options o = tiny(&net_dit, out);
		struct device *d = device_far(pool);
		struct far *f = (struct far *)d;
		struct err e = {0};
		int64_t parts = i == IN_PARTS || i == IN_PARTS_NO_GRAPHS ? 4 : 1, logged;

		o.sample_every = o.validate_samples = 0;
		o.batch = 8;
		o.accumulate = parts;
		o.warmup = 4;
		o.clip = .2;
		o.offload = i == OFFLOADED ? 2048 : 0;
		o.profile = i == PROFILED;
		if (!captures[i])
			d->capture_begin = NULL;
		if (train_run(&o, d, NULL, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(f->captures, captures[i]);
		logged = updates[i] ? o.steps / o.log_every : 0;
		assert_int_equal(f->launches, captures[i] ? 2 * (o.steps * parts - 1) + updates[i] * (o.steps - 1) - logged : 0);
		file_hash(out, "train/step-00000009/exp_avg_sq.safetensors", hash[i]);
		device_free(d);
		mem_free(out);
	}
	assert_string_equal(hash[WHOLE], hash[NO_GRAPHS]);
	assert_string_equal(hash[OFFLOADED], hash[NO_GRAPHS]);
	assert_string_equal(hash[PROFILED], hash[NO_GRAPHS]);
	assert_string_equal(hash[IN_PARTS], hash[IN_PARTS_NO_GRAPHS]);
}

/* All samples are NaN: no step counts on either device, and the fourth in a row ends the run. */
static void diverges(void **state)
{
	char *bad = make_shards(dir, "bad", 1, 0), *out = path_join(dir, "diverged"), said[2][sizeof((struct err *)0)->msg];

	(void)state;
	for (int far = 0; far < 2; far++) {
		struct train_options o = tiny(&net_dit, out);
		struct device *d = device_of(far);
		struct err e = {0};

		o.shards = bad;
		o.validate_samples = 0;
		o.max_skipped = 3;
		assert_int_equal(train_run(&o, d, NULL, &e), -1);
		assert_int_equal(e.code, ERR_DIVERGED);
		memcpy(said[far], e.msg, sizeof e.msg);
		device_free(d);
	}
	assert_string_equal(said[0], said[1]);
	assert_non_null(strstr(said[0], "at step 4"));
	mem_free(bad);
	mem_free(out);
}

/* Several devices are lost one after the other: each time ERR_UNAVAILABLE, and the next run continues from the disk to the bytes of an undisturbed
 * run. */
static void is_lost(void **state)
{
	char *whole = path_join(dir, "kept"), *out = path_join(dir, "lost");
	struct seen w = {0};
	int64_t calls = 0;

	(void)state;
	for (int i = 0; i < 6; i++) {
		static const int tenths[] = {0, 5, 1, 3, 2, 0};
		struct train_options o = tiny(&net_dit, i ? out : whole);
		struct device *d = device_far(pool);
		struct far *f = (struct far *)d;
		struct train_hooks h = {.step = on_step, .arg = &w};
		struct err e = {0};
		int rc;

		o.sample_every = 0;
		f->lost_at = calls * tenths[i] / 10;
		rc = train_run(&o, d, &h, &e);
		if (rc != (f->lost_at ? -1 : 0) || (rc && e.code != ERR_UNAVAILABLE))
			fail_msg("run %d: %d %s", i, rc, e.msg);
		if (i == 1 || i == 2)
			has(e.msg,
			    i == 1 ? "far: the device is lost; step 4 is saved: run the same command again" : "is saved: run the same command again");
		if (!i)
			calls = f->calls;
		device_free(d);
	}
	same_file(whole, out, "diffusion_pytorch_model.safetensors");
	mem_free(whole);
	mem_free(out);
}

static char *load(const char *folder, const char *name)
{
	char *path = path_join(folder, name), *text = file_load(path, 1 << 20, &(size_t){0}, NULL);

	assert_non_null(text);
	mem_free(path);
	return text;
}

static int count_of(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what))) {
		text++;
		n++;
	}
	return n;
}

struct told {
	int warnings;
	char last[400];
	uint64_t free; /* in the last log line */
};

static void on_warning(void *arg, const char *line)
{
	struct told *t = arg;

	t->warnings++;
	snprintf(t->last, sizeof t->last, "%s", line);
}

static void on_line(void *arg, const struct train_step *s)
{
	((struct told *)arg)->free = s->memory.free;
}

/* The ranges for a profiler, the device's memory in the log, and the warning about work outside graphs, which comes once. */
static void is_watched(void **state)
{
	static const char want[] = "step\n  data\n  upload\n  forward\n  backward\n  upload\n  forward\n  backward\n  optimizer\nstep\n";
	char *out = path_join(dir, "watched"), *log;
	struct train_options o = tiny(&net_dit, out);
	struct device *d = device_far(pool);
	struct far *f = (struct far *)d;
	struct told told = {0};
	struct train_hooks h = {.warn = on_warning, .step = on_line, .arg = &told};
	struct err e = {0};
	char text[64];

	(void)state;
	o.sample_every = o.validate_samples = 0;
	o.accumulate = 2;
	o.profile = 1;
	f->refuse = 1;
	f->total = (uint64_t)1 << 30;
	if (train_run(&o, d, &h, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(strncmp(str_text(&f->ranges), want, strlen(want)), 0);
	assert_int_equal(told.warnings, 1);
	has(told.last, "far: refused");
	log = load(out, "train.jsonl");
	assert_int_equal(count_of(log, "\"uncaptured\":\"far: refused\""), 3);
	assert_int_equal(count_of(log, "\"memory_peak\":"), 3);
	assert_int_equal(count_of(log, "\"memory_total\":1073741824"), 3);
	assert_true(told.free > 0 && told.free < f->total);
	snprintf(text, sizeof text, "\"memory_free\":%llu", (unsigned long long)told.free);
	has(log, text);
	assert_null(d->profile);
	device_free(d);
	mem_free(log);
	mem_free(out);
}

/* Two experts, larger than the routers here. Caller frees the name of their folder. */
static char *two_experts(void)
{
	char *model = path_join(dir, "experts");
	struct err e = {0};

	for (int k = 0; k < 2; k++) {
		char *out = str_new("%s/expert_%d", model, k);
		struct train_options o = tiny(&net_dit, out);
		struct device *d = device_of(0);

		o.cluster = k;
		trunk_edit(&o.net)->hidden = 96;
		o.steps = 1;
		o.sample_every = 0;
		if (dir_make(model, &e) || train_run(&o, d, NULL, &e))
			fail_msg("%s", e.msg);
		device_free(d);
		mem_free(out);
	}
	return model;
}

/* The peak of device memory against the plan. The last run learns from experts. */
static void holds_to_the_plan(void **state)
{
	char *experts = two_experts();

	(void)state;
	for (int i = 0; i < 5; i++) {
		char *out = str_new("%s/planned-%d", dir, i);
		struct train_options o = tiny(i >= 3 ? &net_router : &net_dit, out);
		struct device *d = device_far(pool);
		struct device_memory m;
		struct train_plan p;
		struct err e = {0};

		trunk_edit(&o.net)->hidden = 64;
		trunk_edit(&o.net)->mlp_ratio = 4;
		o.steps = 2;
		o.accumulate = i == 1 ? 3 : 1;
		o.recompute = i == 2;
		o.sample_every = 0;
		if (i == 4) {
			o.experts = experts;
			o.target.kind = TARGET_MIXTURE;
		}
		if (train_plan(&o, d, &p, &e) || train_run(&o, d, NULL, &e))
			fail_msg("%s", e.msg);
		d->memory(d, &m);
		if (fabs((double)p.device / (double)m.peak - 1) > .05)
			fail_msg("run %d: planned %llu, at most %llu", i, (unsigned long long)p.device, (unsigned long long)m.peak);
		assert_int_equal(p.experts > 0, i == 4);
		device_free(d);
		mem_free(out);
	}
	mem_free(experts);
}

static uint64_t planned(struct train_options o, enum recompute what, int64_t accumulate)
{
	struct device *d = device_far(pool);
	struct train_plan p;
	struct err e = {0};

	o.recompute = what == RECOMPUTE_BLOCKS;
	o.recompute_light = what == RECOMPUTE_ACTS;
	o.accumulate = accumulate;
	if (train_plan(&o, d, &p, &e))
		fail_msg("%s", e.msg);
	device_free(d);
	return p.device;
}

/* The message for a device with this much memory; NULL: none. Nothing is allocated on it. */
static void too_small(struct train_options o, uint64_t total, const char *said)
{
	struct device *d = device_far(pool);
	struct far *f = (struct far *)d;
	struct train_plan p;
	struct err e = {0};
	char have[64];

	f->total = total;
	assert_int_equal(train_plan(&o, d, &p, &e), 0);
	assert_int_equal(p.free, total);
	assert_int_equal(p.unfit.code, said ? ERR_NOMEM : 0);
	if (said) {
		assert_int_equal(train_run(&o, d, NULL, &e), -1);
		assert_int_equal(e.code, ERR_NOMEM);
		assert_string_equal(e.msg, p.unfit.msg);
		has(e.msg, said);
		snprintf(have, sizeof have, " and %.1f MB are free (", (double)total * 1e-6);
		has(e.msg, have);
		assert_int_equal(f->most, 0);
	}
	device_free(d);
}

/* Devices with less and less memory. The message proposes the first change that fits, by its own plan. */
static void is_too_small(void **state)
{
	char *out = path_join(dir, "small"), *said;
	struct train_options o = tiny(&net_dit, out);
	uint64_t whole, light, recomputed, least = UINT64_MAX;
	int64_t first = 0, best = 0;

	(void)state;
	o.batch = 32;
	whole = planned(o, RECOMPUTE_NONE, 1);
	light = planned(o, RECOMPUTE_ACTS, 1);
	recomputed = planned(o, RECOMPUTE_BLOCKS, 1);
	for (int64_t n = 2; n <= o.batch; n *= 2) {
		uint64_t both = planned(o, RECOMPUTE_BLOCKS, n);

		if (!first && planned(o, RECOMPUTE_NONE, n) < recomputed)
			first = n;
		if (both < least) {
			least = both;
			best = n;
		}
	}
	if (!(first && least < recomputed && recomputed < light && light < whole))
		fail_msg("%llu whole, %llu light, %llu recomputed, %llu least, cut in %d", (unsigned long long)whole, (unsigned long long)light,
		         (unsigned long long)recomputed, (unsigned long long)least, (int)first);
	too_small(o, whole, NULL);
	too_small(o, whole - 1, "(1 B too little); it would fit with --recompute-light (");
	too_small(o, light - 1, " too little); it would fit with --recompute (");
	said = str_new("it would fit with --accumulate %d (", (int)first);
	too_small(o, recomputed - 1, said);
	mem_free(said);
	said = str_new("it would not fit even with --recompute --accumulate %d (", (int)best);
	too_small(o, least - 1, said);
	mem_free(said);
	o.recompute = 1;
	o.accumulate = best;
	too_small(o, least - 1, "(1 B too little); no option lowers the need");
	mem_free(out);
}

/* --accumulate auto: the smallest number of parts that fits the device. The run keeps it where more or less memory is free, and has the bytes of a
 * run with that number. */
static void takes_the_parts_that_fit(void **state)
{
	char *out = path_join(dir, "auto"), *twin = path_join(dir, "auto-twin");
	const char *weights = "diffusion_pytorch_model.safetensors";
	struct seen w = {0};
	struct train_options o = tiny(&net_dit, out);
	uint64_t whole, cut;
	struct train_plan p;
	struct err e = {0};

	(void)state;
	o.batch = 32;
	o.steps = 3;
	o.log_every = 1;
	o.sample_every = 0;
	whole = planned(o, RECOMPUTE_NONE, 1);
	cut = planned(o, RECOMPUTE_NONE, 4);
	assert_true(cut < whole && cut < planned(o, RECOMPUTE_NONE, 2));
	o.accumulate = 0;
	for (int i = 0; i < 4; i++) {
		struct train_hooks h = {.step = on_step, .arg = &w, .stop = &w.stop};
		struct device *d = device_far(pool);

		/* Plans of a new run on two devices; on the second it is begun and stopped; then it goes on with much memory. */
		((struct far *)d)->total = i == 0 ? whole : i < 3 ? cut : 2 * whole;
		assert_int_equal(train_plan(&o, d, &p, &e), 0);
		assert_int_equal(p.accumulate, i == 0 ? 1 : 4);
		assert_int_equal(p.unfit.code, 0);
		w = (struct seen){.stop_at = 1};
		if (i >= 2)
			assert_int_equal(train_run(&o, d, &h, &e), i == 2 ? -1 : 0);
		if (i == 2)
			assert_int_equal(e.code, ERR_AGAIN);
		e = (struct err){0};
		device_free(d);
	}
	o.accumulate = 4;
	o.out = twin;
	w = (struct seen){0};
	train_on(1, o, &w);
	same_file(out, twin, weights);
	mem_free(out);
	mem_free(twin);
}

/* Sample n pictures of the model from `trains`, with a batch that does not divide n. */
static float *sample_on(int far, const char *route, double cfg, enum solver_kind solver, int64_t n)
{
	char *folder = path_join(dir, "cpu");
	struct device *dev = device_of(far);
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = 5, .device = dev};
	struct ensemble s;
	struct mixture m;
	struct sampler sampler;
	struct sampler_state *st;
	struct err e = {0};
	float *x;
	int64_t index[4];
	int32_t label[4];

	assert_int_equal(policy_parse(route, &o.policy, &e), 0);
	if (ensemble_open(&s, folder, &o, &e))
		fail_msg("%s", e.msg);
	x = mem_zalloc((size_t)(n * s.d), sizeof *x);
	m = (struct mixture){.k = s.k,
	                     .d = s.d,
	                     .expert = s.expert,
	                     .router = s.router.logits ? &s.router : NULL,
	                     .policy = o.policy,
	                     .cfg = cfg,
	                     .seed = 3,
	                     .device = dev,
	                     .shares = s.shares};
	sampler = (struct sampler){.mixture = &m, .solver = {solver, 5, 1, 0}, .seed = 3, .batch = 4, .order = ensemble_order, .order_arg = &s};
	st = sampler_new(&sampler, &e);
	if (!st)
		fail_msg("%s", e.msg);
	for (int64_t at = 0; at < n; at += 4) {
		int64_t rows = n - at < 4 ? n - at : 4;

		for (int64_t i = 0; i < rows; i++) {
			index[i] = 10 + at + i;
			label[i] = (int32_t)((at + i) % 2);
		}
		if (sampler_run(st, x + at * s.d, &(struct sampler_call){.n = rows, .index = index, .label = label}, NULL, NULL, &e))
			fail_msg("%s", e.msg);
	}
	for (int64_t i = 0; i < n * s.d; i++)
		assert_true(isfinite(x[i]));
	if (far && !strcmp(route, "full")) {
		has(str_text(&((struct far *)dev)->ranges), "router\nexpert 0\nexpert 0\nexpert 1\nexpert 1\nrouter\n");
		assert_null(strstr(str_text(&((struct far *)dev)->ranges), "expert 2"));
	}
	sampler_free(st);
	ensemble_release(&s);
	device_free(dev);
	mem_free(folder);
	return x;
}

static void samples(void **state)
{
	static const struct {
		const char *route;
		double cfg;
		enum solver_kind solver;
	} ways[] = {{"top-1", 1, SOLVER_EULER}, {"full", 2, SOLVER_HEUN}, {"prior", 1, SOLVER_HEUN}};

	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		float *a = sample_on(0, ways[i].route, ways[i].cfg, ways[i].solver, 7);
		float *b = sample_on(1, ways[i].route, ways[i].cfg, ways[i].solver, 7);

		assert_memory_equal(a, b, 7 * S * S * sizeof *a);
		mem_free(a);
		mem_free(b);
	}
}

/* The velocity of the only expert of `folder` at x (S * S) and t. */
static void expert_velocity(int far, const char *folder, float t, const float *x, float *v, const char *refused)
{
	struct device *d = device_of(far);
	struct ensemble_options o = {.policy = policy_of("expert:0"), .mode = CONVERT_MATCH, .capacity = 1, .device = d};
	struct ensemble s;
	struct err e = {0};
	float *p = d->alloc(d, 2 * S * S * sizeof *p, "x and v", NULL);
	int rc = ensemble_open(&s, folder, &o, &e);

	if (refused) {
		assert_int_equal(rc, -1);
		assert_int_equal(e.code, ERR_DATA);
		has(e.msg, refused);
	} else {
		if (rc)
			fail_msg("%s", e.msg);
		device_put(d, p, x, S * S * sizeof *x);
		assert_int_equal(s.expert[0].velocity(s.expert[0].arg, 1, p, &t, NULL, p + S * S, &e), 0);
		device_get(d, v, p + S * S, S * S * sizeof *v);
	}
	ensemble_release(&s);
	d->release(d, p);
	device_free(d);
}

static double error_of(const float *v, const float *x, const float *x0)
{
	double sum = 0;

	for (int i = 0; i < S * S; i++)
		sum += ((double)v[i] - (x[i] - x0[i])) * ((double)v[i] - (x[i] - x0[i]));
	return sqrt(sum / (S * S));
}

/* After nine steps the expert has not learned the noise, and x0hat from epsilon multiplies its error by (1 - t) / t. The mean of the data is stored
 * beside the weights: at t = 1 of the linear path it gives the optimal velocity x - mean, and below it the convex sum in convert.h. Without the mean
 * x0hat is unchanged. */
static void epsilon_knows_its_mean(void **state)
{
	struct train_options o = tiny(&net_dit, NULL);
	char *folder = path_join(dir, "noise"), *expert = path_join(folder, "expert_0"), *file = path_join(expert, "data_mean.npy");
	char *sidecar = path_join(expert, "data_mean.npy.json");
	const int64_t few[3] = {1, S, S - 1}, all[3] = {1, S, S};
	float x[S * S], v[2][3][S * S], w[S * S], mean[S * S], one[S * S];
	static const float times[] = {1, .995f, .97f};
	double sum[S * S] = {0};
	struct dataset_options of = {.cluster = 0};
	struct seen seen = {0};
	struct dataset *data;
	struct npy a = {0};
	struct err e = {0};

	(void)state;
	o.out = expert;
	o.objective.prediction = PREDICT_EPSILON;
	o.validate_samples = o.sample_every = 0;
	train_on(0, o, &seen);
	if (npy_load(&a, file, &e) || !(data = dataset_open(shards, &of, &e)))
		fail_msg("%s", e.msg);
	assert_true(a.rank == 3 && a.shape[0] == 1 && a.shape[1] == S && a.shape[2] == S);
	npy_to_f32(mean, &a);
	npy_release(&a);
	assert_int_equal(dataset_info(data)->count, EACH);
	for (int64_t i = 0; i < EACH; i++) {
		assert_int_equal(dataset_read(data, i, one, NULL, NULL, &e), 0);
		for (int k = 0; k < S * S; k++)
			sum[k] += (double)one[k] / EACH;
	}
	dataset_free(data);
	for (int k = 0; k < S * S; k++)
		assert_true(fabs(mean[k] - sum[k]) < 1e-7);
	/* Another mean, far from 0, and other noise: the following holds for all of them. */
	for (int k = 0; k < S * S; k++) {
		mean[k] += 2 + .01f * (float)k;
		x[k] = (float)(3 * rng_uniform(3, RNG_TEST, 9, (uint64_t)k, 0) - 1);
	}
	assert_int_equal(npy_write(file, NPY_F4, 3, all, mean, &e), 0);
	expert_velocity(0, folder, 1, x, w, "data_mean.npy: altered since it was written");
	assert_int_equal(unlink(sidecar), 0);
	for (int far = 0; far < 2; far++)
		for (int i = 0; i < 3; i++)
			expert_velocity(far, folder, times[i], x, v[far][i], NULL);
	assert_memory_equal(v[0], v[1], sizeof v[0]);
	for (int i = 0; i < 3; i++) {
		struct convert c = convert_at(&path_linear, PREDICT_EPSILON, CONVERT_MATCH, times[i]);

		assert_int_equal(unlink(file), 0);
		expert_velocity(0, folder, times[i], x, w, NULL);
		assert_int_equal(npy_write(file, NPY_F4, 3, all, mean, &e), 0);
		assert_true(fabs(c.blend - fmax(0, ((double)times[i] - .98) / .02)) < 1e-12);
		/* x0hat is x - t v, where v, up to 20, is rounded to 6e-8. */
		for (int k = 0; k < S * S; k++)
			assert_true(fabs(v[0][i][k] - (w[k] + c.blend * ((double)x[k] - (double)times[i] * w[k] - mean[k]) / times[i])) < 4e-6);
		if (i < 2)
			assert_true(error_of(v[0][i], x, mean) < .8 * error_of(w, x, mean) && error_of(w, x, mean) > 1);
		else
			assert_memory_equal(v[0][i], w, sizeof w);
	}
	assert_true(error_of(v[0][0], x, mean) < 2e-7);
	assert_int_equal(npy_write(file, NPY_F4, 3, few, mean, &e), 0);
	expert_velocity(0, folder, 1, x, w, "data_mean.npy: the mean of the expert's samples should be 1 x 8 x 8 finite numbers");
	mean[3] = NAN;
	assert_int_equal(npy_write(file, NPY_F4, 3, all, mean, &e), 0);
	expert_velocity(0, folder, 1, x, w, "data_mean.npy: the mean of the expert's samples should be 1 x 8 x 8 finite numbers");
	mem_free(sidecar);
	mem_free(file);
	mem_free(expert);
	mem_free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_far),    cmocka_unit_test(trains),
	                                   cmocka_unit_test(offloads),     cmocka_unit_test(updates_by_graph),
	                                   cmocka_unit_test(diverges),     cmocka_unit_test(is_lost),
	                                   cmocka_unit_test(is_watched),   cmocka_unit_test(holds_to_the_plan),
	                                   cmocka_unit_test(is_too_small), cmocka_unit_test(takes_the_parts_that_fit),
	                                   cmocka_unit_test(samples),      cmocka_unit_test(epsilon_knows_its_mean)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
