/* train: a tiny run learns; the same bytes after interruptions, with other threads and with recomputation; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/dataset.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "net/trunkconfig.h"
#include "tests/unit/stripes.h"
#include "tests/unit/tinyrun.h"
#include "train/state.h"
#include "train/trainer.h"

static char dir[] = "/tmp/ddm-train-XXXXXX", *shards, *bad_shards, *some_bad, *labelled, *miscounted;

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	shards = make_shards(dir, "shards", 0, 0);
	bad_shards = make_shards(dir, "bad", ALL_POISONED, 0);
	some_bad = make_shards(dir, "some-bad", SOME_POISONED, 0);
	miscounted = make_shards(dir, "miscounted", 0, 1);
	labelled = make_shards(dir, "labelled", 0, 2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(shards);
	mem_free(bad_shards);
	mem_free(some_bad);
	mem_free(labelled);
	mem_free(miscounted);
	return dir_remove(dir, NULL);
}

static struct train_options tiny(const struct net_def *def, char *out)
{
	struct train_options o = tiny_run(def, shards, out);

	o.steps = 30;
	o.batch = 8;
	o.warmup = 5;
	o.checkpoint.steps = 7;
	return o;
}

static char *out_dir(const char *name)
{
	return path_join(dir, name);
}

static void weights_hash(const char *out, const struct net_def *def, char hex[65])
{
	char *path = path_join(out, def == &net_dit ? "diffusion_pytorch_model.safetensors" : "model.safetensors");

	assert_int_equal(sha256_file(path, hex, NULL, NULL), 0);
	mem_free(path);
}

static void run(const struct train_options *o, int threads, char hex[65])
{
	struct err e = {0};
	struct pool *pool = pool_new(threads, &e);
	struct device *d = device_cpu(pool, DT_F32);

	if (train_run(o, d, NULL, &e))
		fail_msg("%s", e.msg);
	weights_hash(o->out, o->net.def, hex);
	device_free(d);
	pool_free(pool);
}

struct watch {
	volatile sig_atomic_t stop;
	int64_t stop_at;
	double val_loss, first_loss;
	int said_damaged;
	char warned[8192]; /* lines */
	size_t warned_len;
};

static void on_step(void *arg, const struct train_step *s)
{
	struct watch *w = arg;

	if (s->step == w->stop_at)
		w->stop = 1;
	if (!isnan(s->val_loss))
		w->val_loss = s->val_loss;
	if (isnan(w->first_loss))
		w->first_loss = s->loss;
}

static void on_warn(void *arg, const char *line)
{
	struct watch *w = arg;

	w->said_damaged |= strstr(line, "damaged") != NULL;
	if (w->warned_len < sizeof w->warned)
		w->warned_len += (size_t)snprintf(w->warned + w->warned_len, sizeof w->warned - w->warned_len, "%s\n", line);
}

static int run_watched(const struct train_options *o, struct watch *w, struct err *e)
{
	struct train_hooks h = {.step = on_step, .warn = on_warn, .arg = w, .stop = &w->stop};
	struct pool *pool = pool_new(2, e);
	struct device *d = device_cpu(pool, DT_F32);
	int rc;

	w->stop = 0;
	rc = train_run(o, d, &h, e);
	device_free(d);
	pool_free(pool);
	return rc;
}

/* Predicting a velocity of zero costs E|eps - x0|^2 = 1 + E|x0|^2, about 1.2 here. After 200 steps the loss of the averaged weights on fixed noise
 * must be below half of that. */
static void it_learns(void **state)
{
	char *out = out_dir("learn");
	struct train_options o = tiny(&net_dit, out);
	struct watch w = {.first_loss = NAN};
	struct err e = {0};

	(void)state;
	o.steps = 200;
	o.batch = 16;
	if (run_watched(&o, &w, &e))
		fail_msg("%s", e.msg);
	print_message("first loss %.3f, val_loss %.4f\n", w.first_loss, w.val_loss);
	assert_true(w.first_loss > .9);
	assert_true(w.val_loss < .6);
	mem_free(out);
}

/* Two clusters of equal size: guessing costs ln 2 = .693, which is the best possible near t = 1. */
static void the_router_learns(void **state)
{
	char *out = out_dir("router");
	struct train_options o = tiny(&net_router, out);
	struct watch w = {.first_loss = NAN};
	struct err e = {0};

	(void)state;
	o.steps = 200;
	o.batch = 32;
	if (run_watched(&o, &w, &e))
		fail_msg("%s", e.msg);
	print_message("val_loss %.4f\n", w.val_loss);
	assert_true(w.val_loss < .55);
	mem_free(out);
}

static void same_bytes_however_it_ran(void **state)
{
	char *base = out_dir("base"), *other = out_dir("other"), a[65], b[65];
	struct train_options o = tiny(&net_dit, base);

	(void)state;
	run(&o, 1, a);
	o.out = other;
	run(&o, 3, b);
	assert_string_equal(a, b);
	dir_remove(other, NULL);
	o.recompute = 1;
	run(&o, 2, b);
	assert_string_equal(a, b);
	dir_remove(other, NULL);
	o.recompute = 0;
	o.recompute_light = 1;
	run(&o, 2, b);
	assert_string_equal(a, b);
	dir_remove(other, NULL);
	o.recompute_light = 0;
	o.seed++;
	run(&o, 2, b);
	assert_string_not_equal(a, b);
	mem_free(base);
	mem_free(other);
}

static void interrupted_three_times(void **state)
{
	static const struct net_def *const kinds[] = {&net_dit, &net_router};

	(void)state;
	for (int k = 0; k < 2; k++) {
		char *whole = out_dir(k ? "whole-r" : "whole"), *broken = out_dir(k ? "broken-r" : "broken"), a[65], b[65];
		struct train_options o = tiny(kinds[k], whole);
		static const int64_t stops[] = {3, 4, 19};

		o.log_every = 1;
		o.validate_every = 4;
		o.accumulate = 4;
		run(&o, 2, a);
		o.out = broken;
		for (size_t i = 0; i < 3; i++) {
			struct watch w = {.stop_at = stops[i], .first_loss = NAN};
			struct err e = {0};

			assert_int_equal(run_watched(&o, &w, &e), -1);
			assert_int_equal(e.code, ERR_AGAIN);
		}
		run(&o, 2, b);
		assert_string_equal(a, b);
		mem_free(whole);
		mem_free(broken);
	}
}

/* Every prediction, path, weighting and law of time at least once: an interrupted run has the bytes of an uninterrupted one, other objectives give
 * other bytes, and config.json has everything that the sampler needs. A router learns on its own path. */
static void every_objective_goes_on(void **state)
{
	static const struct {
		const struct net_def *net;
		const char *path, *predict, *weighting, *time, *config;
	} v[] = {
	    {&net_dit, "linear", "velocity", "min-snr:5", "lognormal", "\"path\": \"linear\""},
	    {&net_dit, "linear", "x0", "none", "logit-normal:.2,.8", "\"prediction\": \"x0\""},
	    {&net_dit, "cosine", "v_prediction", "sigmoid:-1", "uniform", "\"path\": \"cosine\""},
	    {&net_dit, "ddpm", "epsilon", NULL, "discrete", "\"path\": \"linear_betas\""},
	    {&net_dit, "scaled-linear", "v_prediction", "min-snr", "uniform", "\"beta_end\": 0.012"},
	    {&net_dit, "gvp", "velocity", NULL, "discrete", "\"path\": \"gvp\""},
	    {&net_dit, "gvp", "epsilon", "edm", "lognormal:-.5,1", "\"weighting_number\": 0.5"},
	    {&net_dit, "edm", "edm", NULL, "lognormal", "\"prediction\": \"edm\""},
	    {&net_dit, "edm:1", "edm", NULL, "lognormal", "\"sigma_data\": 1.0"},
	    {&net_router, "cosine", "velocity", NULL, "uniform", "\"path\": \"cosine\""},
	    {&net_router, "ddpm", "velocity", NULL, "discrete", "\"num_train_timesteps\": 1000"},
	};
	enum { OBJECTIVES = sizeof v / sizeof *v };
	char hex[OBJECTIVES][65], b[65];

	(void)state;
	for (int i = 0; i < OBJECTIVES; i++) {
		char *whole = str_new("%s/objective-%d", dir, i), *broken = str_new("%s/objective-%d-broken", dir, i);
		char *config = path_join(whole, "config.json"), *text;
		struct train_options o = tiny(v[i].net, whole);
		size_t n;
		struct watch w = {.stop_at = 3, .first_loss = NAN};
		struct err e = {0};

		o.steps = 6;
		o.log_every = 1;
		o.checkpoint.steps = o.validate_samples = 0;
		assert_int_equal(path_choice_parse(v[i].path, &o.objective.path, NULL), 0);
		o.objective.prediction = (enum prediction)prediction_find(v[i].predict);
		assert_int_equal(time_law_parse(v[i].time, &o.objective.time, NULL), 0);
		assert_int_equal(v[i].weighting ? weighting_parse(v[i].weighting, &o.objective.weighting, NULL) : 0, 0);
		run(&o, 2, hex[i]);
		text = file_load(config, 1 << 16, &n, NULL);
		assert_non_null(strstr(text, v[i].config));
		o.out = broken;
		assert_int_equal(run_watched(&o, &w, &e), -1);
		assert_int_equal(e.code, ERR_AGAIN);
		assert_true(isfinite(w.first_loss));
		run(&o, 1, b);
		assert_string_equal(hex[i], b);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(hex[i], hex[k]);
		mem_free(text);
		mem_free(config);
		mem_free(whole);
		mem_free(broken);
	}
}

/* A bit flipped in the newest checkpoint: the one before it is used, and the result is the same. */
static void damaged_checkpoint(void **state)
{
	char *out = out_dir("damaged"), *base = out_dir("clean"), hex[65], want[65];
	char *newest = str_new("%s/train/step-00000016/exp_avg.safetensors", out);
	struct train_options o = tiny(&net_dit, out);
	struct watch w = {.stop_at = 16, .first_loss = NAN};
	struct err e = {0};
	FILE *f;
	int c;

	(void)state;
	o.log_every = 1;
	assert_int_equal(run_watched(&o, &w, &e), -1);
	f = fopen(newest, "r+b");
	assert_non_null(f);
	fseek(f, -10, SEEK_END);
	c = fgetc(f);
	fseek(f, -10, SEEK_END);
	fputc(c ^ 4, f);
	fclose(f);
	w.stop_at = -1;
	memset(&e, 0, sizeof e);
	if (run_watched(&o, &w, &e))
		fail_msg("%s", e.msg);
	assert_true(w.said_damaged);
	weights_hash(out, &net_dit, hex);
	o.out = base;
	run(&o, 2, want);
	assert_string_equal(hex, want);
	mem_free(out);
	mem_free(base);
	mem_free(newest);
}

static void replace_in(const char *path, const char *was, const char *is)
{
	struct err e = {0};
	size_t len;
	char *text = file_load(path, 1 << 20, &len, &e), *at = text ? strstr(text, was) : NULL, *changed;

	assert_non_null(at);
	changed = str_new("%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
	assert_int_equal(commit_bytes(path, changed, strlen(changed), &e), 0);
	mem_free(changed);
	mem_free(text);
}

/* The manifest of the only checkpoint is impossible, or lacks one of its files, which then would not be checked: the run starts over, and the
 * checkpoint is removed. */
static void damaged_manifest(void **state)
{
	static const char *const damage[][2] = {
	    {"\"updates\": 5", "\"updates\": -5"}, {"\"step\": 5", "\"step\": 4"}, {"ema.safetensors", "weights.safetensors"}};
	char *base = out_dir("begun"), *out = out_dir("impossible"), want[65], hex[65];
	char *manifest = str_new("%s/train/step-00000005/MANIFEST.json", out);
	struct train_options o = tiny(&net_dit, base);

	(void)state;
	o.log_every = 1;
	o.steps = 12;
	run(&o, 2, want);
	o.out = out;
	for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
		struct watch w = {.stop_at = 5, .first_loss = NAN};
		struct err e = {0};

		assert_int_equal(run_watched(&o, &w, &e), -1);
		assert_int_equal(e.code, ERR_AGAIN);
		replace_in(manifest, damage[i][0], damage[i][1]);
		w = (struct watch){.stop_at = -1, .first_loss = NAN};
		if (run_watched(&o, &w, &e))
			fail_msg("%s", e.msg);
		assert_true(w.said_damaged);
		weights_hash(out, &net_dit, hex);
		assert_string_equal(hex, want);
		dir_remove(out, NULL);
	}
	mem_free(manifest);
	mem_free(base);
	mem_free(out);
}

static void finished_again_and_other_options(void **state)
{
	char *out = out_dir("again"), a[65], b[65], *weights = path_join(out, "diffusion_pytorch_model.safetensors");
	struct train_options o = tiny(&net_dit, out);
	struct stat before, after;
	struct device *d = device_cpu(NULL, DT_F32);
	struct err e = {0};

	(void)state;
	run(&o, 2, a);
	assert_int_equal(stat(weights, &before), 0);
	run(&o, 1, b);
	assert_int_equal(stat(weights, &after), 0);
	assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
	assert_int_equal(before.st_ino, after.st_ino);
	o.lr *= 2;
	assert_int_equal(train_run(&o, d, NULL, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_non_null(strstr(e.msg, "lr"));
	assert_null(strstr(e.msg, "batch"));
	device_free(d);
	mem_free(weights);
	mem_free(out);
}

/* Batches in several parts: the gradient is the same sum in another order, so the weights agree within rounding (which Adam amplifies while moments
 * are small), not to the bit. */
static void accumulation(void **state)
{
	char *one = out_dir("acc1"), *four = out_dir("acc4"), a[65], b[65];
	struct train_options o = tiny(&net_dit, one);
	struct watch w1 = {.first_loss = NAN}, w4 = {.first_loss = NAN};
	struct err e = {0};

	(void)state;
	o.validate_every = 30;
	assert_int_equal(run_watched(&o, &w1, &e), 0);
	weights_hash(one, &net_dit, a);
	o.out = four;
	o.accumulate = 4;
	assert_int_equal(run_watched(&o, &w4, &e), 0);
	weights_hash(four, &net_dit, b);
	assert_true(fabs(w1.val_loss - w4.val_loss) < 2e-3 * w1.val_loss);
	mem_free(one);
	mem_free(four);
}

static void expect(struct train_options o, int code, const char *word)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct err e = {0};

	assert_int_equal(train_run(&o, d, NULL, &e), -1);
	device_free(d);
	if (e.code != code || !strstr(e.msg, word))
		fail_msg("code %d, %s", e.code, e.msg);
}

static void refusals(void **state)
{
	char *out = out_dir("refused");
	struct train_options o = tiny(&net_dit, out), p;

	(void)state;
	p = o;
	p.shards = "/nonexistent";
	expect(p, ERR_NOINPUT, "/nonexistent");
	p = o;
	p.cluster = 2;
	expect(p, ERR_USAGE, "2");
	p = o;
	trunk_edit(&p.net)->patch = 3;
	expect(p, ERR_USAGE, "patch");
	p = o;
	trunk_edit(&p.net)->patch = 8; /* 64 numbers into a width of 16 */
	expect(p, ERR_USAGE, "velocity");
	p = o;
	p.accumulate = 3;
	expect(p, ERR_USAGE, "batch");
	p = o;
	p.optimizer = OPTIMIZER_USUAL;
	expect(p, ERR_USAGE, "train_resolve");
	p = o;
	p.lr = 0;
	expect(p, ERR_USAGE, "learning rate");
	p = tiny(&net_router, out);
	p.target.kind = TARGET_MIXTURE;
	expect(p, ERR_USAGE, "--experts");
	p.experts = "/nonexistent";
	expect(p, ERR_NOINPUT, "/nonexistent");
	p.dropout = .1;
	expect(p, ERR_USAGE, "--dropout");
	p = o;
	p.condition = CONDITION_CLASS;
	expect(p, ERR_DATA, "class");
	p = o;
	p.shards = bad_shards;
	p.max_skipped = 3;
	p.validate_samples = 0;
	expect(p, ERR_DIVERGED, "not finite");
	p = o;
	p.shards = miscounted;
	p.condition = CONDITION_CLASS;
	expect(p, ERR_DATA, "has class 1, but the manifest counts");
	p = o;
	p.shards = labelled;
	p.condition = CONDITION_CLASS;
	p.class_dropout = 0;
	expect(p, ERR_DATA, "no class label");
	mem_free(out);
}

static int count_of(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* Three bad samples of 24 spoil most batches, but never twenty in a row. */
static void some_samples_are_not_finite(void **state)
{
	static const char *const keys[] = {"\"k0/00005\"", "\"k0/00013\"", "\"k0/00021\"", "\"k0/00029\""};
	char *out = out_dir("some"), *log = path_join(out, "train.jsonl"), *text;
	struct train_options o = tiny(&net_dit, out);
	struct watch w = {.first_loss = NAN};
	struct err e = {0};
	size_t len;

	(void)state;
	o.shards = some_bad;
	o.cluster = 0;
	o.steps = 100;
	assert_int_equal(run_watched(&o, &w, &e), -1);
	assert_int_equal(e.code, ERR_DIVERGED);
	assert_non_null(strstr(e.msg, "--max-skipped-share"));
	assert_non_null(strstr(e.msg, " 11 of "));
	assert_int_equal(count_of(w.warned, "is not finite: the step changes nothing"), 1);
	w.warned_len = 0;
	/* With that option the model is made from the remaining steps, and a message says so. */
	o.max_skipped_share = 1;
	e.code = 0;
	assert_int_equal(run_watched(&o, &w, &e), 0);
	text = file_load(log, 1 << 24, &len, &e);
	assert_non_null(text);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(count_of(w.warned, keys[i]), 1);
		assert_true(count_of(text, keys[i]) >= 1);
	}
	assert_null(strstr(w.warned, "k0/00004"));
	mem_free(text);
	mem_free(log);
	mem_free(out);
}

/* A sample without a class is treated like one whose class is dropped. */
static void classes_may_be_missing(void **state)
{
	char *out = out_dir("classes"), hex[65];
	struct train_options o = tiny(&net_dit, out);

	(void)state;
	o.shards = labelled;
	o.condition = CONDITION_CLASS;
	o.steps = 3;
	run(&o, 2, hex);
	mem_free(out);
}

/* A folder that does not exist holds no checkpoints; one that cannot be read may hold some, which starting over would lose. */
static void unreadable_checkpoints(void **state)
{
	char *none = path_join(dir, "no-checkpoints"), *odd = path_join(dir, "odd-checkpoints");
	struct train_state s = {0};
	struct err e = {0};
	int64_t *steps;
	int n;

	(void)state;
	assert_int_equal(commit_bytes(odd, "?", 1, NULL), 0);
	assert_int_equal(checkpoint_steps(none, &steps, &n, &e), 0);
	assert_true(n == 0 && !steps);
	assert_int_equal(checkpoint_steps(odd, &steps, &n, &e), -1);
	assert_true(n == 0 && !steps && e.code);
	e.code = 0;
	assert_int_equal(checkpoint_load(none, &s, "{}", -1, NULL, NULL, &e), 0);
	assert_int_equal(checkpoint_load(odd, &s, "{}", -1, NULL, NULL, &e), -1);
	assert_non_null(strstr(e.msg, odd));
	mem_free(none);
	mem_free(odd);
}

static void rates(void **state)
{
	struct train_options o = {.lr = 2, .warmup = 4, .schedule = SCHEDULE_COSINE};

	(void)state;
	assert_true(schedule_rate(&o, 14, 0) == .5);
	assert_true(schedule_rate(&o, 14, 3) == 2);
	assert_true(schedule_rate(&o, 14, 4) == 2);
	assert_true(fabs(schedule_rate(&o, 14, 9) - 1) < 1e-12);
	o.schedule = SCHEDULE_CONSTANT;
	assert_true(schedule_rate(&o, 14, 13) == 2);
}

/* A stop that comes while the shards are hashed ends the call before anything is computed. */
static void stopped_before_it_begins(void **state)
{
	volatile sig_atomic_t stop = 1;
	struct train_hooks hooks = {.stop = &stop};
	char *out = out_dir("early"), hex[65];
	struct train_options o = tiny(&net_dit, out);
	struct err e = {0};
	struct pool *pool = pool_new(1, &e);
	struct device *d = device_cpu(pool, DT_F32);

	(void)state;
	assert_int_equal(train_run(&o, d, &hooks, &e), -1);
	assert_int_equal(e.code, ERR_AGAIN);
	assert_non_null(strstr(e.msg, "before training began"));
	device_free(d);
	pool_free(pool);
	run(&o, 1, hex);
	mem_free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_learns),
	    cmocka_unit_test(the_router_learns),
	    cmocka_unit_test(same_bytes_however_it_ran),
	    cmocka_unit_test(interrupted_three_times),
	    cmocka_unit_test(stopped_before_it_begins),
	    cmocka_unit_test(every_objective_goes_on),
	    cmocka_unit_test(damaged_checkpoint),
	    cmocka_unit_test(damaged_manifest),
	    cmocka_unit_test(finished_again_and_other_options),
	    cmocka_unit_test(accumulation),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(classes_may_be_missing),
	    cmocka_unit_test(some_samples_are_not_finite),
	    cmocka_unit_test(rates),
	    cmocka_unit_test(unreadable_checkpoints),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
